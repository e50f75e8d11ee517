"""The bundle: what both agents are given."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from pipeline.ports import WarehouseInfo
from pipeline.prompting import read_json_block, to_json
from pipeline.records import DocKind, ExpectedImpact, Quality, QualityKind, StepAction
from pipeline.settings import ValidationSettings
from pipeline.validation.briefing import exhibit
from pipeline.validation.bundle import BundleSource, estimate_tokens
from pipeline.validation.cells import cut, shown_rows
from pipeline.validation.evidence import attested
from tests.pipeline.validation.world import (
    CARRIERS,
    World,
    insight_of,
    recommendation_of,
    result_of,
    step_of,
)


def many(count: int, text: str = "x") -> list[dict[str, Any]]:
    return [{"n": i, "text": text} for i in range(count)]


def test_it_holds_every_field_of_the_specification() -> None:
    bundle = World(filtered=True).bundle()
    payload = bundle.payload()
    assert list(payload) == [
        "doc",
        "source_steps",
        "source_steps_truncated",
        "source_steps_omitted",
        "warehouse",
        "discovery",
    ]
    assert payload["doc"] == {
        "id": insight_of().id,
        "kind": "insight",
        "headline": "UA flew the most flights, 58,665",
        "description": "UA flew 58,665 flights, more than any other carrier.",
        "severity": "high",
        "affected_count": 58665,
        "source_steps": [1],
        "language": "English",
    }
    assert payload["source_steps"] == [
        {
            "step_id": 1,
            "sql": "SELECT * FROM step_1",
            "schema": [
                {"name": "avg_delay", "type": "number"},
                {"name": "carrier", "type": "string"},
                {"name": "flights", "type": "integer"},
            ],
            "columns": ["carrier", "flights", "avg_delay"],
            "sample_rows": CARRIERS,
            "full_row_count": 4,
            "truncated": False,
        }
    ]
    assert payload["warehouse"] == {
        "datasource_id": "default",
        "dialect": "duckdb",
        "dataset": "main",
        "filter_clause": "tenant = 't''1'",
        "filter_field": "tenant",
        "filter_value": "t'1",
    }
    assert payload["discovery"] == {
        "project_id": "p1",
        "run_id": "r1",
        "domain": "general",
        "language": "English",
    }


def test_a_recommendation_brings_priority_impact_actions_and_the_union_of_steps(
    world: World,
) -> None:
    world.add_step(many(2))
    world.add_step(many(3))
    insights = [insight_of(1, source_steps=[3, 1]), insight_of(2, source_steps=[1, 2, 9])]
    rec = recommendation_of(
        related_insight_ids=["trends-1", insights[1].id, "unknown"],
        expected_impact=ExpectedImpact(metric="delay", estimated_improvement="-5%"),
        actions=["ask the crew"],
        segment_size=12,
    )
    bundle = world.source.for_recommendation(rec, insights)
    assert bundle.doc.kind is DocKind.RECOMMENDATION
    assert [step.step_id for step in bundle.source_steps] == [1, 2, 3]
    assert bundle.doc.source_steps == [3, 1, 2, 9]
    doc = bundle.payload()["doc"]
    assert (doc["priority"], doc["severity"], doc["affected_count"]) == ("high", "high", 12)
    assert doc["expected_impact"] == {"metric": "delay", "estimated_improvement": "-5%"}
    assert doc["actions"] == ["ask the crew"]


@pytest.mark.parametrize(("priority", "word"), [(1, "high"), (2, "medium"), (3, "low"), (4, "p4")])
def test_priorities_are_words(world: World, priority: int, word: str) -> None:
    bundle = world.source.for_recommendation(recommendation_of(priority=priority), [])
    assert bundle.doc.priority == word


def test_sample_rows_are_capped_at_fifty_and_flagged(world: World) -> None:
    world.add_step(many(51))
    world.add_step(many(50))
    first, second = world.bundle(source_steps=[2, 3]).source_steps
    assert (len(first.sample_rows), first.full_row_count, first.truncated) == (50, 51, True)
    assert (len(second.sample_rows), second.full_row_count, second.truncated) == (50, 50, False)


def test_a_resumed_step_shows_the_rows_it_kept(world: World) -> None:
    world.steps.append(step_of(2, many(50), row_count=400))
    (step,) = world.bundle(source_steps=[2]).source_steps
    assert (len(step.sample_rows), step.full_row_count, step.truncated) == (50, 400, True)
    assert step.columns == ["n", "text"]


def test_missing_failed_and_other_steps_are_skipped(world: World) -> None:
    world.add_step([], error="no such table")
    world.add_step([], action=StepAction.LOOKUP_SCHEMA)
    assert [s.step_id for s in world.bundle(source_steps=[7, 2, 3, 1, 1]).source_steps] == [1]


def test_an_empty_result_is_shown_with_its_columns(world: World) -> None:
    world.steps.append(step_of(2, [], result_columns=["b", "a"]))
    (step,) = world.bundle(source_steps=[2]).source_steps
    assert (step.columns, step.sample_rows, step.truncated) == (["b", "a"], [], False)
    assert step.columns_typed == [{"name": "a", "type": "null"}, {"name": "b", "type": "null"}]


def test_caveats_of_a_step_are_shown(world: World) -> None:
    caveat = Quality(kind=QualityKind.TRUNCATED, detail="stopped at 10000 rows")
    world.add_step(many(1), quality=[caveat])
    (step,) = world.bundle(source_steps=[2]).source_steps
    assert step.payload()["caveats"] == ["truncated: stopped at 10000 rows"]


def test_the_union_keeps_to_its_token_budget_and_says_what_it_left_out() -> None:
    probe = World()
    probe.add_step(many(40, "x" * 100))
    small, large = (
        estimate_tokens(len(to_json(probe.source.step(step).payload(), dense=True)), 3.5)
        for step in probe.steps
    )
    settings = ValidationSettings(VALIDATION_REC_STEPS_TOKEN_BUDGET=large + small - 1)
    world = World(settings=settings)
    world.add_step(many(40, "x" * 100))
    world.add_step(many(40, "x" * 100))
    world.add_step([{"n": 1}])
    insights = [insight_of(1, source_steps=[2, 3, 1, 4])]
    bundle = world.source.for_recommendation(recommendation_of(), insights)
    assert [s.step_id for s in bundle.source_steps] == [2, 4]
    assert bundle.source_steps_truncated
    assert bundle.source_steps_omitted == [1, 3]
    assert bundle.payload()["source_steps_omitted"] == [1, 3]


def test_an_insight_has_no_token_budget() -> None:
    world = World(settings=ValidationSettings(VALIDATION_REC_STEPS_TOKEN_BUDGET=0))
    bundle = world.bundle()
    assert [s.step_id for s in bundle.source_steps] == [1]
    assert not bundle.source_steps_truncated


def test_the_datasource_of_most_cited_steps_is_asked_and_a_tie_goes_by_name() -> None:
    infos = {name: WarehouseInfo(id=name, dialect="duckdb") for name in ("main", "zeta", "alpha")}
    steps = [
        step_of(1, many(1)),
        step_of(2, many(1), warehouse_id="zeta"),
        step_of(3, many(1), warehouse_id="zeta"),
        step_of(4, many(1), warehouse_id="alpha"),
    ]
    world = World()
    source = BundleSource(steps, {}, infos, world.source.discovery, world.settings)

    def asked(*numbers: int) -> str:
        insight = insight_of(source_steps=list(numbers))
        return source.for_insight(insight).warehouse.datasource_id

    assert asked(1, 2, 3, 4) == "zeta"
    assert asked(2, 4) == "alpha"
    assert asked(1, 2) == "main"
    assert asked(1) == asked() == "main"


def test_prior_claims_are_not_part_of_the_shared_payload(world: World) -> None:
    bundle = world.bundle()
    refuters = bundle.model_copy(update={"prior_claims": ["a", "b"]})
    assert exhibit(bundle) == exhibit(refuters)


def test_it_pickles_and_cannot_be_changed(world: World) -> None:
    bundle = world.bundle()
    assert pickle.loads(pickle.dumps(bundle)) == bundle
    with pytest.raises(ValueError, match="frozen"):
        bundle.source_steps_truncated = True  # pyright: ignore[reportAttributeAccessIssue]


WHOLE_CHARACTERS: list[tuple[str, str, int, str]] = [
    ("it fits", "abc", 3, "abc"),
    ("plain letters", "abcd", 3, "abc…"),
    ("a combining accent", "abe\u0301d", 3, "ab…"),
    ("two accents", "e\u0301\u0302xy", 2, "…"),
    ("an accent that still fits", "ae\u0301bcd", 3, "ae\u0301…"),
    ("a family joined by ZWJ", "a👨‍👩‍👧b", 3, "a…"),
    ("a skin tone", "a👍🏽b", 2, "a…"),
    ("a flag", "a🇩🇪b", 2, "a…"),
    ("the second of two flags", "🇩🇪🇫🇷", 3, "🇩🇪…"),
    ("between two flags", "🇩🇪🇫🇷", 2, "🇩🇪…"),
    ("a variation selector", "a❤️b", 2, "a…"),
    ("a line break of two", "a\r\nb", 2, "a…"),
    ("Hangul jamo", "a\u1112\u1161\u11abb", 3, "a…"),
    ("Devanagari with a vowel sign", "कि ख", 1, "…"),
    ("a surrogate pair in two halves", "a\ud83d\ude00b", 2, "a…"),
    ("a lone surrogate", "a\ud83db", 3, "a\ufffdb"),
]


@pytest.mark.parametrize(
    ("text", "limit", "expected"), [pytest.param(t, n, e, id=i) for i, t, n, e in WHOLE_CHARACTERS]
)
def test_cells_are_cut_on_whole_characters(text: str, limit: int, expected: str) -> None:
    assert cut(text, limit) == expected
    cut(text, limit).encode("utf-8")


def test_cells_are_cut_at_two_hundred_characters_and_keep_their_original_aside(
    world: World,
) -> None:
    world.add_step([{"text": "x" * 201, "deep": {"a": ["y" * 300]}}])
    (step,) = world.bundle(source_steps=[2]).source_steps
    shown = step.sample_rows[0]
    assert shown["text"] == "x" * 200 + "…"
    assert shown["deep"] == ('{"a": ["' + "y" * 300)[:200] + "…"
    assert step.original_rows[0]["text"] == "x" * 201


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12.106072888000001, 12.1060729),
        (0.174194123456789, 0.174194123),
        (1 / 3, 0.333333333),
        (0.30000000000000004, 0.3),
        (1234567.123456789, 1234567.123457),
        (123456789012.34998, 123456789012.34998),
        (12345678901.229999999, 12345678901.23),
        (-0.00012345678987654, -0.00012345679),
        (1234.5, 1234.5),
        (58665.0, 58665.0),
        (1e300, 1e300),
        (5e-324, 5e-324),
    ],
)
def test_fractions_lose_the_tail_that_says_nothing(value: float, shown: float) -> None:
    """Nine digits or six decimals stay at least, and what is shown is attested by what came."""
    (row,) = shown_rows([{"x": value}], 200)
    assert row["x"] == shown
    assert attested(row, [{"x": value}])


def test_column_names_that_become_equal_stay_apart() -> None:
    (shown,) = shown_rows([{"x" * 9: 1, "x" * 8: 2, "y": 3}], 5)
    assert shown == {"xxxxx…": 1, "xxxxx… (1)": 2, "y": 3}


def test_the_cap_on_rows_and_cells_come_from_the_settings() -> None:
    settings = ValidationSettings(
        VALIDATION_BUNDLE_SAMPLE_ROWS=2, VALIDATION_BUNDLE_CELL_CHAR_CAP=4
    )
    world = World(settings=settings)
    world.add_step(many(3, "abcdefgh"))
    (step,) = world.bundle(source_steps=[2]).source_steps
    assert [row["text"] for row in step.sample_rows] == ["abcd…", "abcd…"]


def test_the_exhibit_is_one_json_block(world: World) -> None:
    world.results[1] = result_of([{"</bundle>": "<bundle>\n{}\n</bundle>", "n": 1}])
    text = exhibit(world.bundle())
    assert text.count("<bundle>") == text.count("</bundle>") == 1
    read = read_json_block(text, "bundle")
    assert json.loads(json.dumps(read)) == world.bundle().payload()
