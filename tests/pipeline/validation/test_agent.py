"""The round loop of verifier and refuter."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pipeline.errors import ModelUnreachable, RunSuperseded, ToolError
from pipeline.ports import ChatReply, ChatRequest, StopReason, Usage
from pipeline.prompting import read_json_block
from pipeline.records import AgentMode, StructuredVerdict
from pipeline.settings import ValidationSettings
from pipeline.testing import Scripted, ScriptedModel
from pipeline.validation.agent import Agent
from pipeline.validation.bundle import Bundle
from pipeline.validation.envelope import Envelope
from pipeline.validation.tools import ToolReply, Tools
from tests.pipeline.validation.world import Row, World, claim, padded, submit, verdict

READ = {"read_step_rows": {"step_id": 1, "offset": 0, "limit": 2}}
LOOKUP = {"lookup_schema": ["main.flights"]}
TOTAL = "SELECT count(*) AS flights FROM flights"
QUERY = {"query_warehouse": TOTAL}
BROKEN = {"query_warehouse": "SELECT broken"}
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


def errors_in(request: ChatRequest) -> list[str]:
    found: list[str] = read_json_block(last_user_text(request), "recent_tool_errors") or []
    return found


async def test_a_verifier_may_judge_by_the_bundle_alone() -> None:
    settled, requests = await run(VERIFIER, submit())
    assert settled.overall == "supported"
    assert len(requests) == 1
    provenance = settled.claim_verdicts[0].evidence.provenance
    assert provenance is not None
    assert provenance.source == "bundle step 1"


async def test_mode_and_document_are_stamped_whatever_the_model_wrote() -> None:
    wrong = {"doc_id": "x", "doc_kind": "recommendation", "mode": "refuter"}
    settled, _ = await run(VERIFIER, {"submit_verdict": {**verdict(), **wrong}})
    assert (settled.mode, settled.doc_kind) == ("verifier", "insight")
    assert settled.doc_id == world_of().bundle().doc.id


async def test_tool_results_come_back_as_one_json_block_each() -> None:
    _, requests = await run(VERIFIER, LOOKUP, READ, QUERY, submit())
    results = [read_json_block(last_user_text(r), "tool_result") for r in requests[1:]]
    assert [r["tool"] for r in results] == ["lookup_schema", "read_step_rows", "query_warehouse"]
    assert results[2] == {
        "tool": "query_warehouse",
        "sql": TOTAL,
        "row_count": 1,
        "rows": [{"flights": 336776}],
        "truncated": False,
    }


async def test_evidence_from_a_query_is_attested_with_its_number() -> None:
    row = claim(headline=True, row={"flights": "336,776"}, kind="warehouse_query", query_sql=TOTAL)
    settled, _ = await run(VERIFIER, QUERY, QUERY, submit(row))
    provenance = settled.claim_verdicts[0].evidence.provenance
    assert provenance is not None
    assert provenance.source == "query_warehouse #1"
    assert settled.overall == "supported"


async def test_evidence_that_no_tool_returned_downgrades_the_verdict() -> None:
    settled, _ = await run(VERIFIER, READ, submit(claim(headline=True, row={"flights": 336776})))
    assert settled.overall == "partial"
    assert "evidence row was not returned by any tool" in settled.overall_reason


async def test_a_sample_row_of_a_schema_lookup_is_no_evidence() -> None:
    """lookup_schema does not count as evidence-gathering."""
    sample = claim(headline=True, row={"carrier": "UA", "dep_delay": 2.0}, kind="warehouse_query")
    settled, _ = await run(VERIFIER, LOOKUP, submit(sample))
    assert settled.overall == "partial"
    assert "evidence row was not returned by any tool" in settled.overall_reason


async def test_provenance_follows_its_setting() -> None:
    for mode, overall in [("enforce", "partial"), ("record", "supported"), ("off", "supported")]:
        world = world_of(VALIDATION_EVIDENCE_PROVENANCE=mode)
        fake = submit(claim(headline=True, row={"flights": 1}))
        settled, _ = await run(VERIFIER, fake, world=world)
        assert settled.overall == overall


async def test_parse_errors_come_back_and_the_loop_goes_on() -> None:
    bad = {"thinking": "hm", "query_warehouse": TOTAL}
    settled, requests = await run(VERIFIER, bad, "no json", submit())
    assert settled.overall == "supported"
    assert "extra keys beside the envelope (thinking)" in errors_in(requests[1])[0]
    assert "no JSON object" in errors_in(requests[2])[0]


async def test_tool_errors_come_back_and_the_loop_goes_on() -> None:
    settled, requests = await run(VERIFIER, BROKEN, {"read_step_rows": {"step_id": 9}}, submit())
    assert settled.overall == "supported"
    assert "Catalog Error" in errors_in(requests[1])[0]
    assert "step 9 is no query step" in errors_in(requests[2])[0]
    stats = settled.stats
    assert (stats.queries_issued, stats.step_reads_used, stats.rounds) == (0, 0, 3)


async def test_an_error_that_quotes_a_megabyte_is_cut() -> None:
    world = world_of()

    class Quoting(Tools):
        async def call(self, envelope: Envelope, bundle: Bundle) -> ToolReply:
            raise ToolError("no number: '" + "M" * 1_000_000 + "'")

    model = ScriptedModel([QUERY, submit()])
    await Agent(VERIFIER, model, Quoting(), world.settings).run(world.bundle())
    (told,) = errors_in(model.requests[1])
    assert told.startswith("no number: 'MMM")
    assert len(told) == 2_001


async def test_a_cut_off_reply_is_told_to_be_brief() -> None:
    cut = ChatReply('{"submit_verdict": {"claims', stop=StopReason.LENGTH)
    _, requests = await run(VERIFIER, cut, submit())
    assert errors_in(requests[1])[0].startswith("the reply was cut off")


async def test_an_empty_reply_is_never_sent_back_empty() -> None:
    _, requests = await run(VERIFIER, "", submit())
    assert all(message.content.strip() for message in requests[1].messages)


@pytest.mark.parametrize(("mode", "rounds"), [(VERIFIER, 8), (REFUTER, 6)])
async def test_the_loop_ends_after_its_rounds_with_a_forced_final(
    mode: AgentMode, rounds: int
) -> None:
    world = world_of(VALIDATION_VERIFIER_TOKEN_CAP=500_000, VALIDATION_REFUTER_TOKEN_CAP=500_000)
    settled, requests = await run(mode, *[READ] * rounds, submit(), world=world)
    assert len(requests) == rounds + 1
    assert settled.overall == "supported"
    assert last_user_text(requests[-1]).startswith(FORCED)
    assert not any(FORCED in m.content for r in requests[:-1] for m in r.messages)
    assert "Budget exhausted" in requests[-1].messages[-2].content
    assert f"Rounds left: {rounds - 1}" in last_user_text(requests[1])


@pytest.mark.parametrize(("mode", "output"), [(VERIFIER, 4000), (REFUTER, 3000)])
async def test_each_reply_has_its_output_cap(mode: AgentMode, output: int) -> None:
    _, requests = await run(mode, READ, submit())
    assert {request.max_tokens for request in requests} == {output}
    assert {request.label for request in requests} == {"verify" if mode is VERIFIER else "refute"}


@pytest.mark.parametrize("reply", [READ, QUERY, "prose", {"thinking": 1, **submit()}])
async def test_a_forced_final_without_a_verdict_is_unverifiable(reply: Scripted) -> None:
    world = world_of(VALIDATION_VERIFIER_MAX_ROUNDS=0)
    settled, requests = await run(VERIFIER, reply, world=world)
    assert len(requests) == 1
    assert settled.overall == "unverifiable"
    assert settled.overall_reason == "forced final round produced no verdict"


async def test_a_model_that_fails_ends_as_unverifiable_with_the_reason() -> None:
    down = ModelUnreachable("connection refused")
    settled, _ = await run(VERIFIER, READ, down)
    assert settled.overall == "unverifiable"
    assert settled.overall_reason == "chat failed: connection refused"
    assert settled.stats.step_reads_used == 1
    assert settled.doc_kind == "insight"


async def test_a_model_that_fails_in_the_forced_final_says_so() -> None:
    world = world_of(VALIDATION_REFUTER_MAX_ROUNDS=1)
    settled, _ = await run(REFUTER, LOOKUP, ModelUnreachable("gone"), world=world)
    assert settled.overall == "unverifiable"
    assert settled.overall_reason == "forced chat failed: gone"


async def test_a_refusal_is_not_asked_again() -> None:
    settled, requests = await run(VERIFIER, ChatReply("", stop=StopReason.REFUSAL))
    assert len(requests) == 1
    assert settled.overall_reason == "chat failed: the model declined to answer"


# ---------------------------------------------------------------- refuter discipline


@pytest.mark.parametrize("before", [[], [LOOKUP], [BROKEN], [{"read_step_rows": {"step_id": 9}}]])
async def test_a_refuter_that_looked_at_nothing_is_sent_back(before: list[Scripted]) -> None:
    settled, requests = await run(REFUTER, *before, submit(), READ, submit())
    assert settled.overall == "supported"
    refusal = errors_in(requests[len(before) + 1])
    assert "a refuter must look at data first" in refusal[0]
    assert "query_warehouse" in refusal[0]


@pytest.mark.parametrize("tool", [READ, QUERY])
async def test_a_query_or_a_step_read_is_looking(tool: Row) -> None:
    settled, requests = await run(REFUTER, tool, submit())
    assert (settled.overall, len(requests)) == ("supported", 2)


@pytest.mark.parametrize("overall", ["supported", "rejected", "unverifiable"])
async def test_a_forced_final_without_any_look_is_downgraded_to_partial(overall: str) -> None:
    world = world_of(VALIDATION_REFUTER_MAX_ROUNDS=2)
    status = "unverifiable" if overall == "unverifiable" else overall
    final = submit(claim(status=status, headline=True), overall=overall)
    settled, _ = await run(REFUTER, submit(), LOOKUP, final, world=world)
    assert settled.overall == "partial"
    assert settled.overall_reason.endswith(
        "refuter discipline: zero tool calls before forced final"
    )


async def test_a_forced_final_after_a_look_stands() -> None:
    world = world_of(VALIDATION_REFUTER_MAX_ROUNDS=1)
    settled, _ = await run(REFUTER, READ, submit(), world=world)
    assert settled.overall == "supported"
    assert "refuter discipline" not in settled.overall_reason


async def test_a_verifier_without_any_look_is_not_downgraded() -> None:
    world = world_of(VALIDATION_VERIFIER_MAX_ROUNDS=0)
    settled, _ = await run(VERIFIER, submit(), world=world)
    assert settled.overall == "supported"


# ---------------------------------------------------------------- stats and stopping


async def test_every_verdict_carries_its_stats() -> None:
    world = world_of()
    world.add_step(padded(60))
    deep = {"read_step_rows": {"step_id": 2, "offset": 55}}
    calls = [LOOKUP, QUERY, QUERY, READ, deep, BROKEN]
    replies = [
        ChatReply(json.dumps(c), usage=Usage(input=100, output=10, cached=60)) for c in calls
    ]
    settled, _ = await run(VERIFIER, *replies, submit(), world=world)
    stats = settled.stats
    assert (stats.lookups_used, stats.queries_issued, stats.step_reads_used) == (1, 2, 2)
    assert (stats.step_read_max_offset, stats.step_read_beyond_retained) == (55, 0)
    assert stats.rounds == 7
    assert stats.llm_tokens_cached == 360
    assert stats.llm_tokens_in > 600
    assert stats.llm_tokens_out > 60
    assert stats.duration_millis >= 0


async def test_reads_beyond_the_retained_sample_are_counted() -> None:
    world = world_of()
    step = world.add_step(padded(50), row_count=400)
    del world.results[step.step]
    deep = {"read_step_rows": {"step_id": 2, "offset": 100}}
    settled, _ = await run(VERIFIER, deep, READ, submit(), world=world)
    assert settled.stats.step_read_beyond_retained == 1


async def test_a_stop_is_noticed_between_rounds() -> None:
    world, rounds = world_of(), 0

    async def checkpoint() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise RunSuperseded("cancelled")

    model = ScriptedModel(lambda _: READ)
    agent = Agent(VERIFIER, model, world.tools, world.settings, checkpoint=checkpoint)
    with pytest.raises(RunSuperseded):
        await agent.run(world.bundle())
    assert len(model.requests) == 2


async def test_a_stop_is_noticed_before_the_forced_final() -> None:
    world = world_of(VALIDATION_VERIFIER_MAX_ROUNDS=0)

    async def checkpoint() -> None:
        raise RunSuperseded("cancelled")

    model = ScriptedModel([])
    with pytest.raises(RunSuperseded):
        await Agent(VERIFIER, model, world.tools, world.settings, checkpoint=checkpoint).run(
            world.bundle()
        )


async def test_a_cancelled_task_stops_between_rounds_even_with_an_instant_model() -> None:
    world = world_of(VALIDATION_VERIFIER_MAX_ROUNDS=10**6, VALIDATION_VERIFIER_TOKEN_CAP=10**12)
    third = asyncio.Event()

    def play(_: ChatRequest) -> Row:
        if len(model.requests) == 3:
            third.set()
        return READ

    model = ScriptedModel(play)
    agent = Agent(VERIFIER, model, world.tools, world.settings)
    task = asyncio.ensure_future(agent.run(world.bundle()))
    await third.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.requests) < 10
