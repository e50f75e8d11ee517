"""Finished discoveries, the steps they rest on, and the dialogues that led to them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from pipeline.errors import NotFound
from serve.api.deps import ApiDeps, deps_of
from serve.api.envelopes import data

router = APIRouter(prefix="/api/v1/discoveries", tags=["discoveries"])
Deps = Annotated[ApiDeps, Depends(deps_of)]
Limit = Annotated[int, Query(ge=1, le=10_000)]


@router.get("/{discovery_id}")
async def show(discovery_id: str, deps: Deps) -> JSONResponse:
    return data(await deps.store.discoveries.get(discovery_id))


@router.get("/{discovery_id}/insights/{insight}")
async def show_insight(discovery_id: str, insight: str, deps: Deps) -> JSONResponse:
    """One insight, by its id or by its ref, such as ``trends-1``."""
    found = await deps.store.discoveries.get(discovery_id)
    for one in found.insights:
        if insight in (one.id, one.ref):
            return data(one)
    raise NotFound(f"discovery {discovery_id!r} has no insight {insight!r}")


@router.get("/{discovery_id}/exploration-steps")
async def exploration_steps(discovery_id: str, deps: Deps, limit: Limit = 1000) -> JSONResponse:
    """The exploration steps of a discovery, in order."""
    await deps.store.discoveries.get(discovery_id)
    return data((await deps.store.exploration_steps.of(discovery_id))[:limit])


@router.get("/{discovery_id}/analysis-steps")
async def analysis_steps(discovery_id: str, deps: Deps, limit: Limit = 1000) -> JSONResponse:
    """The dialogue of each analysis area, in the order in which they were analysed."""
    await deps.store.discoveries.get(discovery_id)
    return data((await deps.store.analysis_steps.of(discovery_id))[:limit])


@router.get("/{discovery_id}/validation-results")
async def validation_results(discovery_id: str, deps: Deps, limit: Limit = 1000) -> JSONResponse:
    """What the verifier and the refuter said of each document, in the order in which they did."""
    await deps.store.discoveries.get(discovery_id)
    return data((await deps.store.validation_results.of(discovery_id))[:limit])


@router.get("/{discovery_id}/recommendation-log")
async def recommendation_log(discovery_id: str, deps: Deps) -> JSONResponse:
    """The dialogue of the recommendation phase. 404 when the run did not get so far."""
    await deps.store.discoveries.get(discovery_id)
    found = await deps.store.recommendation_log.of(discovery_id)
    if not found:
        raise NotFound(f"discovery {discovery_id!r} has no recommendation log")
    return data(found[0])
