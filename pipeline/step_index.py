"""Vectors of a run's steps in memory: a few hundred, alive as long as the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.ports import Embedder, StepHit

Vector = npt.NDArray[np.float32]


class StepIndexCore:
    """Implements ``ports.StepIndex`` by exact cosine over all steps. Adding a step number again
    replaces its vector, so that a replayed prefix can be indexed twice without harm."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[int, Vector] = {}
        self._datasources: dict[int, str] = {}

    async def add(self, step: int, text: str, datasource_id: str) -> None:
        """Embed ``text`` and keep it as the vector of ``step``."""
        vector = await self._embed(text)
        self._vectors[step] = vector
        self._datasources[step] = datasource_id

    async def rank(self, text: str, k: int) -> list[StepHit]:
        """The ``k`` nearest steps of all datasources, best first; ties by step number."""
        return self._nearest(await self._embed(text), list(self._vectors), k) if k > 0 else []

    async def nearest(self, text: str, datasource_id: str) -> StepHit | None:
        """The nearest step of one datasource, or None when it has none yet."""
        among = [step for step, owner in self._datasources.items() if owner == datasource_id]
        if not among:
            return None
        return self._nearest(await self._embed(text), among, 1)[0]

    async def _embed(self, text: str) -> Vector:
        [vector] = await self._embedder.embed([text])
        found = np.asarray(vector, dtype=np.float32)
        norm = float(np.linalg.norm(found))
        return found / norm if norm else found

    def _nearest(self, query: Vector, among: Sequence[int], k: int) -> list[StepHit]:
        if not among:
            return []
        scores = np.stack([self._vectors[step] for step in among]) @ query
        hits = [StepHit(step, float(score)) for step, score in zip(among, scores, strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, hit.step))[:k]
