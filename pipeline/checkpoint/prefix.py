"""Which part of a run's checkpoints can be replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from pipeline.records import ExplorationStep
from pipeline.records.checkpoint import CheckpointKind, StepCheckpoint

Row = StepCheckpoint | Mapping[str, Any]


def contiguous(rows: Iterable[Row]) -> list[StepCheckpoint]:
    """The replayable steps, from step 1 on, in order.

    The prefix ends before the first number that is missing, because replaying across a hole would
    misnumber what follows, and before the first row of an older attempt than the row before it,
    because that row answers an exploration that no longer exists. Rows come in any order; of two
    with one number the newer attempt's counts. A row that cannot be read is a hole; summaries are
    passed over.
    """
    newest: dict[int, StepCheckpoint] = {}
    for row in _readable(rows):
        if row.kind is not CheckpointKind.EXPLORATION_STEP or row.step_number < 1:
            continue
        known = newest.get(row.step_number)
        if known is None or row.attempt >= known.attempt:
            newest[row.step_number] = row

    prefix: list[StepCheckpoint] = []
    while (row := newest.get(len(prefix) + 1)) is not None:
        if prefix and row.attempt < prefix[-1].attempt:
            break
        prefix.append(row)
    return prefix


def replayable(prefix: Iterable[StepCheckpoint]) -> list[tuple[StepCheckpoint, ExplorationStep]]:
    """The rows of a prefix with their steps; a row whose step is missing ends it, as a gap does."""
    steps: list[tuple[StepCheckpoint, ExplorationStep]] = []
    for row in prefix:
        if row.step is None:
            break
        steps.append((row, row.step))
    return steps


def summary_of(rows: Iterable[Row], prefix: list[StepCheckpoint]) -> StepCheckpoint | None:
    """The row that says that exploration had ended, if it is about this very prefix.

    It is not when it counts more steps than the prefix has, or an older attempt wrote it. Without
    a prefix there is nothing to analyse, so then no summary counts.
    """
    if not prefix:
        return None
    found = [row for row in _readable(rows) if row.kind is CheckpointKind.EXPLORATION_SUMMARY]
    newest = max(found, key=lambda row: row.attempt, default=None)
    if newest is None or newest.total_steps > len(prefix) or newest.attempt < prefix[-1].attempt:
        return None
    return newest


def _readable(rows: Iterable[Row]) -> Iterable[StepCheckpoint]:
    for row in rows:
        if isinstance(row, StepCheckpoint):
            yield row
            continue
        try:
            yield StepCheckpoint.model_validate(
                row.model_dump() if isinstance(row, BaseModel) else row
            )
        except ValidationError:
            continue
