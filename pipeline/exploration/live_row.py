"""A finished exploration step as a row of the live feed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pipeline.exploration.outcome import ERROR_CHARS, clip
from pipeline.records import ExplorationStep, RunPhase, RunStep, RunStepType, StepAction

_TYPES: Mapping[StepAction, RunStepType] = {
    StepAction.QUERY_DATA: RunStepType.QUERY,
    StepAction.LOOKUP_SCHEMA: RunStepType.LOOKUP_SCHEMA,
    StepAction.SEARCH_TABLES: RunStepType.SEARCH_TABLES,
    StepAction.GET_CORRELATIONS: RunStepType.GET_CORRELATIONS,
    StepAction.COMPLETE: RunStepType.PHASE,
    StepAction.COMPLETE_REJECTED: RunStepType.COMPLETE_REJECTED,
}


def live_row(
    step: ExplorationStep, *, total: int, at: datetime, asked: str = "", notice: str = ""
) -> RunStep:
    """The row of a step among ``total`` at most; ``asked`` is the query as the model sent it, and
    ``notice`` says what came of it, where that is known better than from the record."""
    return RunStep(
        phase=RunPhase.EXPLORATION.value,
        step_num=step.step,
        step_total=total,
        timestamp=at,
        type=_TYPES[step.action],
        message=notice or notice_of(step),
        llm_thinking=step.thinking,
        llm_query=asked,
        query=step.query,
        query_result=f"{step.row_count} rows" if step.succeeded else "",
        row_count=step.row_count,
        query_time_ms=step.execution_time_ms,
        query_fixed=step.fixed,
        error=step.error,
        duration_ms=step.duration_ms,
        tokens=step.tokens_in + step.tokens_out,
        warehouse_id=step.warehouse_id if step.action is StepAction.QUERY_DATA else "",
    )


def notice_of(step: ExplorationStep) -> str:
    """One line on a step, from its record alone."""
    if step.error:
        return clip(step.error, ERROR_CHARS)
    match step.action:
        case StepAction.QUERY_DATA:
            return step.query_purpose or clip(step.thinking, 200) or "Ran a query"
        case StepAction.LOOKUP_SCHEMA:
            return clip(f"Looked up {', '.join(step.lookup_tables[:10])}", ERROR_CHARS)
        case StepAction.SEARCH_TABLES:
            return f"Searched tables for: {clip(step.search_text, 200)}"
        case StepAction.GET_CORRELATIONS:
            return f"Looked up correlations of {' and '.join(step.correlated)}"
        case StepAction.COMPLETE:
            return f"Exploration finished: {step.thinking}".rstrip(": ")
        case StepAction.COMPLETE_REJECTED:
            return clip(step.reject_reason, ERROR_CHARS)
