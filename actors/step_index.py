"""StepIndex: the vectors of a run's query steps, for ranking and for novelty."""

from __future__ import annotations

from typing import Any

from actors.calls import call
from actors.remote import actor
from pipeline.errors import VectorsUnavailable
from pipeline.ports import Embedder, StepHit
from pipeline.step_index import StepIndexCore


class StepIndexClient:
    """The ``StepIndex`` port over an actor."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def add(self, step: int, text: str, datasource_id: str) -> None:
        await call(self._handle.add.remote(step, text, datasource_id), _lost)

    async def rank(self, text: str, k: int) -> list[StepHit]:
        return await call(self._handle.rank.remote(text, k), _lost)

    async def nearest(self, text: str, datasource_id: str) -> StepHit | None:
        return await call(self._handle.nearest.remote(text, datasource_id), _lost)


def _lost(why: str) -> VectorsUnavailable:
    return VectorsUnavailable(f"the step index was lost: {why}")


def start_step_index(embedder: Embedder) -> StepIndexClient:
    """One actor a run, in memory. A restart would lose steps silently, so it has none: an index
    that is gone says so, and its readers fall back to keywords."""
    return StepIndexClient(actor(StepIndexCore, concurrency=16).remote(embedder))
