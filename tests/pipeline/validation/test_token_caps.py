"""Token caps: what a round may use, what makes room, and when the forced final comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.ports import ChatReply, ChatRequest, Usage
from pipeline.prompting import load, read_json_block
from pipeline.records import AgentMode, StructuredVerdict
from pipeline.settings import ValidationSettings
from pipeline.testing import Scripted, ScriptedModel
from pipeline.validation.agent import Agent
from pipeline.validation.bundle import Bundle
from tests.pipeline.validation.world import CARRIERS, Row, World, claim, padded, submit

READ = {"read_step_rows": {"step_id": 1, "offset": 0, "limit": 2}}
LOOKUP = {"lookup_schema": ["main.flights"]}
TOTAL = "SELECT count(*) AS flights FROM flights"
QUERY = {"query_warehouse": TOTAL}
FORCED = "Forced final round: only submit_verdict is accepted."
VERIFIER, REFUTER = AgentMode.VERIFIER, AgentMode.REFUTER


def world_of(**settings: Any) -> World:
    return World({TOTAL: [{"flights": 336776}]}, settings=ValidationSettings(**settings))


async def run(
    mode: AgentMode, *replies: Scripted, world: World | None = None, bundle: Bundle | None = None
) -> tuple[StructuredVerdict, list[ChatRequest]]:
    world = world or world_of()
    model = ScriptedModel(list(replies))
    agent = Agent(mode, model, world.tools, world.settings)
    return await agent.run(bundle or world.bundle()), model.requests


def last_user_text(request: ChatRequest) -> str:
    return request.messages[-1].content


def tool_results(request: ChatRequest) -> list[Row]:
    found = [read_json_block(m.content, "tool_result") for m in request.messages]
    return [result for result in found if result is not None]


def costing(reply: Row, tokens: int = 3_000) -> ChatReply:
    """A reply whose prompt cost so many tokens, however long the prompts under test are."""
    return ChatReply(json.dumps(reply), usage=Usage(input=tokens, output=10))


async def test_rows_of_the_oldest_result_make_room_only_when_the_cap_demands_it() -> None:
    world = world_of(VALIDATION_VERIFIER_TOKEN_CAP=13_800, VALIDATION_VERIFIER_MAX_OUTPUT=500)
    world.add_step(padded(50))
    page = {"read_step_rows": {"step_id": 2}}
    settled, requests = await run(
        VERIFIER, costing(LOOKUP), costing(page), costing(READ), submit(), world=world
    )
    assert settled.overall == "supported"
    assert all("rows" in result for result in tool_results(requests[2])[1:])
    lookup, first, second = tool_results(requests[3])
    assert "rows" not in first
    assert first["rows_omitted_due_to_history_truncation"] is True
    assert (first["step_id"], first["total_rows"]) == (2, 50)
    assert second["rows"] == CARRIERS[:2]
    assert lookup["tables"]
    before, after = requests[2].messages, requests[3].messages
    assert after[:5] == before[:5]


async def test_dropping_rows_uses_up_a_round() -> None:
    world = world_of(
        VALIDATION_VERIFIER_TOKEN_CAP=13_800,
        VALIDATION_VERIFIER_MAX_OUTPUT=500,
        VALIDATION_VERIFIER_MAX_ROUNDS=4,
    )
    world.add_step(padded(50))
    page = {"read_step_rows": {"step_id": 2}}
    _, requests = await run(
        VERIFIER, costing(LOOKUP), costing(page), costing(READ), submit(), world=world
    )
    assert last_user_text(requests[-1]).startswith(FORCED)


async def test_evidence_from_dropped_rows_still_counts() -> None:
    world = world_of(VALIDATION_VERIFIER_TOKEN_CAP=13_800, VALIDATION_VERIFIER_MAX_OUTPUT=500)
    world.add_step(padded(50))
    page = {"read_step_rows": {"step_id": 2}}
    final = submit(claim(headline=True, row={"n": 49}, step_id=2))
    settled, _ = await run(
        VERIFIER, costing(LOOKUP), costing(page), costing(READ), final, world=world
    )
    assert settled.overall == "supported"


@pytest.mark.parametrize(("short_by", "forced"), [(0, False), (1, True)])
async def test_the_soft_cap_keeps_the_forced_final_in_reserve(short_by: int, forced: bool) -> None:
    """A round needs its prompt and a whole reply below the cap less the forced final's reserve."""
    spent, output = 5_000, 700
    knobs = {"VALIDATION_VERIFIER_MAX_OUTPUT": output, "VALIDATION_ESTIMATE_TOKEN_RATIO": 1.0}
    probe = ScriptedModel([costing(LOOKUP, spent - 10), submit()])
    roomy = world_of(**knobs, VALIDATION_VERIFIER_TOKEN_CAP=10**6)
    await Agent(VERIFIER, probe, roomy.tools, roomy.settings).run(roomy.bundle())
    second = len(probe.requests[1].system) + sum(len(m.content) for m in probe.requests[1].messages)
    reserve = len(load("validation/forced_final").strip()) + output
    cap = spent + second + output + reserve - short_by
    tight = world_of(**knobs, VALIDATION_VERIFIER_TOKEN_CAP=cap)
    _, requests = await run(VERIFIER, costing(LOOKUP, spent - 10), submit(), world=tight)
    assert last_user_text(requests[1]).startswith(FORCED) is forced


async def test_a_cap_below_the_reserve_goes_straight_to_the_forced_final() -> None:
    world = world_of(VALIDATION_VERIFIER_TOKEN_CAP=4_000)
    settled, requests = await run(VERIFIER, submit(), world=world)
    assert len(requests) == 1
    assert last_user_text(requests[0]).startswith(FORCED)
    assert settled.overall == "supported"


async def test_a_spent_cap_with_nothing_left_to_drop_ends_in_the_forced_final() -> None:
    greedy = ChatReply(json.dumps(LOOKUP), usage=Usage(input=40_000, output=10, cached=39_000))
    settled, requests = await run(VERIFIER, greedy, submit())
    assert len(requests) == 2
    assert last_user_text(requests[1]).startswith(FORCED)
    assert settled.overall == "supported"


async def test_the_forced_final_keeps_rows_that_fit_and_drops_those_that_do_not() -> None:
    roomy = world_of(VALIDATION_VERIFIER_MAX_ROUNDS=1)
    _, requests = await run(VERIFIER, READ, submit(), world=roomy)
    assert tool_results(requests[-1])[0]["rows"] == CARRIERS[:2]
    greedy = ChatReply(json.dumps(READ), usage=Usage(input=29_000, output=10))
    _, requests = await run(VERIFIER, greedy, submit(), world=roomy)
    assert "rows" not in tool_results(requests[-1])[0]


def typical_rows(seed: int, width: int) -> list[Row]:
    """Fifty groups with a name, a count and up to three measures, as a warehouse computes them."""
    wide = [
        {
            "carrier": f"C{i}",
            "flights": 60_000 - seed - i * 997,
            "avg_dep_delay": 12 + seed / 7 + i / 13,
            "avg_arr_delay": 7 + seed / 11 - i / 17,
            "late_share": 0.1 + i / 1009,
        }
        for i in range(50)
    ]
    return [dict(list(row.items())[:width]) for row in wide]


@pytest.mark.parametrize(("steps", "width"), [(1, 5), (2, 5), (3, 3)])
@pytest.mark.parametrize("mode", [VERIFIER, REFUTER])
async def test_a_typical_document_leaves_room_for_two_tool_calls_at_least(
    mode: AgentMode, steps: int, width: int
) -> None:
    """The caps count every prompt again (facts I.3), so rules and bundle must be short."""
    world = world_of()
    cited = [world.add_step(typical_rows(n, width)).step for n in range(steps)]
    claims = [f"claim {n}: carrier C{n} has the most flights of all, 58,665" for n in range(8)]
    bundle = world.bundle(source_steps=cited, description=" ".join(claims))
    if mode is REFUTER:
        bundle = bundle.model_copy(update={"prior_claims": claims})
    silent = ChatReply(json.dumps(QUERY), usage=Usage())
    settled, _ = await run(mode, *[silent] * 2, *[submit()], world=world, bundle=bundle)
    assert settled.stats.queries_issued == 2


async def test_a_provider_that_reports_no_usage_is_estimated() -> None:
    silent = ChatReply(json.dumps(READ), usage=Usage())
    world = world_of(VALIDATION_ESTIMATE_TOKEN_RATIO=0.5)
    _, requests = await run(VERIFIER, silent, silent, submit(), world=world)
    assert last_user_text(requests[-1]).startswith(FORCED)
