"""The journal of one attempt of a run."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from adapters.store.checkpoints import CheckpointRepository
from adapters.store.run_steps import RunStepRepository
from adapters.store.runs import RunRepository
from pipeline.checkpoint.keep import checkpoint_of
from pipeline.errors import RunSuperseded, StoreUnavailable
from pipeline.records import DiscoveryRun, ExplorationStep, RunPhase, RunStep

log = logging.getLogger(__name__)


class RunJournal:
    """``ports.Journal`` over the store: every write first proves that the attempt owns the run."""

    def __init__(
        self,
        run: DiscoveryRun,
        runs: RunRepository,
        feed: RunStepRepository,
        checkpoints: CheckpointRepository,
    ) -> None:
        self.run_id, self.project_id, self.attempt = run.id, run.project_id, run.attempt
        self._runs, self._feed, self._checkpoints = runs, feed, checkpoints

    async def phase(self, phase: RunPhase, progress: int, detail: str = "") -> None:
        """Write where the run stands. Raises ``RunSuperseded``."""
        await self._runs.progress(self.run_id, self.attempt, phase, progress, detail)

    async def feed(self, row: RunStep) -> None:
        """Append to the live feed. Raises ``RunSuperseded``."""
        await self._runs.check_owned(self.run_id, self.attempt)
        stamp = {"run_id": self.run_id, "project_id": self.project_id, "attempt": self.attempt}
        await self._feed.append(row.model_copy(update=stamp))

    async def step(self, step: ExplorationStep) -> None:
        """Keep a finished step. Raises ``RunSuperseded``.

        The order matters: ask who owns the run, write the row, then raise the run's marker, which
        finds out about a take-over in between. A row that cannot be written costs the run nothing
        but the chance to be resumed past this step.
        """
        await self._runs.check_owned(self.run_id, self.attempt)
        row = checkpoint_of(
            step,
            project_id=self.project_id,
            run_id=self.run_id,
            attempt=self.attempt,
            at=datetime.now(UTC),
        )
        try:
            await self._checkpoints.save(row)
        except RunSuperseded:
            raise
        except StoreUnavailable as error:
            log.warning("step %d of run %s has no checkpoint: %s", step.step, self.run_id, error)
            await self._runs.check_owned(self.run_id, self.attempt)
            return
        await self._runs.mark_checkpoint(self.run_id, self.attempt, step.step)

    async def count(self, **counters: int) -> None:
        """Set counters of the run. Raises ``RunSuperseded``."""
        await self._runs.count(self.run_id, self.attempt, counters)
