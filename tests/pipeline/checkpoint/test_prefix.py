"""Which part of a run's checkpoints can be replayed (specification: checkpointing and resume)."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.checkpoint.prefix import contiguous, summary_of
from pipeline.records import ExplorationStep, StepAction
from pipeline.records.checkpoint import CheckpointKind, StepCheckpoint

AT = datetime(2026, 1, 1, tzinfo=UTC)


def row(number: int, attempt: int = 1) -> StepCheckpoint:
    step = ExplorationStep(step=number, timestamp=AT, action=StepAction.QUERY_DATA)
    return StepCheckpoint(run_id="r", step_number=number, attempt=attempt, step=step)


def summary(total: int, attempt: int = 1) -> StepCheckpoint:
    return StepCheckpoint(
        run_id="r",
        step_number=0,
        kind=CheckpointKind.EXPLORATION_SUMMARY,
        attempt=attempt,
        total_steps=total,
    )


def told(rows: list[StepCheckpoint]) -> list[tuple[int, int]]:
    return [(kept.step_number, kept.attempt) for kept in rows]


PREFIXES: list[tuple[str, list[tuple[int, int]], list[tuple[int, int]]]] = [
    ("no rows", [], []),
    ("all of them", [(1, 1), (2, 1), (3, 1)], [(1, 1), (2, 1), (3, 1)]),
    ("a gap stops the replay", [(1, 1), (2, 1), (4, 1), (5, 1)], [(1, 1), (2, 1)]),
    ("without step 1 there is nothing", [(2, 1), (3, 1)], []),
    (
        "attempts may rise along the prefix",
        [(1, 1), (2, 2), (3, 2), (4, 5)],
        [(1, 1), (2, 2), (3, 2), (4, 5)],
    ),
    ("a stale tail stops the replay", [(1, 1), (2, 2), (3, 1), (4, 2)], [(1, 1), (2, 2)]),
    ("a first row of a later attempt makes all of it stale", [(1, 2), (2, 1)], [(1, 2)]),
    ("of two rows the newer attempt's counts", [(1, 1), (2, 1), (2, 2)], [(1, 1), (2, 2)]),
    ("the same row twice is one", [(1, 1), (1, 1), (2, 1)], [(1, 1), (2, 1)]),
    (
        "a rewritten step makes what followed it stale",
        [(1, 1), (2, 1), (2, 3), (3, 1)],
        [(1, 1), (2, 3)],
    ),
]


@pytest.mark.parametrize(("name", "rows", "prefix"), PREFIXES, ids=[case[0] for case in PREFIXES])
def test_the_prefix_is_contiguous_and_attempts_never_go_back(
    name: str, rows: list[tuple[int, int]], prefix: list[tuple[int, int]]
) -> None:
    made = [row(number, attempt) for number, attempt in rows]
    assert told(contiguous(made)) == prefix
    for seed in range(5):
        random.Random(seed).shuffle(made)
        assert told(contiguous(made)) == prefix
    assert told(contiguous([kept.model_dump() for kept in made])) == prefix
    assert told(contiguous([kept.model_dump(mode="json") for kept in made])) == prefix


def test_a_summary_is_no_step() -> None:
    assert told(contiguous([summary(2), row(1), row(2)])) == [(1, 1), (2, 1)]


def test_a_row_without_an_attempt_is_of_the_first() -> None:
    rows: list[dict[str, Any]] = [{"step_number": 1}, {"step_number": 2, "attempt": None}]
    assert told(contiguous(rows)) == [(1, 1), (2, 1)]


def test_a_row_that_cannot_be_read_is_a_gap() -> None:
    broken = {"step_number": 2, "step": {"action": "dance"}}
    odd: list[dict[str, Any]] = [{}, {"step_number": -1}, {"step_number": "x"}]
    assert told(contiguous([row(1), broken, row(3), *odd])) == [(1, 1)]


def test_a_step_need_not_repeat_its_number_and_time() -> None:
    (kept,) = contiguous([{"step_number": 1, "created_at": AT, "step": {"action": "query_data"}}])
    assert kept.step is not None
    assert (kept.step.step, kept.step.timestamp) == (1, AT)
    (bare,) = contiguous([{"step_number": 1, "step": {}}])
    assert bare.step is None


SUMMARIES: list[tuple[str, list[StepCheckpoint], StepCheckpoint, bool]] = [
    ("counts the prefix", [row(1), row(2)], summary(2), True),
    ("counts fewer steps than the prefix has", [row(1), row(2)], summary(1), True),
    ("counts more steps than the prefix has", [row(1), row(3)], summary(3), False),
    ("is of an older attempt than the prefix", [row(1, 2), row(2, 2)], summary(2, 1), False),
    ("is of a newer attempt", [row(1, 1)], summary(1, 2), True),
    ("has outlived all steps", [], summary(0), False),
    ("has outlived the first step", [row(2)], summary(2), False),
]


@pytest.mark.parametrize(
    ("name", "steps", "ending", "counts"), SUMMARIES, ids=[case[0] for case in SUMMARIES]
)
def test_a_summary_counts_only_for_the_prefix_it_is_about(
    name: str, steps: list[StepCheckpoint], ending: StepCheckpoint, counts: bool
) -> None:
    rows = [*steps, ending]
    found = summary_of(rows, contiguous(rows))
    assert found == (ending if counts else None)


def test_without_a_summary_exploration_has_not_ended() -> None:
    rows = [row(1)]
    assert summary_of(rows, contiguous(rows)) is None
