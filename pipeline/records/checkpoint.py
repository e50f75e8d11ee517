"""Checkpoint rows: a finished exploration step, the summary of a finished exploration, and a
completed analysis area."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from pipeline.records.discovery import AnalysisStep
from pipeline.records.step import ExplorationStep

SUMMARY_NUMBER = 0


class CheckpointKind(StrEnum):
    EXPLORATION_STEP = "exploration_step"
    EXPLORATION_SUMMARY = "exploration_summary"


def _at_least_one(value: Any) -> Any:
    """Rows from before attempts were counted belong to the first."""
    return 1 if value is None or value == 0 else value


class StepCheckpoint(BaseModel):
    project_id: str = ""
    run_id: str = ""
    step_number: int = Field(ge=0)
    """Counted from 1; 0 is the summary."""
    kind: CheckpointKind = CheckpointKind.EXPLORATION_STEP
    attempt: Annotated[int, BeforeValidator(_at_least_one)] = 1
    """The attempt that wrote the row."""
    step: ExplorationStep | None = None
    """The step with at most 50 rows, without its repair log and raw dialogue."""
    args: dict[str, Any] = Field(default_factory=dict)
    """What a replay needs to do the action again: ``datasource_id``, ``lookup_schema``,
    ``search_tables``, ``search_top_k``, ``correlation_a``, ``correlation_b``, ``reject_reason``,
    ``completion_reason``, and ``query`` where another one ran; only those that the action has."""
    created_at: datetime | None = None
    completed: bool = False
    completion_msg: str = ""
    total_steps: int = 0
    exploration_duration_ms: int = 0

    @model_validator(mode="before")
    @classmethod
    def _complete_step(cls, data: Any) -> Any:
        """The row knows its step's number and time, so the step need not repeat them."""
        if not isinstance(data, Mapping):
            return data
        row = dict(cast("Mapping[str, Any]", data))
        step = row.get("step")
        if isinstance(step, Mapping):
            at = row.get("created_at") or datetime.fromtimestamp(0, UTC)
            known = {"step": row.get("step_number"), "timestamp": at}
            row["step"] = {**known, **cast("Mapping[str, Any]", step)} if step else None
        return row


class AreaCheckpoint(BaseModel):
    """A completed analysis area. An area that failed has none, so that a resume tries it again."""

    project_id: str = ""
    run_id: str = ""
    area_id: str
    attempt: Annotated[int, BeforeValidator(_at_least_one)] = 1
    """The attempt that wrote the row."""
    explored_in: Annotated[int, BeforeValidator(_at_least_one)] = 1
    """The attempt whose exploration the area was analysed over: its insights cite those steps."""
    validated: int = 0
    """How many of its insights took a place under the run's validation cap."""
    step: AnalysisStep
    """The whole analysis, with the insights' verdicts and the validation results."""
    created_at: datetime | None = None
