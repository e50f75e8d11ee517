"""Odd prompts: unknown roles, broken blocks, errors, forced finals, missing rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.llm.offline import OfflineAnalyst
from pipeline.ports import ChatRequest, Message
from pipeline.prompting import block, text_block
from pipeline.records import AgentMode, DocKind
from pipeline.validation.bundle import Bundle, BundleDoc, described
from pipeline.validation.tools import WarehouseTools
from tests.adapters.llm.offline.conftest import Case, judged, tools_over

FORCED = "Forced final round: only submit_verdict is accepted."


async def ask(system: str, *messages: str) -> str:
    roles = ("user", "assistant")
    turns = tuple(Message(roles[i % 2], m) for i, m in enumerate(messages))
    return (await OfflineAnalyst().chat(ChatRequest(system, turns, 4000))).text


def test_it_says_that_no_language_model_is_involved() -> None:
    assert OfflineAnalyst().info.offline
    assert OfflineAnalyst().info.model == "offline-analyst"


@pytest.mark.parametrize(
    ("system", "message", "answer"),
    [
        ("", "hello", "a prompt that names no role"),
        ("# Veridical role: poet", "a poem", "the role 'poet'"),
        ("", text_block("error", "# Veridical role: explorer"), "a prompt that names no role"),
    ],
)
async def test_an_unknown_role_gets_plain_words(system: str, message: str, answer: str) -> None:
    assert answer in await ask(system, message)


@pytest.mark.parametrize("role", ["explorer", "analyst", "recommender", "verifier", "refuter"])
@pytest.mark.parametrize(
    "body",
    [
        "nothing at all",
        "<bundle>\n{broken\n</bundle>\n<insights>\n[1, null, {}]\n</insights>",
        "<bundle>\n[]\n</bundle>\n<query_results>\n{}\n</query_results>\n<area>\n3\n</area>",
        '<query_results>\n[{"query": 3}, {"query_result": []}, null]\n</query_results>',
        "<catalog>\n | | |\nx | 3 columns | many rows\n</catalog>",
    ],
)
async def test_a_broken_prompt_still_gets_a_reply_in_the_grammar(role: str, body: str) -> None:
    reply = json.loads(await ask("rules", f"# Veridical role: {role}\n{body}"))
    keys = {
        "explorer": {"done", "lookup_schema"},
        "analyst": {"insights"},
        "recommender": {"recommendations"},
    }.get(role, {"submit_verdict", "query_warehouse"})
    assert keys & set(reply)


async def test_the_same_request_gets_the_same_reply(demo: Case) -> None:
    bundle = block("bundle", demo.bundle(demo.result.insights[0]).payload())
    replies = {await ask("r", bundle, "x", "# Veridical role: verifier") for _ in range(3)}
    assert len(replies) == 1


async def test_an_empty_catalog_ends_the_exploration() -> None:
    reply = json.loads(await ask("# Veridical role: explorer", "go"))
    assert reply["done"] is True


async def test_tables_are_looked_up_ten_at_a_time_the_largest_first() -> None:
    lines = "\n".join(f"main.t{i} | 3 columns | {i}.5K rows" for i in range(1, 15))
    catalog = text_block("catalog", f"datasource default | dialect duckdb | 14 tables\n{lines}")
    reply = json.loads(await ask(f"# Veridical role: explorer\n{catalog}", "go"))
    assert reply["lookup_schema"] == [f"main.t{i}" for i in range(14, 4, -1)]
    assert reply["datasource_id"] == "default"


# ---------------------------------------------------------------- validation turns


def opening(case: Case) -> list[str]:
    payload = case.bundle(case.result.insights[0]).payload()
    return [block("bundle", payload), "{}", "# Veridical role: verifier"]


async def verify(turns: list[str]) -> dict[str, Any]:
    return json.loads(await ask("rules", *turns))


async def test_a_failed_query_is_followed_by_a_smaller_one_and_then_by_the_cited_rows(
    demo: Case,
) -> None:
    turns = opening(demo)
    sent: list[str] = []
    reply = await verify(turns)
    while "query_warehouse" in reply:
        sent.append(reply["query_warehouse"])
        turns += [json.dumps(reply), block("recent_tool_errors", ["query_warehouse failed: no"])]
        reply = await verify(turns)
    assert len(sent) == len(set(sent)) == 2
    assert len(sent[1]) < len(sent[0])
    verdict = reply["submit_verdict"]
    assert {c["status"] for c in verdict["claim_verdicts"]} == {"supported"}
    assert {c["evidence"]["kind"] for c in verdict["claim_verdicts"]} == {"step_row"}


async def test_a_forced_final_is_answered_with_a_verdict(demo: Case) -> None:
    reply = await verify([*opening(demo)[:2], f"# Veridical role: verifier\n{FORCED}"])
    assert set(reply) == {"submit_verdict"}
    claims = reply["submit_verdict"]["claims_considered"]
    assert claims[0] == demo.result.insights[0].name
    assert len(set(claims)) == len(claims)


async def test_rows_that_left_the_history_are_no_evidence(demo: Case) -> None:
    turns = opening(demo)
    query = await verify(turns)
    gone = {
        "tool": "query_warehouse",
        "sql": query["query_warehouse"],
        "row_count": 1,
        "rows_omitted_due_to_history_truncation": True,
    }
    turns += [json.dumps(query), f"{block('tool_result', gone)}\n{FORCED}"]
    verdict = (await verify(turns))["submit_verdict"]
    assert {c["evidence"]["kind"] for c in verdict["claim_verdicts"]} == {"step_row"}


async def test_a_result_that_the_bundle_cuts_is_read_on(demo: Case) -> None:
    payload = demo.bundle(next(i for i in demo.result.insights if "OO" in i.description)).payload()
    step = payload["source_steps"][0]
    step["sample_rows"] = step["sample_rows"][:3]
    step["truncated"] = True
    reply = await verify([block("bundle", payload), "{}", "# Veridical role: verifier"])
    assert reply["read_step_rows"]["step_id"] == step["step_id"]
    assert reply["read_step_rows"]["offset"] == 3


async def test_the_tenant_clause_stands_in_every_query(demo: Case) -> None:
    payload = demo.bundle(demo.result.insights[0]).payload()
    payload["warehouse"] |= {"filter_clause": "origin = 'JFK'", "filter_field": "origin"}
    for role in ("verifier", "refuter"):
        query = await verify([block("bundle", payload), "{}", f"# Veridical role: {role}"])
        assert "origin = 'JFK'" in query["query_warehouse"]


# ---------------------------------------------------------------- free-standing claims


CLAIMS = [
    ("confirmed", "JFK had more departures than LGA in 2013"),
    ("confirmed", "UA is the carrier with the most flights"),
    ("confirmed", "There are 16 carriers"),
    ("supported", "The average departure delay is 12.6 minutes"),
    ("confirmed", "8255 flights have no departure time"),
    ("confirmed", "Flights peaked in July"),
    ("confirmed", "United Air Lines operated more flights than American Airlines"),
    ("supported", "17.4% of all flights were operated by UA"),
    ("rejected", "LGA had more departures than JFK in 2013"),
    ("rejected", "AA is the carrier with the most flights"),
    ("rejected", "There are 20 carriers"),
    ("rejected", "The average departure delay is 25 minutes"),
    ("rejected", "Flights peaked in December"),
    ("rejected", "All flights departed from JFK"),
    ("unverifiable", "The average ticket price was 320 dollars"),
    ("unverifiable", "Bad weather causes most of the departure delays"),
    ("unverifiable", "UA will carry more passengers next year"),
    ("unverifiable", "ZZ is the carrier with the most complaints"),
    ("unverifiable", "Flights in 2019 were delayed more than flights in 2013"),
]


async def settle(claim: str, tools: WarehouseTools, demo: Case, mode: AgentMode) -> str:
    doc = BundleDoc(id="c", kind=DocKind.INSIGHT, headline=claim, description=claim)
    bundle = Bundle(doc=doc, warehouse=described(demo.info))
    return (await judged(bundle, mode, tools)).overall


async def test_claims_without_steps_are_asked_of_the_schema(demo: Case, demo_file: Path) -> None:
    async with tools_over(demo_file) as tools:
        found = [await settle(c, tools, demo, AgentMode.VERIFIER) for _, c in CLAIMS]
        refuted = [await settle(c, tools, demo, AgentMode.REFUTER) for _, c in CLAIMS]
    assert list(zip(found, [c for _, c in CLAIMS], strict=True)) == CLAIMS
    softened = [s.replace("confirmed", "supported") for s, _ in CLAIMS]
    assert refuted == softened
