"""Facts, B.2: run type and summary of a discovery."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.records import (
    AnalysisStep,
    Column,
    ExplorationStep,
    Insight,
    InsightValidation,
    Recommendation,
    RecommendationStep,
    RunType,
    Severity,
    Status,
    StepAction,
    Table,
)
from pipeline.summary import (
    best_first,
    compact_schemas,
    errors_of,
    failure_of,
    run_type,
    summarise,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def area(error: str = "", name: str = "A") -> AnalysisStep:
    return AnalysisStep(area_id=name.lower(), area_name=name, run_at=NOW, error=error)


def insight(name: str, combined: Status | None = Status.CONFIRMED, **fields: Any) -> Insight:
    validation = InsightValidation(combined=combined) if combined else None
    values = {"id": name, "ref": name, "analysis_area": "a", "name": name, "validation": validation}
    return Insight.model_validate(values | fields)


@pytest.mark.parametrize(
    ("errors", "enabled", "expected"),
    [
        (["", ""], 2, RunType.FULL),
        (["", "x"], 2, RunType.PARTIAL),
        (["x", "x"], 2, RunType.FAILED),
        ([""], 2, RunType.PARTIAL),
        (["x"], 2, RunType.FAILED),
        ([], 2, RunType.FAILED),
    ],
)
def test_run_type(errors: list[str], enabled: int, expected: RunType) -> None:
    assert run_type([area(e) for e in errors], enabled_areas=enabled) is expected


def test_only_a_run_whose_every_area_failed_is_a_failure() -> None:
    assert failure_of(RunType.PARTIAL, [area("x")]) == ""
    assert failure_of(RunType.FAILED, [area("bad key")]) == (
        "analysis failed in every area: bad key"
    )


def test_errors_name_their_area_and_the_deadline_once() -> None:
    late = "the run exceeded its time"
    advice = RecommendationStep(run_at=NOW, error="gone")
    steps = [area(), area("odd", "B"), area(late, "C")]
    assert errors_of(steps, advice, late) == ["B: odd", "Recommendations: gone", late]
    assert errors_of([area()], None, "") == []


def test_what_held_comes_first_then_severity_then_size() -> None:
    found = [
        insight("rejected", Status.REJECTED, severity=Severity.CRITICAL),
        insight("small", affected_count=1),
        insight("big", affected_count=9),
        insight("grave", severity=Severity.CRITICAL),
        insight("supported", Status.SUPPORTED, severity=Severity.CRITICAL),
    ]
    assert [i.name for i in best_first(found)] == ["grave", "big", "small", "supported", "rejected"]


@pytest.mark.parametrize("combined", [*Status, None])
def test_every_status_has_its_place(combined: Status | None) -> None:
    assert len(best_first([insight("a", combined)])) == 1


def test_the_summary_counts_and_ranks() -> None:
    steps = [
        ExplorationStep(step=1, timestamp=NOW, action=StepAction.LOOKUP_SCHEMA),
        ExplorationStep(step=2, timestamp=NOW, action=StepAction.QUERY_DATA),
        ExplorationStep(step=3, timestamp=NOW, action=StepAction.QUERY_DATA, error="x"),
    ]
    found = [insight(f"i{n}") for n in range(6)] + [insight("no", Status.REJECTED)]
    advice = [Recommendation(id=str(n), title=f"r{n}", priority=5 - n) for n in range(4)]
    summary = summarise(
        steps=steps,
        insights=found,
        recommendations=advice,
        table_count=1,
        errors=["e"],
        scorecard={"confirmed": 6},
        now=NOW,
    )
    assert summary.text == (
        "Explored 1 table in 3 steps; 1 of 2 queries returned a result. "
        "7 findings in 1 area: 6 confirmed, 1 rejected. 4 recommendations."
    )
    assert summary.key_findings == ["i0", "i1", "i2", "i3", "i4"]
    assert summary.top_recommendations == ["r3", "r2", "r1"]
    assert (summary.total_insights, summary.total_recommendations) == (7, 4)
    assert (summary.queries_executed, summary.errors) == (2, ["e"])
    assert (summary.date, summary.scorecard) == (NOW, {"confirmed": 6})


def test_a_rejected_insight_is_no_key_finding_and_none_is_said_plainly() -> None:
    common: dict[str, Any] = {
        "steps": [], "recommendations": [], "table_count": 2, "errors": [], "scorecard": {},
        "now": NOW,
    }  # fmt: skip
    assert summarise(insights=[insight("x", Status.REJECTED)], **common).key_findings == []
    assert summarise(insights=[], **common).text.endswith("No finding was reported.")
    unjudged = [insight("x", None), insight("y", Status.VALIDATION_DISABLED)]
    assert "not validated" in summarise(insights=unjudged, **common).text


def test_schemas_are_column_names_by_table() -> None:
    tables = [
        Table(name="main.a", columns=[Column(name="x", type="INT"), Column(name="y", type="INT")]),
        Table(name="main.a", datasource_id="other", columns=[Column(name="z", type="INT")]),
    ]
    assert compact_schemas(tables) == {"main.a": ["x", "y"], "other:main.a": ["z"]}
