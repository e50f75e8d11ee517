"""Vectors: the embedding model and the vector index of a home, loaded once for all who ask."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from actors.calls import call
from actors.cluster import NAMESPACE
from actors.leased import Leases, acquire
from actors.remote import actor
from adapters.embeddings import open_embedder
from adapters.vectors import borrowed_vectors
from adapters.vectors.findings import FindingsIndex
from pipeline.errors import VectorsUnavailable
from pipeline.ports import Embedder, VectorHit
from pipeline.records import LlmConfig, StandaloneDoc
from pipeline.settings import VectorSettings

PUBLISHED_FIELDS = ("embedding_text", "embedding_model", "duplicate_of", "similarity_score")


class VectorsShell(Leases):
    """Embeds for every other actor; opens the index only while it publishes or searches."""

    def __init__(self, config: LlmConfig, settings: VectorSettings, home: Path) -> None:
        super().__init__()
        self._config, self._settings, self._home = config, settings, home
        self._opening, self._indexing = asyncio.Lock(), asyncio.Lock()
        self._embedder: Embedder | None = None

    async def _opened(self) -> Embedder:
        async with self._opening:
            if self._embedder is None:
                self._embedder = await asyncio.to_thread(
                    open_embedder, self._config, self._settings
                )
            return self._embedder

    async def describe(self) -> tuple[str, int]:
        embedder = await self._opened()
        return embedder.id, embedder.dim

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await (await self._opened()).embed(texts)

    @asynccontextmanager
    async def _findings(self) -> AsyncGenerator[FindingsIndex]:
        embedder = await self._opened()
        async with self._indexing, borrowed_vectors(self._settings, self._home) as vectors:
            yield FindingsIndex(embedder, vectors)

    async def publish(self, docs: list[StandaloneDoc], exclude_run: str) -> list[StandaloneDoc]:
        async with self._findings() as findings:
            await findings.publish(docs, exclude_run=exclude_run)
        return docs

    async def forget(self, discovery_id: str) -> None:
        async with self._findings() as findings:
            await findings.forget(discovery_id=discovery_id)

    async def search(self, text: str, project_id: str, limit: int, kind: str) -> list[VectorHit]:
        async with self._findings() as findings:
            return await findings.search(text, project_id=project_id, limit=limit, kind=kind)


class EmbedderClient:
    """The ``Embedder`` port over the actor."""

    def __init__(self, handle: Any, embedder_id: str, dim: int) -> None:
        self.handle, self.id, self.dim = handle, embedder_id, dim

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return await call(self.handle.embed.remote(list(texts)), _lost)


class FindingsClient:
    """The ``Findings`` port over the actor."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None:
        sent = self.handle.publish.remote(list(docs), exclude_run)
        for doc, published in zip(docs, await call(sent, _lost), strict=True):
            for name in PUBLISHED_FIELDS:
                setattr(doc, name, getattr(published, name))

    async def forget(self, *, discovery_id: str) -> None:
        """Remove a discovery's findings. Raises ``VectorsUnavailable``."""
        await call(self.handle.forget.remote(discovery_id), _lost)

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]:
        return await call(self.handle.search.remote(text, project_id, limit, kind), _lost)


def _lost(why: str) -> VectorsUnavailable:
    return VectorsUnavailable(f"the vector index was lost: {why}; start the run again")


async def start_vectors(
    config: LlmConfig, settings: VectorSettings, home: Path, holder: str
) -> tuple[EmbedderClient, FindingsClient]:
    """The home's one actor for vectors."""
    key = repr((str(home), config.model_dump(), settings.model_dump()))
    named = actor(VectorsShell, restarts=2, concurrency=32).options(
        name=f"vectors:{hashlib.sha256(key.encode()).hexdigest()[:16]}",
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
    )
    handle = await acquire(lambda: named.remote(config, settings, home), holder)
    embedder_id, dim = await call(handle.describe.remote(), _lost)
    return EmbedderClient(handle, embedder_id, dim), FindingsClient(handle)
