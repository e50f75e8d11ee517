"""A schema store and warehouses in memory, for the rules of what is kept and when it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipeline.errors import QueryFailed, StoreUnavailable, WarehouseUnavailable
from pipeline.ports import QueryResult, WarehouseInfo
from pipeline.records import (
    Column,
    IndexedTable,
    IndexOrigin,
    IndexProgress,
    SchemaIndexRun,
    Shape,
    Table,
)
from pipeline.schema.columns import ColumnPool

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class MemorySchemas:
    """``ports.SchemaStore``; ``down`` makes every call fail, ``counts`` says whether a reading
    counts."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, IndexedTable]] = {}
        self.broken_off: dict[str, IndexedTable] = {}
        self.runs: list[SchemaIndexRun] = []
        self.lines: dict[str, bytes] = {}
        self.down = False
        self.counts = True

    def _up(self) -> None:
        if self.down:
            raise StoreUnavailable("the store does not answer")

    async def load(self, datasource_id: str) -> list[Table] | None:
        self._up()
        if not self.counts or datasource_id not in self.rows:
            return None
        rows = self.rows[datasource_id].values()
        return [row.table.model_copy(update={"sample_rows": []}) for row in rows]

    async def save(
        self,
        datasource_id: str,
        origin: IndexOrigin,
        batches: AsyncIterable[Sequence[IndexedTable]],
    ) -> SchemaIndexRun:
        self._up()
        run = SchemaIndexRun(
            project_id="p", datasource=datasource_id, fingerprint="f", origin=origin, started_at=NOW
        )
        rows: dict[str, IndexedTable] = {}
        async for batch in batches:
            rows |= {row.table.name: row for row in batch}
            self.broken_off |= rows
            for row in batch:
                run.table_count += 1
                if row.table.error:
                    run.failed[row.table.name] = row.table.error
        self.rows[datasource_id], self.broken_off = rows, {}
        run.finished = NOW
        self.runs.append(run)
        return run

    async def kept(self, datasource_id: str, tables: Sequence[str]) -> dict[str, IndexedTable]:
        self._up()
        known = self.rows.get(datasource_id, {}) | self.broken_off
        return {name: known[name] for name in tables if name in known and known[name].sampled}

    async def keep_samples(
        self, datasource_id: str, table: str, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        self._up()
        row = self.rows[datasource_id][table]
        kept = row.table.model_copy(update={"sample_rows": [dict(r) for r in rows]})
        self.rows[datasource_id][table] = row.model_copy(update={"table": kept, "sampled": True})

    async def vectors(self, keys: Sequence[str]) -> dict[str, bytes]:
        self._up()
        return {key: self.lines[key] for key in keys if key in self.lines}

    async def keep_vectors(self, vectors: Mapping[str, bytes]) -> None:
        self._up()
        self.lines |= vectors


class MemoryWarehouse:
    """Tables in memory; ``broken`` names tables that cannot be sampled, or "all" and "query"."""

    def __init__(
        self,
        *tables: Table,
        id: str = "default",
        broken: Mapping[str, Exception] | None = None,
        shape: Shape = Shape.ENTITIES,
    ) -> None:
        self.info = WarehouseInfo(id, "duckdb", shape=shape)
        self.listed = list(tables)
        self.broken = dict(broken or {})
        self.listings = 0
        self.sampled: list[str] = []
        self.queries: list[str] = []

    async def tables(self) -> list[Table]:
        if "all" in self.broken:
            raise self.broken["all"]
        self.listings += 1
        return [table.model_copy(deep=True) for table in self.listed]

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        self.sampled.append(table)
        if table in self.broken:
            raise self.broken[table]
        columns = next(t.columns for t in self.listed if t.name == table)
        return [{c.name: f"{c.name} {n}" for c in columns} for n in range(rows)]

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        self.queries.append(sql)
        if "query" in self.broken:
            raise self.broken["query"]
        table = pa.table({"first": ["2024-01-01T00:00:00"], "last": ["2024-12-31T23:00:00"]})
        return QueryResult(sql=sql, table=table, row_count=1)


class Heard:
    """What an indexer told."""

    def __init__(self) -> None:
        self.progress: list[IndexProgress] = []

    async def __call__(self, progress: IndexProgress) -> None:
        self.progress.append(progress)


class CountingEmbedder:
    """Two dimensions: how much a text is about customers, and about all else."""

    id, dim = "counting", 2

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.broken = False
        self.failed = asyncio.Event()
        self._awaited = (0, asyncio.Event())

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.broken:
            self.failed.set()
            raise StoreUnavailable("no embedding today")
        self.lines += [text for text in texts if "Columns:" in text]
        count, reached = self._awaited
        if len(self.lines) >= count:
            reached.set()
        return [[1.0, 0.0] if "customer" in text.lower() else [0.0, 1.0] for text in texts]

    async def until(self, count: int) -> None:
        """Wait for so many lines."""
        if len(self.lines) < count:
            self._awaited = (count, asyncio.Event())
            await self._awaited[1].wait()


POOL = ColumnPool()


def table(name: str, *columns: str, rows: int = 100, **fields: Any) -> Table:
    """Columns are written ``name type``; a name alone is text."""
    made = [_column(column) for column in columns]
    return Table(name=name, columns=made, row_count=rows, **fields)


def _column(text: str) -> Column:
    name, _, type_name = text.partition(" ")
    return POOL.listed(name, type_name or "VARCHAR", True)


DOWN = WarehouseUnavailable("the warehouse is down")
NO_RIGHT = QueryFailed("no right\nto read")
