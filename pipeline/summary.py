"""What a discovery amounts to: run type, summary text, key findings, compact schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pipeline.records import (
    AnalysisStep,
    ExplorationStep,
    Insight,
    Recommendation,
    RecommendationStep,
    RunType,
    Severity,
    Status,
    StepAction,
    Summary,
    Table,
)

KEY_FINDINGS = 5
TOP_RECOMMENDATIONS = 3
MAX_SCHEMA_TABLES = 2_000

_TRUST = (
    Status.CONFIRMED,
    Status.SUPPORTED,
    None,
    Status.VALIDATION_DISABLED,
    Status.PARTIAL,
    Status.SKIPPED_BUDGET_CAP,
    Status.UNVERIFIABLE,
    Status.REJECTED,
)
_SEVERITY = tuple(Severity)


def run_type(analysed: Sequence[AnalysisStep], *, enabled_areas: int) -> RunType:
    """Failed when every area failed; partial when some failed or only some of the project's areas
    were run; else full."""
    failed = sum(1 for step in analysed if step.error)
    if failed == len(analysed):
        return RunType.FAILED
    return RunType.PARTIAL if failed or len(analysed) < enabled_areas else RunType.FULL


def errors_of(
    analysed: Sequence[AnalysisStep], advice: RecommendationStep | None, cut_off: str
) -> list[str]:
    """What went wrong, each reason once. ``cut_off`` is the deadline's reason or empty."""
    errors = [
        f"{step.area_name or step.area_id}: {step.error}"
        for step in analysed
        if step.error and step.error != cut_off
    ]
    if advice is not None and advice.error:
        errors.append(f"Recommendations: {advice.error}")
    return [*errors, cut_off] if cut_off else errors


def failure_of(kind: RunType, analysed: Sequence[AnalysisStep]) -> str:
    """Why the run counts as failed; empty unless every area failed."""
    if kind is not RunType.FAILED:
        return ""
    reason = analysed[0].error if analysed else "there was no area to analyse"
    return f"analysis failed in every area: {reason}"


def combined_of(insight: Insight) -> Status | None:
    """The combined status of an insight, None where validation never ran."""
    return insight.validation.combined if insight.validation else None


def best_first(insights: Sequence[Insight]) -> list[Insight]:
    """By how well they held, then severity, then how many they concern."""
    return sorted(
        insights,
        key=lambda i: (
            _TRUST.index(combined_of(i)),
            _SEVERITY.index(i.severity),
            -i.affected_count,
        ),
    )


def summarise(
    *,
    steps: Sequence[ExplorationStep],
    insights: Sequence[Insight],
    recommendations: Sequence[Recommendation],
    table_count: int,
    errors: Sequence[str],
    scorecard: Mapping[str, Any],
    now: datetime,
) -> Summary:
    """The summary block of a discovery. Rejected insights are counted but are no key findings."""
    queries = [step for step in steps if step.action is StepAction.QUERY_DATA]
    held = [i for i in best_first(insights) if combined_of(i) is not Status.REJECTED]
    advice = sorted(recommendations, key=lambda r: r.priority)
    return Summary(
        date=now,
        text=_text(steps, queries, insights, recommendations, table_count),
        key_findings=[insight.name for insight in held[:KEY_FINDINGS]],
        top_recommendations=[r.title for r in advice[:TOP_RECOMMENDATIONS]],
        total_insights=len(insights),
        total_recommendations=len(recommendations),
        queries_executed=len(queries),
        errors=list(errors),
        scorecard=dict(scorecard),
    )


def _text(
    steps: Sequence[ExplorationStep],
    queries: Sequence[ExplorationStep],
    insights: Sequence[Insight],
    recommendations: Sequence[Recommendation],
    table_count: int,
) -> str:
    answered = sum(1 for step in queries if step.succeeded)
    explored = (
        f"Explored {_counted(table_count, 'table')} in {_counted(len(steps), 'step')}; "
        f"{answered} of {_counted(len(queries), 'query', 'queries')} returned a result."
    )
    if not insights:
        return f"{explored} No finding was reported."
    areas = Counter(insight.analysis_area for insight in insights)
    verdicts = Counter(combined_of(insight) for insight in insights)
    judged = ", ".join(
        f"{verdicts[status]} {_words(status)}" for status in _TRUST if verdicts[status]
    )
    return (
        f"{explored} {_counted(len(insights), 'finding')} in {_counted(len(areas), 'area')}: "
        f"{judged}. {_counted(len(recommendations), 'recommendation')}."
    )


def _words(status: Status | None) -> str:
    match status:
        case None | Status.VALIDATION_DISABLED:
            return "not validated"
        case Status.SKIPPED_BUDGET_CAP:
            return "beyond the validation cap"
        case _:
            return status.value


def _counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def compact_schemas(tables: Sequence[Table]) -> dict[str, Any]:
    """Qualified table name to column names. Where two datasources share a name, the earlier one
    keeps it and the other's carries its datasource in front."""
    schemas: dict[str, Any] = {}
    for table in tables[:MAX_SCHEMA_TABLES]:
        taken = table.name in schemas
        name = f"{table.datasource_id}:{table.name}" if taken else table.name
        schemas[name] = [column.name for column in table.columns]
    return schemas
