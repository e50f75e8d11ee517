"""Vectors that last: Qdrant's engine in this process, or a Qdrant server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from pipeline.errors import VectorsBusy, VectorsUnavailable
from pipeline.ports import VectorIndex
from pipeline.settings import VectorSettings

__all__ = ["OpenedVectors", "borrowed_vectors", "open_vectors"]

BUSY_S, BUSY_POLL_S = 30.0, 0.1


class OpenedVectors(VectorIndex, Protocol):
    """A vector index that holds files or connections."""

    async def close(self) -> None: ...


def open_vectors(settings: VectorSettings, home: Path) -> OpenedVectors:
    """The server that QDRANT_URL names, else folders below ``home / "vectors"``.

    Raises ``VectorsUnavailable`` if another process holds those folders or the URL is none; a
    server is not asked yet (see ``ping``).
    """
    if url := settings.QDRANT_URL.strip():
        from adapters.secrets import sendable, unsendable
        from adapters.vectors.server import connect

        key = settings.QDRANT_API_KEY.strip()
        if not sendable(key):
            raise VectorsUnavailable(unsendable("QDRANT_API_KEY"))
        return connect(url, key)
    from adapters.vectors.edge import EdgeVectors

    return EdgeVectors(home / "vectors")


@asynccontextmanager
async def borrowed_vectors(settings: VectorSettings, home: Path) -> AsyncGenerator[OpenedVectors]:
    """The vector index for one publishing or searching, so that processes of a home take turns.

    Waits for one that has it open. Raises ``VectorsBusy`` when that takes longer than half a
    minute, or ``VectorsUnavailable``.
    """
    turns = AsyncRetrying(
        retry=retry_if_exception_type(VectorsBusy),
        stop=stop_after_delay(BUSY_S),
        wait=wait_fixed(BUSY_POLL_S),
        reraise=True,
    )
    vectors: OpenedVectors = await turns(asyncio.to_thread, open_vectors, settings, home)
    try:
        yield vectors
    finally:
        await vectors.close()
