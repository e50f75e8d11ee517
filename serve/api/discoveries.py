"""Finished discoveries and the steps they rest on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from serve.api.deps import ApiDeps, deps_of
from serve.api.envelopes import data

router = APIRouter(prefix="/api/v1/discoveries", tags=["discoveries"])
Deps = Annotated[ApiDeps, Depends(deps_of)]


@router.get("/{discovery_id}")
async def show(discovery_id: str, deps: Deps) -> JSONResponse:
    return data(await deps.store.discoveries.get(discovery_id))


@router.get("/{discovery_id}/exploration-steps")
async def exploration_steps(
    discovery_id: str, deps: Deps, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> JSONResponse:
    """The exploration steps of a discovery, in order."""
    await deps.store.discoveries.get(discovery_id)
    return data((await deps.store.exploration_steps.of(discovery_id))[:limit])
