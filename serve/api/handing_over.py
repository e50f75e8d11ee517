"""Handing a run over to whoever drives it."""

from __future__ import annotations

from pipeline.errors import ForOperator
from pipeline.records import DiscoveryRun, Project
from serve.api.deps import ApiDeps


async def hand_over(deps: ApiDeps, project: Project, run: DiscoveryRun) -> str:
    """The job's id. A run that nobody takes is failed at once: it would block its project."""
    try:
        return await deps.start_run(project, run)
    except Exception as error:
        reason = f"the run could not be started: {error}"
        await deps.store.runs.fail(run.id, run.attempt, reason)
        raise ForOperator(reason) from error
