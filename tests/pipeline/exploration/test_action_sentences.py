"""Phase 3, "Tolerant action parsing", and reference F.1: a case a sentence, as models misbehave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.errors import ActionError
from pipeline.exploration.actions import NoAction, NoJson, parse_action

Q = '{"query": "SELECT 1"}'
DONE = '{"done": true, "summary": "draft"}'
QUERY: dict[str, Any] = {"kind": "query", "query": "SELECT 1"}


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


READ: dict[str, tuple[str, dict[str, Any]]] = {
    # "strips <think>…</think> reasoning blocks (recovering an action written inside one)"
    "a reasoning block cannot shadow the action": (f"{Q}<reasoning>{DONE}</reasoning>", QUERY),
    "a thought block cannot shadow the action": (f"<thought>{DONE} {{oops</thought>{Q}", QUERY),
    "a block with a namespace": (f"<seed:think>{DONE} {{</seed:think>{Q}", QUERY),
    "a block in square brackets": (f"[THINK]{DONE} {{oops[/THINK]{Q}", QUERY),
    "a block closed by another of the tags": (f"<think>{DONE}</thinking>{Q}", QUERY),
    "an action in a reasoning block is recovered": (f"<reasoning>so {Q}</reasoning> Go.", QUERY),
    "brace-y reasoning with an odd quote": (f'<think>is "{{ it</think>{Q}', QUERY),
    "a fence in the block": (f"<think>```json\n{DONE}\n```</think>```json\n{Q}\n```", QUERY),
    "a block in the fence": (f"```json\n<think>{DONE}</think>\n{Q}\n```", QUERY),
    "a tag that is only named in prose": (f"I close my <think> tag now. {Q}", QUERY),
    "a self-closing tag": (f"<think />{Q}", QUERY),
    "no open tag, the action before the close": (f"{Q}\n</think>", QUERY),
    "channels of a reply that was not decoded": (
        f"<|channel|>analysis<|message|>{DONE}<|end|><|channel|>final<|message|>{Q}",
        QUERY,
    ),
    # "gather fenced JSON then balanced objects"
    **{
        f"a fence of {language or 'no language'}": (f"```{language}\n{Q}\n```", QUERY)
        for language in ("", "json", "JSON", "jsonc", "javascript", "text", "sql", "yaml")
    },
    "a fence of tildes": (f"~~~\n{Q}\n~~~", QUERY),
    "a fence that never closes": (f"```json\n{Q}", QUERY),
    "a fence on one line": (f"```json {Q}```", QUERY),
    "a brace left open in a fence of SQL": (
        f"```sql\nSELECT '{{x\n```\n```json\n{Q}\n```",
        QUERY,
    ),
    # "the LAST object carrying a recognised key wins"
    "an array: the last action": (f"[{DONE}, {Q}]", QUERY),
    "an object without a recognised key comes later": (f'{Q} {{"note": {{"done": true}}}}', QUERY),
    "an unknown tool comes later": (f'{Q} {{"name": "Ann", "input": {{}}}}', QUERY),
    "equal keys: the last": ('{"query": "SELECT 2", "query": "SELECT 1"}', QUERY),
    # tool envelopes
    "tool_calls with arguments as text": (
        json.dumps({"role": "assistant", "tool_calls": [call("query_data", Q)]}),
        QUERY,
    ),
    "tool_calls with arguments as an object": (
        json.dumps({"tool_calls": [call("query", {"query": "SELECT 1"})]}),
        QUERY,
    ),
    "several tool_calls: the last": (
        json.dumps({"tool_calls": [call("complete", "{}"), call("query", Q)]}),
        QUERY,
    ),
    "function_call": (json.dumps({"function_call": {"name": "query", "arguments": Q}}), QUERY),
    "tool_use": ('{"tool_use": {"name": "query", "input": {"query": "SELECT 1"}}}', QUERY),
    "tool_calls that are null": ('{"tool_calls": null, "query": "SELECT 1"}', QUERY),
    "input named by the grammar's own keys": (
        '{"name": "search_tables", "input": {"search_tables": "x", "search_top_k": "4"}}',
        {"kind": "search_tables", "text": "x", "search_top_k": 4},
    ),
    "datasource_id beside the envelope": (
        '{"name": "query", "input": {"query": "SELECT 1"}, "datasource_id": "b"}',
        {**QUERY, "datasource_id": "b"},
    ),
    # precedence among keys in one object
    "query over tool envelope": (
        '{"name": "lookup_schema", "input": {"tables": ["a"]}, "query": "SELECT 1"}',
        QUERY,
    ),
    "an empty query gives way to legacy complete": (
        '{"action": "complete", "query": "", "summary": "s"}',
        {"kind": "done", "summary": "s"},
    ),
    "an empty query gives way to a legacy lookup": (
        '{"action": "lookup_schema", "query": "", "tables": ["a"]}',
        {"kind": "lookup_schema", "tables": ["a"]},
    ),
    "an empty query gives way to an envelope": (
        '{"query": "", "name": "lookup_schema", "input": {"tables": ["a"]}}',
        {"kind": "lookup_schema", "tables": ["a"]},
    ),
    "a null query gives way to sql": (
        '{"action": "query_data", "query": null, "sql": "SELECT 1"}',
        QUERY,
    ),
    "an empty query gives way to sql": (
        '{"action": "query_data", "query": " ", "sql": "SELECT 1"}',
        QUERY,
    ),
    "done false with a query": ('{"done": false, "query": "SELECT 1"}', QUERY),
    "done as text false with a query": ('{"done": "false", "query": "SELECT 1"}', QUERY),
    "done 0 with a query": ('{"done": 0, "query": "SELECT 1"}', QUERY),
    "done null with a query": ('{"done": null, "query": "SELECT 1"}', QUERY),
    "done with an empty query": ('{"done": true, "query": ""}', {"kind": "done"}),
    # values
    "search_top_k as text": ('{"search_tables": "x", "search_top_k": "5"}', {"search_top_k": 5}),
    "search_top_k below 1": ('{"search_tables": "x", "search_top_k": -3}', {"search_top_k": 1}),
    "search_top_k with decimals": (
        '{"search_tables": "x", "search_top_k": 2.9}',
        {"search_top_k": 2},
    ),
    "search_top_k without end": (
        '{"search_tables": "x", "search_top_k": 1e999}',
        {"search_top_k": 10},
    ),
    "top_k": ('{"search_tables": "x", "top_k": 3}', {"search_top_k": 3}),
    "datasource_id as a number": (
        '{"query": "SELECT 1", "datasource_id": 5}',
        {"datasource_id": "5"},
    ),
    "datasource_id null": ('{"query": "SELECT 1", "datasource_id": null}', {"datasource_id": ""}),
    "rationale as a list": ('{"rationale": ["a"], "query": "SELECT 1"}', {"rationale": '["a"]'}),
    "an empty rationale, thinking filled": (
        '{"rationale": "", "thinking": "t", "query": "SELECT 1"}',
        {"rationale": "t"},
    ),
    "legacy correlations": (
        '{"action": "get_correlations", "a": "x", "b": "y"}',
        {"kind": "get_correlations", "get_correlations": {"a": "x", "b": "y"}},
    ),
    # strings, escapes and bytes
    "SQL with braces and quotes": (
        json.dumps({"query": 'SELECT \'{"a": {\' || "c}" FROM t -- }'}),
        {"query": 'SELECT \'{"a": {\' || "c}" FROM t -- }'},
    ),
    "a backslash before the closing quote": (
        '{"query": "SELECT \'\\\\\'"} {"x": 1}',
        {"query": "SELECT '\\'"},
    ),
    "unicode escapes in a key and a value": (
        r'{"\u0071uery": "SELECT \u0027\ud83d\ude00\u0027"}',
        {"query": "SELECT '😀'"},
    ),
    "raw tabs and carriage returns": ('{"query": "SELECT\t\r\n1"}', {"query": "SELECT\t\r\n1"}),
    "NUL around the object": (f"\0{Q}\0", QUERY),
    "NUL in the query is the guard's business": (
        '{"query": "SELECT \\u0000 1"}',
        {"query": "SELECT \0 1"},
    ),
    "an array 10,000 deep": ("[" * 10_000 + Q + "]" * 10_000, QUERY),
    "braces 10,000 deep before it": ("{" * 10_000 + "}" * 10_000 + Q, QUERY),
    "a number beyond all bounds": ('{"query": "SELECT 1", "x": 1e999}', QUERY),
}


@pytest.mark.parametrize(("reply", "expected"), READ.values(), ids=READ.keys())
def test_the_action_is_reached(reply: str, expected: dict[str, Any]) -> None:
    action = parse_action(reply)
    assert {key: getattr(action, key) for key in expected} == expected


REJECTED: dict[str, tuple[str, type[ActionError], str]] = {
    # "rejects a truncated/malformed object rather than extracting a nested draft from it"
    "cut inside the query after a nested draft": (
        '{"rationale": "r", "plan": {"query": "SELECT 2"}, "query": "SELECT',
        ActionError,
        "cut off",
    ),
    "cut after a nested draft": (
        '{"rationale": "x", "draft": {"query": "S"}, ',
        ActionError,
        "cut",
    ),
    "cut, then begun anew": (f'{{"query": "SELECT \n\nSorry. {Q}', ActionError, "cut off"),
    "cut, then begun anew in a fence": (f'{{"query":\n```json\n{Q}\n```', ActionError, "cut off"),
    "cut inside a think block between its keys": (
        f'{{"query": "SELECT 1", <think>{Q}',
        ActionError,
        "cut off",
    ),
    "an array cut in its last action": (f'[{Q}, {{"query": "SEL', ActionError, "cut off"),
    "an envelope cut inside its arguments": (
        '{"name": "query", "input": {"query": "SELECT 1"}, "note": "',
        ActionError,
        "cut off",
    ),
    # "an unbalanced brace stops extraction"
    "a brace in prose that is never closed": (f"For {{a, b: {Q}", ActionError, "brace is missing"),
    "a brace in prose and nothing after": ("For {a, b: nothing", NoJson, "no JSON object"),
    # "Reject query that is an object for SQL sources"
    "tool call whose query is an object": (
        '{"name": "query", "input": {"query": {"sql": "SELECT 1"}}}',
        ActionError,
        "send the whole query as one JSON string",
    ),
    "a query of a zero-width space": ('{"query": "\u200b \ufeff"}', ActionError, "is empty"),
    "a query of NULs": ('{"query": "\\u0000"}', ActionError, "is empty"),
    "a raw half of a surrogate pair": ('{"query": "SELECT \ud83d"}', ActionError, "not valid text"),
    "legacy query_data without a query": ('{"action": "query_data"}', ActionError, "is missing"),
    "an unknown action with an empty query": ('{"action": "x", "query": ""}', ActionError, "empty"),
    # "JSON with no usable action"
    "tool_calls without a call": ('{"tool_calls": []}', NoAction, "none of the action keys"),
    "tool_calls of an unknown tool": (
        json.dumps({"tool_calls": [call("drop_all", "{}")]}),
        NoAction,
        "'drop_all'",
    ),
    "done as an object": ('{"done": {"summary": "x"}}', ActionError, "exactly true"),
    "done as a list": ('{"done": []}', ActionError, "exactly true"),
    "done as 0": ('{"done": 0}', NoAction, "exactly true"),
    "an action without a name": ('{"action": ""}', ActionError, "no action ''"),
    "an action as a list": ('{"action": ["query_data"]}', ActionError, "name of an action"),
    "an envelope without a name": (
        '{"input": {"query": "S"}}',
        NoAction,
        "none of the action keys",
    ),
    "the whole reply as a JSON string": (json.dumps(Q), ActionError, ""),
    # malformed JSON
    "Python's True": ('{"done": True}', ActionError, "malformed"),
    "a comment to the end of the line": (
        '{"query": "SELECT 1" // all\n}',
        ActionError,
        "malformed",
    ),
    "an escape that JSON does not know": (r'{"query": "SELECT \d"}', ActionError, "malformed"),
    "an entity for each quote": ("{&quot;query&quot;: &quot;S&quot;}", ActionError, "malformed"),
    "a byte-order mark inside": ('{\ufeff"query": "SELECT 1"}', ActionError, "malformed"),
    "minus infinity": ('{"query": "SELECT 1", "x": -Infinity}', ActionError, "malformed"),
    "objects 10,000 deep": ('{"query":' * 10_000 + "1" + "}" * 10_000, ActionError, "malformed"),
    # lookups, searches and correlations of another form
    "lookup as true": ('{"lookup_schema": true}', ActionError, "list of table names"),
    "lookup with a null": ('{"lookup_schema": ["a", null]}', ActionError, "list of table names"),
    "lookup of objects": ('{"lookup_schema": [{"t": "a"}]}', ActionError, "list of table names"),
    "lookup of an endless name": (
        json.dumps({"lookup_schema": ["x" * 1_000_000]}),
        ActionError,
        "too long for a name",
    ),
    "search as a number": ('{"search_tables": 5}', ActionError, "what to look for"),
    "search as an empty object": ('{"search_tables": {}}', ActionError, "what to look for"),
    "correlations as null": ('{"get_correlations": null}', NoAction, "null"),
    "correlations of numbers": (
        '{"get_correlations": {"a": 1, "b": 2}}',
        ActionError,
        "two datasources",
    ),
}


@pytest.mark.parametrize(("reply", "kind", "reason"), REJECTED.values(), ids=REJECTED.keys())
def test_the_reply_is_rejected_with_a_reason(
    reply: str, kind: type[ActionError], reason: str
) -> None:
    with pytest.raises(kind) as caught:
        parse_action(reply)
    assert type(caught.value) is kind or reason == ""
    assert reason in caught.value.reason


HUGE = {
    "thoughts after a stray brace": "{a " + "<think>x</think>\n```\n{b}\n```\n" * 40_000,
    "namespaces": "<a:" * 300_000,
    "square brackets": "[THINK]" * 150_000,
    "one megabyte of prose": "done " * 200_000,
    "tool calls": '{"tool_calls": [' + '{"name": "x"},' * 80_000 + "{}]}",
}


@pytest.mark.parametrize("reply", HUGE.values(), ids=HUGE.keys())
def test_a_megabyte_is_judged(reply: str) -> None:
    with pytest.raises(ActionError):
        parse_action(reply)
