"""Policies decide about time and nothing else: the records are the same under each."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import Any

import pytest

from pipeline.errors import RunSuperseded
from pipeline.ports import ChatRequest
from pipeline.prompting import read_json_block
from pipeline.records import (
    Insight,
    ValidationResult,
)
from pipeline.testing import ScriptedModel
from pipeline.validation.agents import LocalAgents
from pipeline.validation.phase import (
    Budget,
    Validator,
    validate_insights,
)
from pipeline.validation.policy import (
    ConcurrentValidation,
    SequentialValidation,
    ValidationPolicy,
    policy_for,
)
from tests.pipeline.validation.world import NOW, World, claim, insight_of, submit


def test_the_setting_chooses_the_policy() -> None:
    assert isinstance(policy_for(1), SequentialValidation)
    assert isinstance(policy_for(8), ConcurrentValidation)


async def test_concurrent_validation_never_exceeds_its_limit_and_uses_it() -> None:
    running, most = 0, 0

    async def work(doc: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(doc % 5 + 1):
            await asyncio.sleep(0)
        running -= 1
        return doc

    got: list[int] = []

    async def settled(result: int) -> None:
        got.append(result)

    await ConcurrentValidation(4).run(list(range(40)), work, settled)
    assert got == list(range(40))
    assert most == 4


async def test_a_listener_that_fails_stops_the_work_too() -> None:
    done: list[int] = []

    async def work(doc: int) -> int:
        await asyncio.sleep(0)
        done.append(doc)
        return doc

    async def settled(result: int) -> None:
        raise RunSuperseded("cancelled")

    with pytest.raises(RunSuperseded):
        await ConcurrentValidation(2).run(list(range(50)), work, settled)
    assert len(done) < 10


DOCUMENTS = 60
STATUSES = ["confirmed", "supported", "partial", "rejected", "unverifiable"]


def lot(text: str) -> int:
    """A number that depends on the text alone: the same draw in every policy."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def deterministic_model(seed: int) -> ScriptedModel:
    """Answers by the document alone, after a random time. Some calls fail, by document: for ever,
    or the first time only."""
    chance, lost_once = random.Random(seed), set[str]()

    async def play(request: ChatRequest) -> dict[str, Any] | BaseException | str:
        await asyncio.sleep(chance.random() * 0.004)
        doc = read_json_block(request.messages[0].content, "bundle")["doc"]
        is_refuter = "Veridical role: refuter" in request.messages[1].content
        key = f"{doc['id']} {is_refuter}"
        draw, turn = lot(key), (len(request.messages) - 2) // 2
        if draw % 13 == 0 or (draw % 5 == 0 and key not in lost_once):
            lost_once.add(key)
            return ConnectionError(f"connection lost for {doc['id']}")
        if turn == 0 and draw % 11 == 0:
            return "no envelope at all"
        if turn <= 1 and draw % 2:
            return {"read_step_rows": {"step_id": 1, "offset": draw % 4}}
        if is_refuter and turn == 0:
            return {"query_warehouse": "SELECT 1" if draw % 3 else "SELECT broken"}
        mild = is_refuter and draw % 4
        status = "supported" if mild else STATUSES[draw // 7 % len(STATUSES)]
        head = claim(doc["headline"], status, headline=True)
        if draw % 7 == 0:
            head["evidence"]["row"] = {"carrier": "UA", "flights": draw}
        return submit(head, overall=status)

    return ScriptedModel(play)


async def judged_by(
    policy: ValidationPolicy, seed: int
) -> tuple[list[ValidationResult], list[Insight]]:
    world = World({"SELECT 1": [{"one": 1}]})
    model = deterministic_model(seed)
    insights = [
        insight_of(n, name=f"claim {n}", affected_count=lot(str(n)) % 12)
        for n in range(1, DOCUMENTS + 1)
    ]
    agents = LocalAgents(model, world.tools, world.settings)
    validator = Validator(world.source, agents, world.settings, policy, clock=lambda: NOW)
    rows: list[ValidationResult] = []
    budget = Budget(45)
    for start in range(0, DOCUMENTS, 20):
        rows += await validate_insights(insights[start : start + 20], validator, budget)
    for row in rows:
        for verdict in (row.verifier, row.refuter):
            if verdict is not None:
                verdict.stats.duration_millis = 0
    return rows, insights


async def test_sixty_documents_come_out_the_same_under_every_policy() -> None:
    sequential, stamped = await judged_by(SequentialValidation(), seed=1)
    assert len(sequential) == DOCUMENTS
    found = {row.status for row in sequential}
    assert {"supported", "rejected", "partial", "unverifiable", "skipped_budget_cap"} <= found
    assert sum(row.status == "skipped_budget_cap" for row in sequential) == 15
    reasons = [row.reasoning for row in sequential]
    assert any("failed after one retry: connection lost" in reason for reason in reasons)
    for limit, seed in [(1, 2), (8, 3), (60, 4)]:
        concurrent, others = await judged_by(ConcurrentValidation(limit), seed)
        assert concurrent == sequential
        assert others == stamped
