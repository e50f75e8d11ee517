"""Runs and their live feed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from serve.api.deps import ApiDeps, deps_of
from serve.api.envelopes import data
from serve.api.handing_over import hand_over

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])
Deps = Annotated[ApiDeps, Depends(deps_of)]


@router.get("/{run_id}")
async def show(run_id: str, deps: Deps) -> JSONResponse:
    return data(await deps.store.runs.get(run_id))


@router.post("/{run_id}/resume")
async def resume(run_id: str, deps: Deps) -> JSONResponse:
    """Go on with a failed run: 202 with its new attempt, or 409 when it did not fail, kept no step,
    another run of its project is active, or somebody else was faster."""
    project = await deps.store.projects.get((await deps.store.runs.get(run_id)).project_id)
    run = await (deps.resume_run or deps.store.begin_resume)(run_id)
    job = await hand_over(deps, project, run)
    message = f"The discovery goes on; GET /api/v1/runs/{run.id} says how it goes."
    answer = {"status": "resumed", "run_id": run.id, "attempt": run.attempt}
    return data({**answer, "job_id": job, "message": message}, 202)


@router.get("/{run_id}/steps")
async def steps(
    run_id: str,
    deps: Deps,
    since_id: str = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> JSONResponse:
    """Rows of the current attempt's feed after ``since_id``, oldest first.

    The last row's id is the next ``since_id``.
    """
    run = await deps.store.runs.get(run_id)
    return data(
        await deps.store.run_steps.since(
            run_id, attempt=run.attempt, since_id=since_id, limit=limit
        )
    )
