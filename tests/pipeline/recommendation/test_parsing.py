"""Facts, B.2: decoding of recommendations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.errors import ParseError
from pipeline.recommendation.parsing import parse_recommendations
from pipeline.records import ExpectedImpact, Recommendation
from tests.pipeline.recommendation.conftest import NOW

ITEM: dict[str, Any] = {
    "category": "operations",
    "title": "Add ground staff in July",
    "description": "**Do it.** Soon.",
    "priority": 1,
    "target_segment": "summer",
    "segment_size": 642,
    "expected_impact": {"metric": "delay", "estimated_improvement": "-10 %"},
    "actions": ["a", "b"],
    "related_insight_ids": ["trends-1"],
    "confidence": 0.85,
}


def one(**fields: Any) -> Recommendation:
    reply = json.dumps({"recommendations": [ITEM | fields]})
    [recommendation] = parse_recommendations(reply, now=NOW).recommendations
    return recommendation


def test_every_field_is_read() -> None:
    found = one().model_dump(exclude={"id", "created_at", "validation"})
    assert found == {
        **ITEM,
        "description": "Do it. Soon.",
        "description_md": "**Do it.** Soon.",
        "expected_impact": ExpectedImpact(
            metric="delay", estimated_improvement="-10 %"
        ).model_dump(),
    }


@pytest.mark.parametrize(
    ("written", "impact"),
    [
        ("Fewer delays.", ExpectedImpact(reasoning="Fewer delays.")),
        (None, ExpectedImpact()),
        ({}, ExpectedImpact()),
        ({"total_value": 12, "metric": None}, ExpectedImpact(total_value="12")),
    ],
)
def test_a_text_as_expected_impact_is_its_reasoning_and_null_is_none(
    written: Any, impact: ExpectedImpact
) -> None:
    assert one(expected_impact=written).expected_impact == impact


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        {**ITEM, "title": ""},
        {**ITEM, "expected_impact": 5},
        {**ITEM, "expected_impact": ["x"]},
        {**ITEM, "segment_size": {"n": 1}},
        {**ITEM, "priority": []},
    ],
)
def test_any_other_shape_drops_the_item(bad: Any) -> None:
    parsed = parse_recommendations(json.dumps({"recommendations": [bad, ITEM]}), now=NOW)
    assert (len(parsed.recommendations), parsed.dropped) == (1, 1)


@pytest.mark.parametrize(
    ("written", "priority"),
    [
        (2, 2), ("2", 2), ("P4", 4), (" High ", 1), ("medium", 2), ("low", 3), (None, 3),
        (0, 3), (99, 5), (1.0, 1), ("1.0", 1),
    ],
)  # fmt: skip
def test_priority_runs_from_1_to_5_and_may_be_text(written: Any, priority: int) -> None:
    assert one(priority=written).priority == priority


def test_numbers_may_be_text() -> None:
    found = one(segment_size="1,642", confidence="85%")
    assert (found.segment_size, found.confidence) == (1642, 0.85)


@pytest.mark.parametrize(
    ("written", "ids"),
    [("trends-1", ["trends-1"]), (None, []), ([], []), (["a", 7], ["a", "7"]), ([None], [""])],
)
def test_a_single_citation_is_a_list_of_one(written: Any, ids: list[str]) -> None:
    assert one(related_insight_ids=written).related_insight_ids == ids


@pytest.mark.parametrize("reply", ["[]", '{"recommendations": []}', '{"Recommendations": []}'])
def test_an_explicit_empty_list_is_legitimate(reply: str) -> None:
    assert parse_recommendations(reply, now=NOW).recommendations == []


@pytest.mark.parametrize("reply", ["", "{}", '{"recommendations": null}', '{"insights": []}'])
def test_a_missing_list_is_a_parse_error(reply: str) -> None:
    with pytest.raises(ParseError):
        parse_recommendations(reply, now=NOW)
