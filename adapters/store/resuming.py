"""Making a failed run active again, and what each attempt leaves for the next one."""

from __future__ import annotations

from datetime import UTC, datetime

from adapters.store.checkpoints import AreaCheckpointRepository, CheckpointRepository
from adapters.store.runs import RunRepository, occupied
from pipeline.checkpoint.port import Kept
from pipeline.checkpoint.prefix import replayable
from pipeline.errors import Conflict
from pipeline.records import DiscoveryRun, RunStatus
from pipeline.records.checkpoint import AreaCheckpoint, CheckpointKind, StepCheckpoint

_NOT_FAILED = {
    RunStatus.PENDING: "is waiting for its start",
    RunStatus.RUNNING: "is running",
    RunStatus.COMPLETED: "is complete, so that there is nothing to resume",
    RunStatus.CANCELLED: "was cancelled, which is final; start a new discovery",
}


class Resumption:
    """Decides whether a run can be resumed, and resumes it."""

    def __init__(self, runs: RunRepository, checkpoints: CheckpointRepository) -> None:
        self._runs, self._checkpoints = runs, checkpoints

    async def check(self, run_id: str) -> tuple[DiscoveryRun, int]:
        """The run and how many of its steps would be replayed. Changes nothing.

        Raises ``NotFound``, or ``Conflict`` when the run did not fail, has no checkpoint to resume
        from, or another run of its project is active.
        """
        run = await self._runs.get(run_id)
        if run.status is not RunStatus.FAILED:
            raise Conflict(
                f"only a failed run can be resumed: run {run_id} {_NOT_FAILED[run.status]}"
            )
        prefix, _ = await self._checkpoints.load(run_id)
        steps = len(replayable(prefix))
        if not steps:
            raise Conflict(
                f"run {run_id} has no checkpoint to resume from: it failed before its first step "
                "was done, or its checkpoints have expired; start a new discovery"
            )
        active = await self._runs.active(run.project_id, besides=run_id)
        if active is not None:
            raise Conflict(occupied(active.id, run.project_id))
        return run, steps

    async def begin(self, run_id: str) -> DiscoveryRun:
        """The run under its next attempt, active and to be driven. Raises as ``check`` does, and
        ``Conflict`` when somebody else was faster."""
        run, steps = await self.check(run_id)
        resumed = await self._runs.begin_resume(run, f"resuming after step {steps}")
        other = await self._runs.active(run.project_id, besides=run_id)
        if other is not None:
            why = occupied(other.id, run.project_id)
            await self._runs.fail(run_id, resumed.attempt, f"not resumed: {why}")
            raise Conflict(why)
        return resumed


class RunCheckpoints:
    """``pipeline.checkpoint.port.Checkpoints`` over the store."""

    def __init__(
        self,
        run: DiscoveryRun,
        runs: RunRepository,
        steps: CheckpointRepository,
        areas: AreaCheckpointRepository,
    ) -> None:
        self._run, self._runs, self._steps, self._areas = run, runs, steps, areas
        self._stamp = {"run_id": run.id, "project_id": run.project_id, "attempt": run.attempt}

    async def load(self) -> Kept:
        """What can be taken over of earlier attempts."""
        prefix, summary = await self._steps.load(self._run.id)
        return Kept(prefix, summary, await self._areas.of_run(self._run.id))

    async def renew(self) -> None:
        """Let the run's checkpoints live on. Raises ``RunSuperseded``."""
        await self._owned()
        await self._steps.renew(self._run.id)
        await self._areas.renew(self._run.id)

    async def explored(self, *, message: str, total_steps: int, duration_ms: int) -> None:
        """Write the summary of a finished exploration. Raises ``RunSuperseded``."""
        await self._owned()
        await self._steps.save(
            StepCheckpoint(
                run_id=self._run.id,
                project_id=self._run.project_id,
                attempt=self._run.attempt,
                step_number=0,
                kind=CheckpointKind.EXPLORATION_SUMMARY,
                completed=True,
                completion_msg=message,
                total_steps=total_steps,
                exploration_duration_ms=duration_ms,
                created_at=datetime.now(UTC),
            )
        )

    async def area(self, row: AreaCheckpoint) -> None:
        """Keep a completed area. Raises ``RunSuperseded``."""
        await self._owned()
        stamp = {**self._stamp, "created_at": datetime.now(UTC)}
        await self._areas.save(row.model_copy(update=stamp))

    async def _owned(self) -> None:
        await self._runs.check_owned(self._run.id, self._run.attempt)
