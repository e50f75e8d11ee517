"""Runs and their live feed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from serve.api.deps import ApiDeps, deps_of
from serve.api.envelopes import data

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])
Deps = Annotated[ApiDeps, Depends(deps_of)]


@router.get("/{run_id}")
async def show(run_id: str, deps: Deps) -> JSONResponse:
    return data(await deps.store.runs.get(run_id))


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
