"""Phase 3, "The action format is the engine's, not the pack's"."""

from __future__ import annotations

import json
import re

import pytest

from pipeline.errors import ActionError
from pipeline.exploration.actions import ActionKind, NoAction, NoJson, parse_action
from pipeline.exploration.budget import Budget
from pipeline.exploration.prompts import (
    Grammar,
    Source,
    first_message,
    nudge,
    rewrite_legacy,
    system_prompt,
)
from pipeline.ports import WarehouseInfo

ONE = Grammar((Source("default"),))
TWO = Grammar((Source("default", dialect="duckdb"), Source("shop", label="web shop")), True)
CUBE = Grammar((Source("cube", language="Cube query", tables=False),))
MIXED = Grammar((Source("default"), Source("cube", language="Cube query", tables=False)))


@pytest.mark.parametrize("error", [NoJson("a"), NoAction("b"), ActionError("c")])
@pytest.mark.parametrize("grammar", [ONE, TWO, CUBE, MIXED])
def test_first_message_and_nudges_state_the_same_grammar(
    error: ActionError, grammar: Grammar
) -> None:
    for text in (
        first_message(grammar, Budget()),
        nudge(error, grammar),
        nudge(error, grammar, cut_off_at=4096),
    ):
        assert grammar.text() in text
        assert "{{" not in text
        assert "thinking" not in text


def test_nudges_tell_no_json_no_action_and_the_rest_apart() -> None:
    said = [nudge(error, ONE) for error in (NoJson("x"), NoAction("x"), ActionError("x"))]
    said.append(nudge(ActionError("x"), ONE, cut_off_at=777))
    assert len(set(said)) == 4
    assert "777 output tokens" in said[-1]
    assert "saying that you are finished" in said[0]


@pytest.mark.parametrize("grammar", [ONE, TWO, CUBE, MIXED])
def test_every_shape_that_is_taught_can_be_parsed(grammar: Grammar) -> None:
    shapes = re.findall(r"^- [^:]+: (\{.*\})$", grammar.text(), re.M)
    kinds = [parse_action(s, object_sources=grammar.object_sources).kind for s in shapes]
    assert all(json.loads(shape) for shape in shapes)
    assert kinds[0] is ActionKind.QUERY
    assert kinds[-1] is ActionKind.DONE
    assert (ActionKind.LOOKUP_SCHEMA in kinds) == (grammar is not CUBE)
    assert (ActionKind.GET_CORRELATIONS in kinds) == (grammar is TWO)
    assert ActionKind.SEARCH_TABLES in kinds


def test_a_multi_datasource_run_names_the_datasource_in_every_query_and_lookup() -> None:
    text = TWO.text()
    for key in ('"query"', '"lookup_schema"'):
        (line,) = (line for line in text.splitlines() if key in line)
        assert '"datasource_id"' in line
    assert "- shop: SQL, web shop" in text
    assert "datasource_id" not in ONE.text()


def test_a_source_that_is_not_sql_is_shown_its_own_language() -> None:
    assert "the Cube query request as text" in CUBE.text()
    assert "SELECT" not in CUBE.text()
    assert "lookup_schema" not in CUBE.text()
    assert "has no tables to look up" in MIXED.text()


@pytest.mark.parametrize(("grammar", "offered"), [(ONE, True), (MIXED, True), (CUBE, False)])
def test_a_cube_shaped_source_is_not_offered_lookups_in_the_budget_either(
    grammar: Grammar, offered: bool
) -> None:
    text = first_message(grammar, Budget())
    assert ("lookup_calls" in text) is offered
    assert ("30 schema lookups of" in text) is offered
    assert "up to 30 table searches" in text


def test_correlations_are_offered_only_between_several_datasources() -> None:
    one, two = WarehouseInfo("a", "duckdb"), WarehouseInfo("b", "postgres")
    assert not Grammar.of([one], Budget(), correlations=True).correlations
    assert Grammar.of([one, two], Budget(), correlations=True).correlations
    assert not Grammar.of([one, two], Budget(), correlations=False).correlations
    assert "and 12 correlation look-ups" in first_message(TWO, Budget())


def test_the_system_prompt_has_role_line_base_context_and_pack_text() -> None:
    text = system_prompt("BASE {{PROFILE}}", 'PACK {{LEFT}} send {"thinking": "..."}')
    assert text.splitlines()[0] == "# Veridical role: explorer"
    assert text.index("BASE {{PROFILE}}") < text.index("PACK {{LEFT}}")
    assert '{"rationale": "..."}' in text


def test_text_that_a_variable_brings_in_is_not_expanded() -> None:
    text = system_prompt("{{EXPLORATION}}", "PACK")
    assert text.count("PACK") == 1


@pytest.mark.parametrize(
    ("legacy", "rewritten"),
    [
        ('{"thinking": "why", "query": "x"}', '{"rationale": "why", "query": "x"}'),
        (r"{\"thinking\": 1}", r"{\"rationale\": 1}"),
        ("{'Thinking': 1}", "{'rationale': 1}"),
        ("the `thinking` text", "the `rationale` text"),
        ("- **thinking**: your reasons", "- **rationale**: your reasons"),
        ("- thinking: your reasons", "- rationale: your reasons"),
        ("{ thinking: 1, query: 2 }", "{ rationale: 1, query: 2 }"),
        ("Fill the thinking field first.", "Fill the rationale field first."),
        ("a field named thinking", "a field named rationale"),
        ("the key thinking holds", "the key rationale holds"),
        ("Start by thinking about churn.", "Start by thinking about churn."),
        ("Critical thinking is welcome: be exact.", "Critical thinking is welcome: be exact."),
        (r'\\"thinking\\": 1', r'\\"rationale\\": 1'),
        ("{&quot;thinking&quot;: 1}", "{&quot;rationale&quot;: 1}"),
        ("“thinking”: why", "“rationale”: why"),
        ("**thinking:** your reasons", "**rationale:** your reasons"),
        ("* thinking (string): why", "* rationale (string): why"),
        ("1. thinking: why", "1. rationale: why"),
        ("thinking = why", "rationale = why"),
        ("| thinking | string |", "| rationale | string |"),
        ('"required": ["thinking", "query"]', '"required": ["rationale", "query"]'),
        ("the fields thinking, query and done", "the fields rationale, query and done"),
        ("JSON with thinking and query.", "JSON with rationale and query."),
        ("send thinking, query, query_purpose", "send rationale, query, query_purpose"),
        ("send query_purpose and thinking.", "send query_purpose and rationale."),
        ("send thinking (why) and query", "send rationale (why) and query"),
        ("After thinking, query the orders table.", "After thinking, query the orders table."),
        ("Write the query, thinking about joins.", "Write the query, thinking about joins."),
        ("Rethinking: a thinking person's thinking.", "Rethinking: a thinking person's thinking."),
        ("design-thinking and user_research", "design-thinking and user_research"),
        ("<thinking>", "<thinking>"),
        (
            'a "thinking" b\n<catalog>\nmain."thinking" | 2\n</catalog>\nc "thinking" d',
            'a "rationale" b\n<catalog>\nmain."thinking" | 2\n</catalog>\nc "rationale" d',
        ),
        ('<format>\n{"thinking": 1}\n</format>', '<format>\n{"rationale": 1}\n</format>'),
        ("", ""),
    ],
)
def test_legacy_pack_text_that_teaches_thinking_is_rewritten(legacy: str, rewritten: str) -> None:
    assert rewrite_legacy(legacy) == rewritten
    assert rewrite_legacy(rewritten) == rewritten
