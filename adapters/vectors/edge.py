"""Qdrant's engine in this process: one folder for each collection, one process at a time."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from adapters.vectors.holding import check_name, check_same
from pipeline.errors import VectorsBusy, VectorsUnavailable
from pipeline.ports import Point, VectorHit

T = TypeVar("T")
_VECTOR = "text"


class EdgeVectors:
    """A ``VectorIndex``. All engine work runs in one thread of its own, in order: the engine is
    never entered twice, and a cancelled caller leaves no half-done write behind."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is created. Raises ``VectorsUnavailable`` if another process holds it."""
        self._folder = folder
        self._lock = _FolderLock(folder)
        self._shards: dict[str, Any] = {}
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vectors")

    async def ensure(
        self, collection: str, embedder_id: str, dim: int, keys: Sequence[str]
    ) -> None:
        """See ``VectorIndex``."""
        await self._run(self._ensure, check_name(collection), embedder_id, dim, tuple(keys))

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """See ``VectorIndex``. On disk when it returns."""
        if points:
            await self._run(self._upsert, check_name(collection), list(points))

    async def search(
        self, collection: str, vector: Sequence[float], limit: int, where: Mapping[str, str]
    ) -> list[VectorHit]:
        """See ``VectorIndex``. Best first; empty if there is no such collection."""
        if limit < 1:
            return []
        return await self._run(
            self._search, check_name(collection), list(vector), limit, dict(where)
        )

    async def delete(self, collection: str, where: Mapping[str, str]) -> None:
        """See ``VectorIndex``. An empty ``where`` deletes all points."""
        await self._run(self._delete, check_name(collection), dict(where))

    async def drop(self, collection: str) -> None:
        """See ``VectorIndex``. Does nothing if there is no such collection."""
        await self._run(self._drop, check_name(collection))

    async def ping(self) -> None:
        """Raises ``VectorsUnavailable`` if the folder cannot be written."""
        await self._run(self._lock.touch)

    async def close(self) -> None:
        """Flush and close all collections, and let other processes in."""
        if self._lock.held:
            await self._run(self._close)
        self._worker.shutdown(wait=False)

    # ------------------------------------------------------------ in the worker thread

    def _ensure(self, collection: str, embedder_id: str, dim: int, keys: tuple[str, ...]) -> None:
        import qdrant_edge as engine

        folder, meta = self._places(collection)
        if (held := _read_meta(meta)) is not None:
            check_same(collection, held, (embedder_id, dim), f"remove {folder} and {meta}")
            if (shard := self._shard(collection)) is not None:
                _index(shard, keys)
                return
        shutil.rmtree(folder, ignore_errors=True)  # left by a crash before its meta file: empty
        folder.mkdir(parents=True)
        size = engine.EdgeVectorParams(size=dim, distance=engine.Distance.Cosine)
        shard = engine.EdgeShard.create(str(folder), engine.EdgeConfig(vectors={_VECTOR: size}))
        _index(shard, keys)
        self._shards[collection] = shard
        _write_meta(meta, embedder_id, dim)

    def _upsert(self, collection: str, points: list[Point]) -> None:
        import qdrant_edge as engine

        shard = self._shard(collection)
        if shard is None:
            raise VectorsUnavailable(
                f"There is no vector collection {collection}: create it first."
            )
        rows = [engine.Point(p.id, {_VECTOR: list(p.vector)}, dict(p.payload)) for p in points]
        shard.update(engine.UpdateOperation.upsert_points(rows))
        shard.flush()

    def _search(
        self, collection: str, vector: list[float], limit: int, where: dict[str, str]
    ) -> list[VectorHit]:
        import qdrant_edge as engine

        shard = self._shard(collection)
        if shard is None:
            return []
        nearest = engine.Query.Nearest(vector, using=_VECTOR)
        request = engine.QueryRequest(
            query=nearest, limit=limit, with_payload=True, filter=_filter(where)
        )
        return [VectorHit(str(h.id), h.score, h.payload or {}) for h in shard.query(request)]

    def _delete(self, collection: str, where: dict[str, str]) -> None:
        import qdrant_edge as engine

        if (shard := self._shard(collection)) is not None:
            chosen = _filter(where) or engine.Filter()
            shard.update(engine.UpdateOperation.delete_points_by_filter(chosen))
            shard.flush()

    def _drop(self, collection: str) -> None:
        folder, meta = self._places(collection)
        if (shard := self._shards.pop(collection, None)) is not None:
            shard.close()
        meta.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def _close(self) -> None:
        try:
            while self._shards:
                shard = self._shards.popitem()[1]
                shard.flush()
                shard.close()
        finally:
            self._lock.release()

    def _shard(self, collection: str) -> Any | None:
        """The open collection, opening it if it is on disk."""
        import qdrant_edge as engine

        folder, meta = self._places(collection)
        if collection not in self._shards and meta.exists() and folder.exists():
            self._shards[collection] = engine.EdgeShard.load(str(folder))
        return self._shards.get(collection)

    def _places(self, collection: str) -> tuple[Path, Path]:
        return self._folder / collection, self._folder / f"{collection}.json"

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        if not self._lock.held:
            raise VectorsUnavailable(f"The vector store in {self._folder} is closed.")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, partial(self._told, work, *arguments))

    def _told(self, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return work(*arguments)
        except VectorsUnavailable:
            raise
        except Exception as error:  # the engine has no error class of its own
            raise VectorsUnavailable(
                f"The vector store in {self._folder} failed ({' '.join(str(error).split())}): "
                "check free space and permissions there, or remove the folder to start afresh."
            ) from error


class _FolderLock:
    """Held as long as this process lives: the kernel lets go of it when the process dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise VectorsUnavailable(
                f"The vector store in {folder} cannot be opened ({error.strerror}): make the "
                "folder writable, or set VERIDICAL_HOME to another one."
            ) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._handle, 20, 0).decode(errors="replace").strip()
            os.close(self._handle)
            raise VectorsBusy(
                f"The vector store in {folder} is in use by process {owner or 'unknown'}: stop it "
                "(veridical down), or set VERIDICAL_HOME to another folder."
            ) from error
        self.held = True
        self.touch()

    def touch(self) -> None:
        """Write who holds it; fails when the disk does."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let others in. The file stays: removing it would let two processes hold two files."""
        self.held = False
        os.close(self._handle)


def _index(shard: Any, keys: tuple[str, ...]) -> None:
    """Keyword indexes for the keys that have none yet."""
    import qdrant_edge as engine

    present = shard.info().payload_schema
    for key in keys:
        if key not in present:
            shard.update(
                engine.UpdateOperation.create_field_index(key, engine.PayloadSchemaType.Keyword)
            )
    shard.flush()


def _filter(where: Mapping[str, str]) -> Any | None:
    import qdrant_edge as engine

    if not where:
        return None
    return engine.Filter(
        must=[
            engine.FieldCondition(key=key, match=engine.MatchValue(value=value))
            for key, value in where.items()
        ]
    )


def _read_meta(path: Path) -> tuple[str, int] | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return str(held["embedder"]), int(held["dim"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise VectorsUnavailable(
            f"The file {path} is damaged: remove it and the folder beside it; the findings can be "
            "embedded again."
        ) from error


def _write_meta(path: Path, embedder_id: str, dim: int) -> None:
    """Written last and moved into place: where it exists, the collection is complete."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump({"embedder": embedder_id, "dim": dim}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
