"""What a checkpoint keeps of a step (specification: what a checkpoint keeps)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.checkpoint.keep import ROWS_KEPT, checkpoint_of
from pipeline.records import ExplorationStep, FixAttempt, Quality, QualityKind, StepAction
from pipeline.records.checkpoint import StepCheckpoint

AT = datetime(2026, 1, 1, tzinfo=UTC)


def kept(**fields: Any) -> StepCheckpoint:
    given = {"step": 3, "timestamp": AT, "action": StepAction.QUERY_DATA} | fields
    step = ExplorationStep.model_validate(given)
    return checkpoint_of(step, project_id="p", run_id="r", attempt=2, at=AT)


def test_kept_are_up_to_50_rows_digest_caveats_and_the_healing_summary() -> None:
    rows = [{"n": n} for n in range(60)]
    quality = [Quality(kind=QualityKind.TRUNCATED, detail="cap")]
    step = kept(
        query_result=rows,
        row_count=60,
        compact_result={"row_count": 60},
        quality=quality,
        fixed=True,
        fix_attempts=2,
        tokens_in=7,
    ).step
    assert step is not None
    assert step.query_result == rows[:ROWS_KEPT] == rows[:50]
    assert (step.row_count, step.compact_result, step.quality) == (60, {"row_count": 60}, quality)
    assert (step.fixed, step.fix_attempts, step.tokens_in) == (True, 2, 7)


def test_not_kept_are_the_repair_log_and_the_raw_dialogue() -> None:
    repair = FixAttempt(step=3, attempt=0, sql_before="a", error_in="b")
    row = kept(fix_history=[repair], llm_request="asked", llm_response="said", thinking="why")
    assert row.step is not None
    assert (row.step.fix_history, row.step.llm_request, row.step.llm_response) == ([], "", "")
    assert row.step.thinking == "why"


def test_the_row_names_run_attempt_and_step() -> None:
    row = kept()
    assert (row.project_id, row.run_id, row.attempt, row.step_number) == ("p", "r", 2, 3)
    assert row.created_at == AT


@pytest.mark.parametrize(
    ("fields", "args"),
    [
        ({}, {}),
        ({"warehouse_id": "default"}, {"datasource_id": "default"}),
        (
            {"action": "lookup_schema", "lookup_tables": ["main.flights"]},
            {"lookup_schema": ["main.flights"]},
        ),
        ({"action": "search_tables", "search_text": "delay"}, {"search_tables": "delay"}),
        (
            {"action": "complete_rejected", "reject_reason": "too early"},
            {"reject_reason": "too early"},
        ),
        ({"action": "complete", "thinking": "all seen"}, {"completion_reason": "all seen"}),
    ],
)
def test_what_a_replay_needs_to_act_again(fields: dict[str, Any], args: dict[str, Any]) -> None:
    assert kept(**fields).args == args
