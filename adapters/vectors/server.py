"""A Qdrant server, through qdrant-client."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import grpc
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from adapters.vectors.holding import check_name, check_same
from pipeline.errors import VectorsUnavailable
from pipeline.ports import Point, VectorHit

TIMEOUT = 30
GRPC_PORT = 6334
_BATCH = 256


class ServerVectors:
    """A ``VectorIndex`` on a server; the collection's own metadata names its embedder."""

    def __init__(self, client: AsyncQdrantClient, where: str) -> None:
        """``where`` names the server in error sentences."""
        self._client = client
        self._where = where

    async def ensure(
        self, collection: str, embedder_id: str, dim: int, keys: Sequence[str]
    ) -> None:
        """See ``VectorIndex``."""
        check_name(collection)
        with self._told():
            if await self._client.collection_exists(collection):
                await self._check(collection, (embedder_id, dim))
            else:
                await self._client.create_collection(
                    collection,
                    vectors_config=models.VectorParams(size=dim, distance=models.Distance.COSINE),
                    metadata={"embedder": embedder_id},
                )
            for key in keys if self._indexes else ():
                await self._client.create_payload_index(
                    collection, key, models.PayloadSchemaType.KEYWORD, wait=True
                )

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """See ``VectorIndex``. Applied when it returns."""
        rows = [
            models.PointStruct(id=p.id, vector=list(p.vector), payload=dict(p.payload))
            for p in points
        ]
        with self._told():
            for start in range(0, len(rows), _BATCH):
                await self._client.upsert(collection, rows[start : start + _BATCH], wait=True)

    async def search(
        self, collection: str, vector: Sequence[float], limit: int, where: Mapping[str, str]
    ) -> list[VectorHit]:
        """See ``VectorIndex``. Best first; empty if there is no such collection."""
        if limit < 1:
            return []
        with self._told():
            if not await self._client.collection_exists(collection):
                return []
            answer = await self._client.query_points(
                collection,
                query=list(vector),
                limit=limit,
                query_filter=_filter(where),
                with_payload=True,
            )
        return [VectorHit(str(hit.id), hit.score, hit.payload or {}) for hit in answer.points]

    async def delete(self, collection: str, where: Mapping[str, str]) -> None:
        """See ``VectorIndex``. An empty ``where`` deletes all points."""
        chosen = models.FilterSelector(filter=_filter(where) or models.Filter())
        with self._told():
            if await self._client.collection_exists(collection):
                await self._client.delete(collection, points_selector=chosen, wait=True)

    async def drop(self, collection: str) -> None:
        """See ``VectorIndex``. Does nothing if there is no such collection."""
        with self._told():
            if await self._client.collection_exists(collection):
                await self._client.delete_collection(collection)

    async def ping(self) -> None:
        """Raises ``VectorsUnavailable`` if the server does not answer."""
        with self._told():
            await self._client.get_collections()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    @property
    def _indexes(self) -> bool:
        """In-memory collections accept payload indexes with a warning and have no use for them."""
        return self._where != ":memory:"

    async def _check(self, collection: str, asked: tuple[str, int]) -> None:
        config = (await self._client.get_collection(collection)).config
        held: dict[str, Any] = config.metadata or {}
        params = config.params.vectors
        size = params.size if isinstance(params, models.VectorParams) else 0
        fix = f"drop that collection at {self._where}"
        check_same(collection, (str(held.get("embedder", "another program")), size), asked, fix)

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except (ResponseHandlingException, grpc.RpcError, OSError) as error:
            raise VectorsUnavailable(
                f"The Qdrant server at {self._where} cannot be reached: start it, correct "
                "QDRANT_URL, or unset it to keep vectors in VERIDICAL_HOME."
            ) from error
        except (ApiException, ValueError) as error:
            raise VectorsUnavailable(
                f"The Qdrant server at {self._where} refused the request "
                f"({' '.join(str(error).split())[:200]}): check QDRANT_URL and QDRANT_API_KEY."
            ) from error


def connect(url: str, api_key: str) -> ServerVectors:
    """A client for QDRANT_URL; nothing is sent yet. ``:memory:`` is a store for tests."""
    if url == ":memory:":
        return ServerVectors(AsyncQdrantClient(location=url), url)
    client = AsyncQdrantClient(
        **address(url), api_key=api_key or None, timeout=TIMEOUT, check_compatibility=False
    )
    return ServerVectors(client, _shown(url))


def address(url: str) -> dict[str, Any]:
    """The client's arguments for a URL, or for ``host:port``. Port 6334 is gRPC, as in
    ``qdrant:6334``; any other is HTTP. Raises ``VectorsUnavailable`` for what is no address."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
        if not host or parts.scheme not in {"http", "https"}:
            raise ValueError(url)
    except ValueError as error:
        raise VectorsUnavailable(
            f"QDRANT_URL={url!r} is no address: use for example http://127.0.0.1:6333."
        ) from error
    secure = parts.scheme == "https"
    default = 443 if secure else 6333
    found: dict[str, Any] = {"host": host, "port": port or default, "https": secure}
    if port == GRPC_PORT:
        found |= {"port": 6333, "grpc_port": port, "prefer_grpc": True}
    if prefix := parts.path.strip("/"):
        found["prefix"] = prefix
    return found


def _shown(url: str) -> str:
    return url.rpartition("@")[2] if "@" in url else url


def _filter(where: Mapping[str, str]) -> models.Filter | None:
    if not where:
        return None
    return models.Filter(
        must=[
            models.FieldCondition(key=key, match=models.MatchValue(value=value))
            for key, value in where.items()
        ]
    )
