"""Facts, section H: reading an analysis reply."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Any

import pytest

from pipeline.analysis.insights import ParsedInsights, parse_insights
from pipeline.errors import ParseError
from pipeline.records import Insight, Quality, QualityKind, Severity
from tests.pipeline.analysis.conftest import NOW, MakeStep

ITEM: dict[str, Any] = {
    "name": "Delays double in summer",
    "description": "**Delays double.** From 8 to 16 minutes.",
    "severity": "high",
    "affected_count": 8298,
    "risk_score": 0.67,
    "confidence": 0.85,
    "metrics": {"mean": 16.04},
    "indicators": ["16 min in July"],
    "target_segment": "summer flights",
    "source_steps": [3, 1],
}


@pytest.fixture
def shown(make_step: MakeStep) -> list[Any]:
    return [make_step(n, query=f"SELECT {n}", row_count=n * 10) for n in (1, 3, 5)]


def parse(reply: str, shown: list[Any]) -> ParsedInsights:
    return parse_insights(reply, "trends", shown, now=NOW)


def one(item: dict[str, Any], shown: list[Any]) -> Insight:
    [insight] = parse(json.dumps({"insights": [item]}), shown).insights
    return insight


BODY = json.dumps([ITEM])


@pytest.mark.parametrize(
    "reply",
    [
        f'{{"insights": {BODY}}}',
        f'{{"Insights": {BODY}}}',
        f'{{"INSIGHTS": {BODY}, "note": "extra"}}',
        BODY,
        f'Here they are:\n```json\n{{"insights": {BODY}}}\n```\nGood luck.',
        f"```\n{BODY}\n```",
        f'```json\n{{"insights": {BODY}}}',
        f'<think>{{"insights": []}} hmm</think>{{"insights": {BODY}}}',
        f'I think {{so}}.</think>\n{{"insights": {BODY}}}',
        f'<thinking>So: {{"insights": {BODY}}}',
        f'A draft {{"insights": []}} and the answer {{"insights": {BODY}}}',
        f'As step [1] says, [see] {{x}}: {{"insights": {BODY}}}',
        f'{{"insights": {json.dumps(ITEM)}}}',
    ],
)
def test_the_envelope_is_found_in_any_case_or_as_a_bare_array(reply: str, shown: list[Any]) -> None:
    assert [i.name for i in parse(reply, shown).insights] == [ITEM["name"]]


@pytest.mark.parametrize("reply", ['{"insights": []}', "[]", "```json\n[]\n```"])
def test_an_explicit_empty_list_is_legitimate(reply: str, shown: list[Any]) -> None:
    assert parse(reply, shown) == ParsedInsights([], 0)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "There is nothing to report.",
        "{}",
        '{"insights": null}',
        '{"insights": "none"}',
        '{"findings": []}',
        json.dumps(ITEM),
        '{"insights": [{"name": "cut off", "indicators": ["a"],',
        '{"insights": [{"name": "x", "metrics": {"a": 1}}, {"na',
        "see [1], [2]",
        '{"insights": [1, "two", null]}',
    ],
)
def test_without_an_envelope_or_a_usable_item_parsing_fails(reply: str, shown: list[Any]) -> None:
    with pytest.raises(ParseError):
        parse(reply, shown)


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        7,
        None,
        [],
        {},
        {**ITEM, "name": "", "description": ""},
        {**ITEM, "affected_count": {"n": 1}},
        {**ITEM, "affected_count": "many"},
        {**ITEM, "affected_count": True},
        {**ITEM, "metrics": "text"},
    ],
)
def test_a_bad_item_is_dropped_and_counted(bad: Any, shown: list[Any]) -> None:
    parsed = parse(json.dumps({"insights": [ITEM, bad, ITEM]}), shown)
    assert [i.ref for i in parsed.insights] == ["trends-1", "trends-2"]
    assert parsed.dropped == 1


def test_every_field_is_read(shown: list[Any]) -> None:
    insight = one(ITEM, shown)
    assert insight.model_dump(exclude={"id"}) == {
        **ITEM,
        "ref": "trends-1",
        "analysis_area": "trends",
        "severity": Severity.HIGH,
        "description": "Delays double. From 8 to 16 minutes.",
        "description_md": ITEM["description"],
        "sql_metadata": {"query": "SELECT 3", "row_count": 30},
        "discovered_at": NOW,
        "validation": None,
        "evidence_quality": [],
    }


def test_ids_are_new_uuids_and_refs_count_within_the_area(shown: list[Any]) -> None:
    reply = json.dumps({"insights": [{**ITEM, "id": "churn-7"}, ITEM]})
    first, again = parse(reply, shown), parse(reply, shown)
    assert [i.ref for i in first.insights] == ["trends-1", "trends-2"]
    ids = [uuid.UUID(i.id) for i in [*first.insights, *again.insights]]
    assert len(set(ids)) == 4


def test_the_area_is_always_overwritten(shown: list[Any]) -> None:
    assert one({**ITEM, "analysis_area": "churn"}, shown).analysis_area == "trends"


@pytest.mark.parametrize(
    ("written", "count"),
    [
        (12, 12), ("12", 12), ("8,298", 8298), ("~ 1 200", 1200), ("1.2M", 1_200_000),
        ("3k", 3000), (12.4, 12), ("12.0", 12), (-4, 0), (None, 0), ("", 0), ("n/a", 0),
        (2**70, 2**63 - 1), (1e308, 2**63 - 1), ("1e400", 2**63 - 1),
    ],
)  # fmt: skip
def test_numbers_may_be_text(written: Any, count: int, shown: list[Any]) -> None:
    assert one({**ITEM, "affected_count": written}, shown).affected_count == count


@pytest.mark.parametrize(
    ("written", "share"),
    [
        (0.5, 0.5), ("0.5", 0.5), ("85%", 0.85), (85, 0.85), (1, 1.0), ("1%", 0.01), (1.2, 1.0),
        (-1, 0.0), (None, 0.0), ("high", 0.0), ([], 0.0), (True, 0.0), (900, 1.0),
    ],
)  # fmt: skip
def test_scores_end_between_0_and_1(written: Any, share: float, shown: list[Any]) -> None:
    insight = one({**ITEM, "risk_score": written, "confidence": written}, shown)
    assert insight.risk_score == insight.confidence == pytest.approx(share)


@pytest.mark.parametrize(
    ("written", "severity"),
    [
        ("critical", Severity.CRITICAL), (" HIGH ", Severity.HIGH), ("Moderate", Severity.MEDIUM),
        ("info", Severity.LOW), ("odd", Severity.MEDIUM), (None, Severity.MEDIUM),
        (3, Severity.MEDIUM), (["low"], Severity.LOW),
    ],
)  # fmt: skip
def test_severity_is_normalised(written: Any, severity: Severity, shown: list[Any]) -> None:
    assert one({**ITEM, "severity": written}, shown).severity is severity


CITED: list[tuple[Any, list[int]]] = [
        ([1, 3], [1, 3]), ([3, 1, 3], [3, 1]), (5, [5]), ("5", [5]), ("step 3", [3]),
        ("1, 3 and 5", [1, 3, 5]), (["Step #1", "5.0"], [1, 5]), ([3.0, 1.5], [3]),
        ([2, 99, -1, 0], []), ([True, None, {}, "x"], []), (None, []), ({"step": 1}, []),
        ("9" * 5000, []), ([10**400], []),
]  # fmt: skip


@pytest.mark.parametrize(("written", "steps"), CITED)
def test_source_steps_are_only_steps_that_were_shown(
    written: Any, steps: list[int], shown: list[Any]
) -> None:
    assert one({**ITEM, "source_steps": written}, shown).source_steps == steps


@pytest.mark.parametrize(
    ("written", "indicators"),
    [
        ("one", ["one"]), (["a", 2, None, "", {"k": 1}], ["a", "2", '{"k": 1}']), (None, []),
        (3, ["3"]),
    ],
)  # fmt: skip
def test_indicators_may_be_one_text(written: Any, indicators: list[str], shown: list[Any]) -> None:
    assert one({**ITEM, "indicators": written}, shown).indicators == indicators


def test_a_missing_name_is_the_first_sentence_of_the_description(shown: list[Any]) -> None:
    item = {**ITEM, "name": None, "description": "**Delays double.** In summer."}
    assert one(item, shown).name == "Delays double."


def test_names_hold_no_markdown(shown: list[Any]) -> None:
    assert one({**ITEM, "name": "**Delays**\n`dep_delay`"}, shown).name == "Delays dep_delay"


def test_field_names_in_any_case(shown: list[Any]) -> None:
    item = {"Name": "n", "Source_Steps": [1], "AFFECTED_COUNT": "4"}
    insight = one(item, shown)
    assert (insight.name, insight.source_steps, insight.affected_count) == ("n", [1], 4)


def test_evidence_quality_comes_from_the_cited_steps_and_is_never_authored(
    make_step: MakeStep,
) -> None:
    truncated = Quality(kind=QualityKind.TRUNCATED, detail="LIMIT 10")
    sampled = Quality(kind=QualityKind.SAMPLED)
    steps = [
        make_step(1, quality=[truncated, sampled]),
        make_step(2, quality=[truncated]),
        make_step(3, quality=[Quality(kind=QualityKind.RESTRICTED)]),
    ]
    item = {**ITEM, "source_steps": [2, 1], "evidence_quality": ["perfect"]}
    assert one(item, steps).evidence_quality == ["truncated", "sampled"]


def test_what_a_store_cannot_hold_is_cleaned(shown: list[Any]) -> None:
    reply = '{"insights": [{"name": "a\\u0000\\ud800", "metrics": {"x": NaN, "y": 1e999, "z": 9' + (
        "9" * 30 + "}}]}"
    )
    [insight] = parse(reply, shown).insights
    assert insight.name == "a?"
    assert insight.metrics == {"x": None, "y": None, "z": 1e31}


def test_line_breaks_inside_strings_are_tolerated(shown: list[Any]) -> None:
    reply = '{"insights": [{"name": "x", "description": "one\n\ntwo"}]}'
    assert parse(reply, shown).insights[0].description == "one\n\ntwo"


def test_a_citation_names_the_query_that_an_insight_leans_on_most(
    shown: list[Any], now: datetime
) -> None:
    insight = one({**ITEM, "source_steps": [99, 5]}, shown)
    assert insight.sql_metadata == {"query": "SELECT 5", "row_count": 50}
    assert one({**ITEM, "source_steps": []}, shown).sql_metadata == {}
    assert insight.discovered_at == now
