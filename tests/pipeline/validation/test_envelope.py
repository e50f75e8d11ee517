# ruff: noqa: E501 - one case of a table to a line
"""One reply, one envelope."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import EnvelopeError
from pipeline.validation.envelope import parse_envelope

QUERY = '{"query_warehouse": "SELECT 1"}'
READ = '{"read_step_rows": {"step_id": 3, "offset": 50, "limit": 20}}'
VERDICT = {"claims_considered": ["a"], "claim_verdicts": [], "overall": "supported"}
SUBMIT = json.dumps({"submit_verdict": VERDICT})
PAGE = {"step_id": 3, "offset": 50, "limit": 20}

ACCEPTED: list[tuple[str, str, str, Any]] = [
    ("lookup_schema", '{"lookup_schema": ["main.flights", "b"]}', "lookup_schema", ["main.flights", "b"]),
    ("query_warehouse", QUERY, "query_warehouse", "SELECT 1"),
    ("read_step_rows", READ, "read_step_rows", PAGE),
    ("read_step_rows with only a step", '{"read_step_rows": {"step_id": 3}}', "read_step_rows", {"step_id": 3}),
    ("a negative offset is for the tool", '{"read_step_rows": {"step_id": 3, "offset": -5}}', "read_step_rows", {"step_id": 3, "offset": -5}),
    ("submit_verdict", SUBMIT, "submit_verdict", VERDICT),
    ("an empty verdict is for the finaliser", '{"submit_verdict": {}}', "submit_verdict", {}),
    ("a bare verdict", json.dumps(VERDICT), "submit_verdict", VERDICT),
    ("a bare verdict with all its fields", json.dumps({**VERDICT, "mode": "verifier", "overall_reason": "x", "doc_id": "d", "doc_kind": "insight"}), "submit_verdict", {**VERDICT, "mode": "verifier", "overall_reason": "x", "doc_id": "d", "doc_kind": "insight"}),
    ("verdict fields beside an envelope", json.dumps({"submit_verdict": VERDICT, "overall": "x", "doc_id": "d"}), "submit_verdict", VERDICT),
    ("verdict fields beside a tool call", '{"query_warehouse": "SELECT 1", "mode": "refuter"}', "query_warehouse", "SELECT 1"),
    ("white space around", f"\n\n  {QUERY}  \n", "query_warehouse", "SELECT 1"),
    ("prose around", f"Let me check {{that}}. {QUERY} Done {{so}}.", "query_warehouse", "SELECT 1"),
    ("a json fence", f"```json\n{QUERY}\n```", "query_warehouse", "SELECT 1"),
    ("a fence without a language", f"```\n{QUERY}\n```", "query_warehouse", "SELECT 1"),
    ("a fence on one line", f"```json {QUERY} ```", "query_warehouse", "SELECT 1"),
    ("a fence that never closes", f"```json\n{QUERY}", "query_warehouse", "SELECT 1"),
    ("prose and a fence", f"The row was {{\"n\": 5}}.\n```json\n{QUERY}\n```\nSo.", "query_warehouse", "SELECT 1"),
    ("a sql fence before", f"```sql\nSELECT 1\n```\n{QUERY}", "query_warehouse", "SELECT 1"),
    ("a think block", f"<think>maybe {SUBMIT}</think>{QUERY}", "query_warehouse", "SELECT 1"),
    ("a thinking block in capitals", f"<THINKING>{SUBMIT}</Thinking>\n{QUERY}", "query_warehouse", "SELECT 1"),
    ("two think blocks", f"<think>a</think><think>{SUBMIT}</think>{QUERY}", "query_warehouse", "SELECT 1"),
    ("a think block and a fence", f"<think>x</think>\n```json\n{QUERY}\n```", "query_warehouse", "SELECT 1"),
    ("a dangling end of thinking", f"I wonder about {SUBMIT}\n</think>\n{QUERY}", "query_warehouse", "SELECT 1"),
    ("a dangling end after an open brace", f"I wonder {{ about\n</think>\n{QUERY}", "query_warehouse", "SELECT 1"),
    ("a dangling start after the envelope", f"{QUERY}\n<think>and then", "query_warehouse", "SELECT 1"),
    ("a dangling start before the envelope", f"<think>let me see\n{QUERY}\n", "query_warehouse", "SELECT 1"),
    ("tags inside a string", '{"query_warehouse": "SELECT \'<think></think>```{}\'"}', "query_warehouse", "SELECT '<think></think>```{}'"),
    ("a raw line break inside a string", '{"query_warehouse": "SELECT 1\nFROM t"}', "query_warehouse", "SELECT 1\nFROM t"),
    ("braces and quotes inside a string", r'{"query_warehouse": "SELECT \"}\" || \u007b"}', "query_warehouse", 'SELECT "}" || {'),
    ("an envelope inside a string", json.dumps({"query_warehouse": f"SELECT '{SUBMIT}'"}), "query_warehouse", f"SELECT '{SUBMIT}'"),
    ("a list of rows before", f'[{{"a": 1}}, {{"a": 2}}] {QUERY}', "query_warehouse", "SELECT 1"),
    ("a quoted envelope before", f'The cell says "{SUBMIT}". {QUERY}', "query_warehouse", "SELECT 1"),
    ("an envelope in a list before", f"[{SUBMIT}] {QUERY}", "query_warehouse", "SELECT 1"),
    ("a harmless object behind", f'{QUERY} gives {{"n": 5}}', "query_warehouse", "SELECT 1"),
    ("not a number is a null", '{"submit_verdict": {"claims_considered": [NaN]}}', "submit_verdict", {"claims_considered": [None]}),
]  # fmt: skip

REFUSED: list[tuple[str, Any, str]] = [
    ("nothing", "", "empty"),
    ("blanks", " \n ", "empty"),
    ("no text at all", None, "empty"),
    ("prose only", "I think the claim holds.", "no JSON object"),
    ("two keys", '{"query_warehouse": "SELECT 1", "lookup_schema": ["a"]}', "several envelope keys"),
    ("two keys, one null", '{"query_warehouse": "SELECT 1", "submit_verdict": null}', "several envelope keys"),
    ("all keys", '{"lookup_schema": [], "query_warehouse": "", "read_step_rows": {}, "submit_verdict": {}}', "several envelope keys"),
    ("one key twice", '{"query_warehouse": "SELECT 1", "query_warehouse": "SELECT 2"}', "twice"),
    ("several keys before extra keys", '{"thinking": "", "query_warehouse": "", "lookup_schema": []}', "several envelope keys"),
    ("an extra key", '{"thinking": "x", "query_warehouse": "SELECT 1"}', "extra keys beside the envelope (thinking)"),
    ("an extra key behind", '{"query_warehouse": "SELECT 1", "rationale": ""}', "extra keys"),
    ("an extra key beside a bare verdict", json.dumps({**VERDICT, "thinking": "x"}), "extra keys"),
    ("extra keys before the type", '{"query_warehouse": 1, "rationale": ""}', "extra keys"),
    ("an unknown key", '{"run_sql": "SELECT 1"}', "no envelope key (it has: run_sql)"),
    ("an empty object", "{}", "no envelope key"),
    ("half a bare verdict", '{"claims_considered": ["a"], "claim_verdicts": []}', "no envelope key"),
    ("lookup_schema as text", '{"lookup_schema": "main.flights"}', '"lookup_schema": ["dataset.table"]'),
    ("lookup_schema of numbers", '{"lookup_schema": [1]}', "list of one or more table names"),
    ("lookup_schema of nothing", '{"lookup_schema": []}', "list of one or more table names"),
    ("lookup_schema of objects", '{"lookup_schema": [{"table": "a"}]}', "table names"),
    ("a query as an object", '{"query_warehouse": {"sql": "SELECT 1"}}', "bare SQL text"),
    ("a query as a list", '{"query_warehouse": ["SELECT 1"]}', "bare SQL text"),
    ("a query as null", '{"query_warehouse": null}', "bare SQL text"),
    ("an empty query", '{"query_warehouse": " "}', "bare SQL text"),
    ("read_step_rows as a number", '{"read_step_rows": 3}', "object with step_id"),
    ("read_step_rows without a step", '{"read_step_rows": {"offset": 3}}', "needs step_id"),
    ("a step in words", '{"read_step_rows": {"step_id": "three"}}', "needs step_id"),
    ("a step as a flag", '{"read_step_rows": {"step_id": true}}', "needs step_id"),
    ("half a step", '{"read_step_rows": {"step_id": 1.5}}', "needs step_id"),
    ("an offset in words", '{"read_step_rows": {"step_id": 1, "offset": "0"}}', "offset"),
    ("a limit as a list", '{"read_step_rows": {"step_id": 1, "limit": [5]}}', "limit"),
    ("a verdict as text", '{"submit_verdict": "confirmed"}', "must be an object"),
    ("a verdict as a list", '{"submit_verdict": []}', "must be an object"),
    ("cut off", '{"query_warehouse": "SELECT 1', "cut off or not balanced"),
    ("cut off around an inner envelope", f'{{"rows": [{SUBMIT}', "cut off or not balanced"),
    ("cut off list around an envelope", f'[{{"a": 1}}, {SUBMIT}, {{"b"', "cut off or not balanced"),
    ("single quotes", "{'query_warehouse': 'SELECT 1'}", "not valid JSON"),
    ("a trailing comma", '{"query_warehouse": "SELECT 1",}', "not valid JSON"),
    ("a list", f"[{QUERY}]", "a list, not one JSON object"),
    ("nested in rows", f'{{"rows": [{SUBMIT}]}}', "no envelope key (it has: rows)"),
    ("nested in another tool", f'{{"tool_result": {SUBMIT}}}', "no envelope key"),
    ("two envelopes", f"{QUERY}\n{SUBMIT}", "several envelopes"),
    ("a quoted envelope without its quotes, then a call", f"The cell: {SUBMIT}. {QUERY}", "several envelopes"),
    ("thoughts in an object before", f'{{"thinking": "x"}} {QUERY}', "before the envelope"),
    ("only thoughts", f"<think>{SUBMIT}</think>", "no JSON object"),
    ("a quotation while thinking without end", f"<think>the cell says {SUBMIT}", "never closed"),
    ("a quotation and more thoughts without end", f"<think>see\n{SUBMIT}\nso what", "never closed"),
    ("only a quotation", f'The cell says "{SUBMIT}"', "only quotes"),
    ("an escaped envelope in prose", json.dumps(SUBMIT), "not balanced"),
    ("a deep nest", '{"a":' * 100_000, "not balanced"),
    ("a wide nest", "[" * 100_000, "no JSON object"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "kind", "body"), [pytest.param(r, k, b, id=name) for name, r, k, b in ACCEPTED]
)
def test_a_single_envelope_is_read(reply: str, kind: str, body: Any) -> None:
    envelope = parse_envelope(reply, None)
    assert (envelope.kind, envelope.body) == (kind, body)


@pytest.mark.parametrize(
    ("reply", "why"), [pytest.param(r, why, id=name) for name, r, why in REFUSED]
)
def test_anything_else_is_refused_with_what_to_send_instead(reply: Any, why: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        parse_envelope(reply, None)
    assert why in caught.value.reason
    assert "send" in caught.value.reason


@pytest.mark.parametrize(
    "reply", [QUERY, READ, '{"lookup_schema": ["a"]}', '{"query_warehouse": 3}']
)
def test_only_allowed_actions_pass_in_a_forced_round(reply: str) -> None:
    with pytest.raises(EnvelopeError, match="not allowed in this round") as caught:
        parse_envelope(reply, ["submit_verdict"])
    assert '{"submit_verdict": ' in caught.value.reason
    assert '{"query_warehouse": ' not in caught.value.reason


def test_a_bare_verdict_is_a_submission() -> None:
    assert parse_envelope(json.dumps(VERDICT), {"submit_verdict"}).kind == "submit_verdict"
    with pytest.raises(EnvelopeError, match="submit_verdict is not allowed"):
        parse_envelope(json.dumps(VERDICT), {"query_warehouse"})


TEXT = st.text(max_size=30) | st.sampled_from(
    [SUBMIT, "</think>", "```", "<think>", '"', "{", "\\"]
)


@given(TEXT)
def test_whatever_a_string_holds_it_never_becomes_an_envelope(cell: str) -> None:
    assert parse_envelope(json.dumps({"query_warehouse": f"x{cell}"})).body == f"x{cell}"
    row = {"row": {cell or "a": cell}}
    with pytest.raises(EnvelopeError):
        parse_envelope(json.dumps(row))


@given(
    st.lists(st.sampled_from([QUERY, SUBMIT, "<think>", "</think>", "```json\n", "{", "[", "x "]))
)
def test_no_reply_crashes_the_parser(parts: list[str]) -> None:
    with contextlib.suppress(EnvelopeError):
        parse_envelope("".join(parts))


MEGABYTES: list[tuple[str, Callable[[], str], bool]] = [
    ("a long query", lambda: json.dumps({"query_warehouse": "x" * 5_000_000}), True),
    ("prose before", lambda: "x" * 5_000_000 + QUERY, True),
    ("prose behind", lambda: QUERY + "x" * 5_000_000, True),
    ("thoughts", lambda: f"<think>{'{[' * 2_500_000}</think>{QUERY}", True),
    ("open braces", lambda: "{" * 5_000_000, False),
    ("open brackets", lambda: "[" * 5_000_000, False),
    ("ten thousand levels", lambda: '{"a":' * 10_000 + "1" + "}" * 10_000, False),
    ("ten thousand levels in a verdict", lambda: '{"submit_verdict": ' + "[" * 10_000 + "]" * 10_000 + "}", False),
    ("braces that are no JSON", lambda: "{a}" * 1_700_000, False),
    ("objects that are no JSON", lambda: '{"a": 1 "b"}' * 400_000, False),
    ("lists in lists, each one long", lambda: ("[" + "1," * 2_500) * 1_000, False),
    ("brackets in prose", lambda: "[x " * 1_700_000, False),
    ("small objects", lambda: '{"a":1}\n' * 700_000, False),
    ("envelopes", lambda: QUERY * 160_000, False),
    ("fences", lambda: "```" * 1_700_000, False),
    ("thoughts that never end", lambda: "<think>" * 700_000, False),
    ("thoughts that always end", lambda: "</think>" * 600_000, False),
    ("lines of thoughts that never end", lambda: "<think>\n" + '{"a":[1,1,1,1,\n' * 12_000 + QUERY, False),
    ("one key many times", lambda: '{"query_warehouse": "a"' + ',"x": 1' * 600_000 + "}", False),
    ("digits", lambda: '{"read_step_rows": {"step_id": ' + "9" * 5_000_000 + "}}", False),
    ("backslashes", lambda: '{"query_warehouse": "' + "\\" * 5_000_001 + '"}', False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("write", "usable"), [pytest.param(w, usable, id=name) for name, w, usable in MEGABYTES]
)
def test_megabytes_of_anything_are_read_or_refused(write: Callable[[], str], usable: bool) -> None:
    reply = write()
    try:
        parse_envelope(reply)
    except EnvelopeError:
        assert not usable
    else:
        assert usable
