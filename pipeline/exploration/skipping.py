"""A finished exploration of an earlier attempt, taken over as it is: no model is asked and no
warehouse is queried."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from pipeline.checkpoint.port import Kept
from pipeline.errors import StoreUnavailable
from pipeline.exploration.live_row import live_row
from pipeline.exploration.loop import Exploration, step_text
from pipeline.ports import Journal, StepIndex
from pipeline.records import ExplorationStep

log = logging.getLogger(__name__)


async def take_over(
    kept: Kept,
    *,
    index: StepIndex | None,
    journal: Journal,
    clock: Callable[[], datetime],
    max_steps: int,
) -> Exploration:
    """The exploration that ``kept`` holds; its steps are indexed again and join the live feed of
    this attempt. Raises ``RunSuperseded``."""
    steps = kept.steps
    for step in steps:
        await _index(index, step)
        try:
            await journal.feed(live_row(step, total=max_steps, at=clock()))
        except StoreUnavailable as error:
            log.warning("the live feed could not be written: %s", error)
    message = kept.summary.completion_msg if kept.summary else ""
    return Exploration(steps=steps, completed=True, message=message)


async def _index(index: StepIndex | None, step: ExplorationStep) -> None:
    if index is None or not step.succeeded:
        return
    try:
        await index.add(step.step, step_text(step), step.warehouse_id)
    except Exception as error:  # noqa: BLE001 - whatever breaks the index must not end the run
        log.warning("step %d could not be indexed: %s", step.step, error)
