"""Phase 3 of the lifecycle specification, "Tolerant action parsing", sentence by sentence."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ActionError
from pipeline.exploration.actions import Action, ActionKind, NoAction, NoJson, parse_action

Q = "SELECT 1"
QUERY = {"kind": "query", "query": Q}

LEGAL: dict[str, tuple[str, dict[str, Any]]] = {
    "query": (
        '{"rationale": "why", "query": "SELECT 1", "query_purpose": "count", "datasource_id": "b"}',
        {**QUERY, "rationale": "why", "query_purpose": "count", "datasource_id": "b"},
    ),
    "thinking is still read": (
        '{"thinking": "old", "query": "SELECT 1"}',
        {**QUERY, "rationale": "old"},
    ),
    "rationale wins over thinking": (
        '{"thinking": "old", "rationale": "new", "query": "SELECT 1"}',
        {**QUERY, "rationale": "new"},
    ),
    "lookup_schema": (
        '{"rationale": "r", "lookup_schema": ["main.a", " main.b ", "main.a"]}',
        {"kind": "lookup_schema", "lookup_schema": ["main.a", "main.b"], "rationale": "r"},
    ),
    "lookup_schema as one string": (
        '{"lookup_schema": "main.a"}',
        {"kind": "lookup_schema", "tables": ["main.a"]},
    ),
    "more than ten tables are the loop's business": (
        json.dumps({"lookup_schema": [f"t{i}" for i in range(40)]}),
        {"kind": "lookup_schema", "lookup_schema": [f"t{i}" for i in range(40)]},
    ),
    "search_tables": (
        '{"search_tables": "late flights", "search_top_k": 5}',
        {"kind": "search_tables", "text": "late flights", "search_top_k": 5},
    ),
    "search_top_k defaults to 10": (
        '{"search_tables": "x", "search_top_k": "many"}',
        {"kind": "search_tables", "search_tables": "x", "search_top_k": 10},
    ),
    "search_top_k is at most 30": (
        '{"search_tables": "x", "search_top_k": 1000}',
        {"kind": "search_tables", "search_top_k": 30},
    ),
    "get_correlations": (
        '{"get_correlations": {"a": "crm", "b": "shop"}}',
        {"kind": "get_correlations", "get_correlations": {"a": "crm", "b": "shop"}},
    ),
    "done": (
        '{"done": true, "summary": "enough"}',
        {"kind": "done", "done": True, "summary": "enough"},
    ),
    "legacy query_data": ('{"action": "query_data", "query": "SELECT 1"}', QUERY),
    "legacy query_data with sql": ('{"action": "query_data", "sql": "SELECT 1"}', QUERY),
    "legacy lookup_schema": (
        '{"action": "lookup_schema", "tables": ["a"]}',
        {"kind": "lookup_schema", "tables": ["a"]},
    ),
    "legacy search_tables": (
        '{"action": "search_tables", "query": "late flights"}',
        {"kind": "search_tables", "text": "late flights"},
    ),
    "legacy complete": (
        '{"action": "complete", "summary": "s", "thinking": "t"}',
        {"kind": "done", "done": True, "summary": "s", "rationale": "t"},
    ),
    "envelope query_data": (
        '{"name": "query_data", "input": {"query": "SELECT 1", "purpose": "p", "thinking": "t"}}',
        {**QUERY, "query_purpose": "p", "rationale": "t"},
    ),
    "envelope lookup_schema": (
        '{"type": "tool_use", "id": "1", "name": "lookup_schema", "input": {"tables": ["a", "b"]}}',
        {"kind": "lookup_schema", "tables": ["a", "b"]},
    ),
    "envelope search_tables": (
        '{"name": "search_tables", "input": {"query": "delays", "top_k": 3}}',
        {"kind": "search_tables", "text": "delays", "search_top_k": 3},
    ),
    "envelope get_correlations": (
        '{"name": "get_correlations", "input": {"a": "x", "b": "y"}}',
        {"kind": "get_correlations", "get_correlations": {"a": "x", "b": "y"}},
    ),
    "envelope complete": (
        '{"name": "complete", "input": {"summary": "all"}}',
        {"kind": "done", "done": True, "summary": "all"},
    ),
    "envelope with arguments as text": (
        '{"name": "query", "arguments": "{\\"query\\": \\"SELECT 1\\"}"}',
        QUERY,
    ),
    "envelope of a function call": (
        '{"function": {"name": "query_data", "arguments": {"query": "SELECT 1"}}}',
        QUERY,
    ),
    "envelope in tags": (
        '<tool_call>\n{"name": "query_data", "arguments": {"query": "SELECT 1"}}\n</tool_call>',
        QUERY,
    ),
    "envelope of a namespaced tool": (
        '{"name": "functions.query_data", "arguments": {"query": "SELECT 1"}}',
        QUERY,
    ),
    "envelope with another spelling": (
        '{"tool_name": "Query-Data", "tool_input": {"sql": "SELECT 1"}}',
        QUERY,
    ),
    "envelope with tool and args": (
        '{"tool": "run_sql", "args": {"query": "SELECT 1"}}',
        QUERY,
    ),
    "envelope with the query as its input": ('{"name": "query", "input": "SELECT 1"}', QUERY),
    "envelope with the tables as its input": (
        '{"name": "lookup_schema", "input": ["a", "b"]}',
        {"kind": "lookup_schema", "tables": ["a", "b"]},
    ),
    "envelope with the text as its input": (
        '{"name": "search_tables", "input": "delays"}',
        {"kind": "search_tables", "text": "delays"},
    ),
    "envelope complete without input": ('{"name": "complete", "input": null}', {"kind": "done"}),
    "envelope with its arguments beside it": (
        '{"tool": "lookup_schema", "tables": ["a"]}',
        {"kind": "lookup_schema", "tables": ["a"]},
    ),
    "lookup_schema as an object": (
        '{"lookup_schema": {"tables": ["a"]}}',
        {"kind": "lookup_schema", "tables": ["a"]},
    ),
    "search_tables as an object": (
        '{"search_tables": {"query": "delays", "top_k": 3}}',
        {"kind": "search_tables", "text": "delays", "search_top_k": 3},
    ),
    "keys in capitals": (
        '{"Rationale": "r", "Query": "SELECT 1"}',
        {**QUERY, "rationale": "r"},
    ),
    "legacy search for words that begin like SQL": (
        '{"action": "search_tables", "query": "with delays"}',
        {"kind": "search_tables", "text": "with delays"},
    ),
    "legacy search with its own key": (
        '{"action": "search_tables", "search_tables": "delays"}',
        {"kind": "search_tables", "text": "delays"},
    ),
    "legacy with arguments below": (
        '{"action": "query_data", "input": {"query": "SELECT 1"}, "thinking": "t"}',
        {**QUERY, "rationale": "t"},
    ),
    "legacy finish": ('{"action": "finish"}', {"kind": "done"}),
    # precedence: done > query > lookup_schema > search_tables > legacy
    "done over query": ('{"query": "SELECT 1", "done": true}', {"kind": "done"}),
    "query over lookup": ('{"lookup_schema": ["a"], "query": "SELECT 1"}', QUERY),
    "query over legacy": ('{"action": "complete", "query": "SELECT 1"}', QUERY),
    "lookup over search": (
        '{"search_tables": "x", "lookup_schema": ["a"]}',
        {"kind": "lookup_schema"},
    ),
    "search over legacy": (
        '{"action": "complete", "search_tables": "x"}',
        {"kind": "search_tables"},
    ),
    "done false is not done": ('{"done": false, "query": "SELECT 1"}', QUERY),
    "null is absent": (
        '{"query": null, "lookup_schema": ["a"], "search_tables": null, "done": false}',
        {"kind": "lookup_schema"},
    ),
    "empty gives way to filled": (
        '{"query": "", "lookup_schema": ["a"], "search_tables": ""}',
        {"kind": "lookup_schema"},
    ),
    "blank gives way to filled": (
        '{"query": " \\n", "lookup_schema": ["a"]}',
        {"kind": "lookup_schema"},
    ),
    # where the object may stand
    "after prose that mentions done": (
        'I am done and complete with planning. {"query": "SELECT 1"} Then we are done.',
        QUERY,
    ),
    "in a json fence": ('Here:\n```json\n{"query": "SELECT 1"}\n```\n', QUERY),
    "in a plain fence": ('```\n{"query": "SELECT 1"}\n```', QUERY),
    "fence after a prose brace": (
        'Over the set {a, b we go:\n```json\n{"query": "SELECT 1"}\n```',
        QUERY,
    ),
    "an extra closing brace": ('{"query": "SELECT 1"}}', QUERY),
    "balanced prose braces": ('For {x} in {y, z}: {"query": "SELECT 1"} as {said}.', QUERY),
    "an array of one action": ('[{"query": "SELECT 1"}]', QUERY),
    "an array: the last object wins": ('[{"query": "SELECT 2"}, {"query": "SELECT 1"}]', QUERY),
    "the last object with a recognised key wins": (
        '{"query": "SELECT 2"} better: {"query": "SELECT 1"} {"note": "unrelated"}',
        QUERY,
    ),
    "a preamble object is passed over": (
        '{"plan": "p", "thinking": "t"} {"query":"SELECT 1"}',
        QUERY,
    ),
    "done false after a query asks nothing": ('{"query": "SELECT 1"} {"done": false}', QUERY),
    "braces and escapes in strings": (
        r'{"rationale": "a } b { c \" } \\", "query": "SELECT 1"}',
        {**QUERY, "rationale": 'a } b { c " } \\'},
    ),
    "line breaks inside a string": ('{"query": "SELECT\n1"}', {"query": "SELECT\n1"}),
    "byte-order mark and blanks": ('\ufeff \n{"query": "SELECT 1"}\n\n', QUERY),
    "other languages": (
        '{"rationale": "Uçuşlar – 航班", "query": "SELECT 1"}',
        {**QUERY, "rationale": "Uçuşlar – 航班"},
    ),
    "half a surrogate pair in prose": (
        r'{"rationale": "x\ud83d", "query": "SELECT 1"}',
        {**QUERY, "rationale": "x\ufffd"},
    ),
    # think blocks
    "think block before": (
        '<think>{"query": "SELECT 2"} {oops</think>{"query": "SELECT 1"}',
        QUERY,
    ),
    "thinking block after": ('{"query": "SELECT 1"}<thinking>{"done": true}</thinking>', QUERY),
    "think block with attributes and case": (
        '<THINK mode="deep">{"done": true}</Think>{"query": "SELECT 1"}',
        QUERY,
    ),
    "several think blocks": (
        '<think>{a</think>x<think>"b</think>{"query":"SELECT 1"}<think>{"done": true}',
        QUERY,
    ),
    "dangling think block after": ('{"query": "SELECT 1"}\n<think>now {"done": true', QUERY),
    "dangling think block holds the only action": ('<think>so: {"query": "SELECT 1"}', QUERY),
    "closed think block holds the only action": (
        '<think>first {"query": "SELECT 2"}, no {"query": "SELECT 1"}</think> Running it.',
        QUERY,
    ),
    "think block holds the action, outside only a preamble": (
        '<think>{"query": "SELECT 1"}</think>{"plan": "run it"}',
        QUERY,
    ),
    "two think blocks of which the last holds the action": (
        '<think>{"query": "SELECT 2"}</think> hm <think>{"query": "SELECT 1"}</think>',
        QUERY,
    ),
    "a think block in a think block": (
        '<think>a <think>b</think> {"done": true}</think>{"query": "SELECT 1"}',
        QUERY,
    ),
    "nested think tags": ('<think>a <think> b {"query": "SELECT 1"}</think>', QUERY),
    "closing tag alone": ('thought {"done": true} and more</think>{"query": "SELECT 1"}', QUERY),
    "closing tag alone, stray brace in the thought": (
        'maybe {"done": tr or { so</think>\n{"query": "SELECT 1"}',
        QUERY,
    ),
    "closing tag alone after the only action": ('{"query": "SELECT 1"}</think>', QUERY),
    "think block between the keys": (
        '{"rationale": "r", <think>{which table?</think> "query": "SELECT 1"}',
        {**QUERY, "rationale": "r"},
    ),
    "think tags inside a string are text": (
        '{"rationale": "<think>x</think>", "query": "SELECT 1"}',
        {**QUERY, "rationale": "<think>x</think>"},
    ),
    "a think tag inside the SQL": (
        "{\"query\": \"SELECT '<think>' AS a, '</think>' AS b\"}",
        {"query": "SELECT '<think>' AS a, '</think>' AS b"},
    ),
}


@pytest.mark.parametrize(("reply", "expected"), LEGAL.values(), ids=LEGAL.keys())
def test_an_object_with_a_recognised_action_key_is_read(
    reply: str, expected: dict[str, Any]
) -> None:
    action = parse_action(reply)
    assert {key: getattr(action, key) for key in expected} == expected


REFUSED: dict[str, tuple[str, type[ActionError], str]] = {
    "nothing": ("", NoJson, "no JSON object"),
    "prose": ("I am done. The exploration is complete.", NoJson, "no JSON object"),
    "prose with the word done quoted": ('We are "done": true', NoJson, "no JSON object"),
    "only thoughts": ("<think>what now?", NoJson, "no JSON object"),
    "sql without json": ("```sql\nSELECT 1\n```", NoJson, "no JSON object"),
    "a preamble": ('{"plan": "p", "thinking": "t"}', NoAction, "none of the action keys"),
    "an empty object": ("{}", NoAction, "none of the action keys"),
    "a nested draft": ('{"plan": {"query": "SELECT 1"}}', NoAction, "none of the action keys"),
    "done false": ('{"done": false}', NoAction, "exactly true"),
    "done as text": ('{"done": "true"}', ActionError, "exactly true"),
    "done as number": ('{"done": 1}', ActionError, "exactly true"),
    "legacy complete with done false": ('{"action":"complete","done":false}', ActionError, "true"),
    "null query": ('{"query": null}', NoAction, "null"),
    "query is an object": (
        '{"rationale": "r", "query": {"sql": "SELECT 1"}}',
        ActionError,
        '"query" is an object; send the whole query as one JSON string',
    ),
    "query is a list": ('{"query": ["SELECT 1"]}', ActionError, "is a list"),
    "query is a number": ('{"query": 1}', ActionError, "is not text"),
    "query is a flag": ('{"query": true}', ActionError, "is not text"),
    "query is empty": ('{"query": "  "}', ActionError, "is empty"),
    "query is an empty object": ('{"query": {}}', ActionError, "is an object"),
    "query is no valid text": (r'{"query": "SELECT 1 \ud83d"}', ActionError, "not valid text"),
    "the last query counts even when bad": (
        '{"query": "SELECT 1"} {"query": {}}',
        ActionError,
        "is an object",
    ),
    "envelope without a query": ('{"name": "query_data", "input": {}}', ActionError, "missing"),
    "envelope of an unknown tool": ('{"name": "drop_all", "input": {}}', NoAction, "'drop_all'"),
    "unknown legacy action": ('{"action": "drop_all"}', ActionError, "'drop_all'"),
    "legacy action as an object": ('{"action": {"query": "x"}}', ActionError, "name of an action"),
    "lookup of nothing": ('{"lookup_schema": []}', ActionError, "list of table names"),
    "lookup of blanks": ('{"lookup_schema": [" ", ""]}', ActionError, "list of table names"),
    "lookup of numbers": ('{"lookup_schema": ["a", 1]}', ActionError, "list of table names"),
    "lookup of an object": ('{"lookup_schema": {"t": 1}}', ActionError, "list of table names"),
    "search for nothing": ('{"search_tables": " "}', ActionError, "what to look for"),
    "search for a list": ('{"search_tables": ["a"]}', ActionError, "what to look for"),
    "correlations of one": ('{"get_correlations": {"a": "x"}}', ActionError, "two datasources"),
    "correlations as text": ('{"get_correlations": "x"}', ActionError, "two datasources"),
    # malformed and truncated objects
    "cut off": ('{"rationale": "r", "query": "SELECT 1', ActionError, "cut off"),
    "a brace missing": ('{"rationale": "r", "query": "SELECT 1"', ActionError, "cut off"),
    "a lone brace": ("Now: {", ActionError, "cut off"),
    "cut off round a nested draft": (
        '{"plan": {"query": "SELECT 1"}, "rationale": "but',
        ActionError,
        "cut off",
    ),
    "cut off round a nested done": ('{"draft": {"done": true}, "query": "SEL', ActionError, "cut"),
    "cut off round a fenced draft": (
        '{"rationale": "first\n```json\n{"query": "SELECT 1"}\n```\nbut',
        ActionError,
        "cut off",
    ),
    "a fence cut off": ('```json\n{"query": "SELECT', ActionError, "cut off"),
    "cut off after an earlier draft": ('{"done": true} or {"query": "SEL', ActionError, "cut off"),
    "cut off while a thought holds a draft": (
        '<think>{"query": "SELECT 1"}</think>{"query": "SEL',
        ActionError,
        "cut off",
    ),
    "cut off inside the thought": ('<think>{"query": "SELECT 1', ActionError, "cut off"),
    "single quotes after an earlier draft": (
        """{"query": "SELECT 1"} {'done': true}""",
        ActionError,
        "malformed",
    ),
    "envelope whose arguments are cut off": (
        '{"name": "query_data", "arguments": "{\\"query\\": \\"SEL"}',
        ActionError,
        "arguments are not valid JSON",
    ),
    "envelope of something else with broken arguments": (
        '{"name": "Ann", "input": "{oops"}',
        NoAction,
        "'Ann'",
    ),
    "a name without arguments": ('{"name": "complete"}', NoAction, "none of the action keys"),
    "a list of actions below a key": (
        '{"actions": [{"query": "SELECT 1"}]}',
        NoAction,
        "none of the action keys",
    ),
    "curly quotes": ("{“query”: “SELECT 1”}", ActionError, "malformed"),
    "unquoted keys": ('{query: "SELECT 1"}', ActionError, "malformed"),
    "single quotes": ("{'query': 'SELECT 1'}", ActionError, "malformed"),
    "a trailing comma": ('{"query": "SELECT 1",}', ActionError, "malformed"),
    "a comment": ('{"query": "SELECT 1" /* all */}', ActionError, "malformed"),
    "a missing comma": ('{"rationale": "r" "query": "SELECT 1"}', ActionError, "malformed"),
    "NaN": ('{"query": "SELECT 1", "search_top_k": NaN}', ActionError, "malformed"),
    "malformed after an earlier draft": (
        '{"done": true} {"query": "x",}',
        ActionError,
        "malformed",
    ),
    "malformed round a nested draft": (
        '{"plan": {"query": "SELECT 1"}, oops}',
        ActionError,
        "malformed",
    ),
    "nested too deep": (
        '{"query": ' + "[" * 100_000 + "]" * 100_000 + "}",
        ActionError,
        "malformed",
    ),
    "a number too long": ('{"query": ' + "9" * 10_000 + "}", ActionError, "malformed"),
}


@pytest.mark.parametrize(("reply", "kind", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_anything_else_is_rejected_with_a_reason(
    reply: str, kind: type[ActionError], reason: str
) -> None:
    with pytest.raises(ActionError) as caught:
        parse_action(reply)
    assert type(caught.value) is kind
    assert reason in caught.value.reason


@pytest.mark.parametrize("value", ["{}", "[]", '""', '" "', "1", '{"sql": "SELECT 1"}'])
def test_a_query_that_is_no_text_is_refused_with_what_to_send(value: str) -> None:
    for reply in (f'{{"query": {value}}}', f'{{"action": "query_data", "query": {value}}}'):
        with pytest.raises(ActionError) as caught:
            parse_action(reply)
        assert "send the whole query as one JSON string" in caught.value.reason
        assert '"query": "SELECT ..."' in caught.value.reason


HUGE = {
    "open braces": "{" * 400_000,
    "objects": '{"a": 1}' * 200_000,
    "empty objects": "{}" * 400_000,
    "broken objects": "{a}" * 300_000,
    "quotes": '{"' * 200_000,
    "backslashes": '{"query": "' + "\\" * 400_001,
    "think tags": "<think>" * 80_000,
    "closing tags": "x</think>" * 60_000,
    "braces and closing tags": "{</think>" * 50_000,
    "fences": "{a\n" + "```\n{b\n" * 60_000,
    "a long string": '{"query": "' + "x" * 2_000_000,
    "half tags": "<think" * 100_000,
    "half tags with blanks": "<think " * 100_000,
    "blanks in a tag": "<think" + " " * 400_000,
}


@pytest.mark.parametrize("reply", HUGE.values(), ids=HUGE.keys())
def test_huge_replies_are_judged(reply: str) -> None:
    with pytest.raises(ActionError):
        parse_action(reply)


def test_a_huge_legal_query_is_read() -> None:
    query = "SELECT '" + '{}\\"' * 200_000 + "'"
    assert parse_action(json.dumps({"rationale": "r", "query": query})).query == query


@pytest.mark.parametrize("reply", [None, 7, {"query": "SELECT 1"}, b"{}"])
def test_what_is_not_text_is_refused(reply: Any) -> None:
    with pytest.raises(NoJson):
        parse_action(reply)


PIECES = st.sampled_from(
    [
        *("{", "}", "[", "]", '"', "\\", ":", ",", "\n", "```json\n", "```", "<think>", "</think>"),
        *('{"query": "SELECT 1"}', '"done": true', '"name": "query", "input": ', "null", "x", " "),
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=80))
def test_no_reply_crashes_the_parser(reply: str) -> None:
    with suppress(ActionError):
        assert isinstance(parse_action(reply), Action)


def test_an_action_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(NoAction("reason")))
    assert isinstance(error, NoAction)
    assert error.reason == "reason"


def test_kinds_are_the_words_of_the_grammar() -> None:
    assert [kind.value for kind in ActionKind] == [
        *("query", "lookup_schema", "search_tables", "get_correlations", "done")
    ]
