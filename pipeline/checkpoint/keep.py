"""What a checkpoint keeps of a step."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeline.records import ExplorationStep, StepAction
from pipeline.records.checkpoint import StepCheckpoint

ROWS_KEPT = 50
"""As many as a validation bundle shows, so that a resumed run's verifier sees the same rows."""


def checkpoint_of(
    step: ExplorationStep, *, project_id: str, run_id: str, attempt: int, at: datetime
) -> StepCheckpoint:
    """The row for a finished step: its first 50 rows, without repair log and raw dialogue."""
    kept = step.model_copy(
        update={
            "query_result": step.query_result[:ROWS_KEPT],
            "fix_history": [],
            "llm_request": "",
            "llm_response": "",
        }
    )
    return StepCheckpoint(
        project_id=project_id,
        run_id=run_id,
        step_number=step.step,
        attempt=attempt,
        step=kept,
        args=_args(step),
        created_at=at,
    )


def _args(step: ExplorationStep) -> dict[str, Any]:
    args: dict[str, Any] = dict(step.asked or _asked_according_to(step))
    args["reject_reason"] = step.reject_reason
    if args.get("query") == step.query:
        del args["query"]
    return {name: value for name, value in args.items() if value}


def _asked_according_to(step: ExplorationStep) -> dict[str, Any]:
    """The arguments as far as the rest of the record knows them."""
    return {
        "datasource_id": step.warehouse_id,
        "lookup_schema": step.lookup_tables,
        "search_tables": step.search_text,
        "completion_reason": step.thinking if step.action is StepAction.COMPLETE else "",
    }
