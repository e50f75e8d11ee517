"""Projects, and starting a discovery in one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from pipeline.errors import Conflict
from pipeline.planning import plan_run
from pipeline.records import Project
from serve.api.deps import ApiDeps, deps_of
from serve.api.envelopes import data, failure
from serve.api.handing_over import hand_over
from serve.api.requests import CreateProject, Discover, project_from
from serve.secrets import shown

router = APIRouter(prefix="/api/v1/projects", tags=["projects"])
Deps = Annotated[ApiDeps, Depends(deps_of)]
Limit = Annotated[int, Query(ge=1, le=200)]


@router.post("")
async def create(body: CreateProject, deps: Deps) -> JSONResponse:
    """Create a project with the prompts of its packs copied in. No answer shows a secret."""
    project = project_from(body, deps.clock())
    await deps.store.projects.create(project)
    return data(shown(project), 201)


@router.get("")
async def list_all(
    deps: Deps, limit: Limit = 50, offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0
) -> JSONResponse:
    """Projects, newest first."""
    found = (await deps.store.projects.newest_first(offset + limit))[offset:]
    return data([shown(project) for project in found])


@router.get("/{project_id}")
async def show(project_id: str, deps: Deps) -> JSONResponse:
    return data(shown(await deps.store.projects.get(project_id)))


@router.get("/{project_id}/runs")
async def runs(project_id: str, deps: Deps, limit: Limit = 50) -> JSONResponse:
    """Runs of a project, newest first."""
    await deps.store.projects.get(project_id)
    return data(await deps.store.runs.recent(project_id, limit))


@router.post("/{project_id}/discover")
async def discover(project_id: str, deps: Deps, body: Discover | None = None) -> JSONResponse:
    """Start a discovery: 202 with the run's id, or 409 with the id of the run that is active."""
    asked = body or Discover()
    project = await deps.store.projects.get(project_id)
    run = plan_run(
        project,
        now=deps.clock(),
        max_steps=asked.max_steps,
        min_steps=asked.min_steps,
        areas=asked.areas,
        effort=asked.effort,
    )
    try:
        await (deps.create_run or deps.store.runs.create)(run)
    except Conflict as clash:
        return await _already_running(deps, project, clash)
    job = await hand_over(deps, project, run)
    message = f"The discovery has started; GET /api/v1/runs/{run.id} says how it goes."
    return data({"status": "started", "run_id": run.id, "job_id": job, "message": message}, 202)


async def _already_running(deps: ApiDeps, project: Project, clash: Conflict) -> JSONResponse:
    active = await deps.store.runs.active(project.id)
    if active is None:
        return failure(str(clash), 409)
    message = f"a discovery is already {active.status.value} in this project: run {active.id}"
    return failure(message, 409, status="already_running", run_id=active.id, message=message)
