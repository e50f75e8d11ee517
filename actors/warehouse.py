"""Warehouse: guarded, filtered, capped queries of one datasource, for all of a run."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pyarrow as pa

from actors.calls import call
from actors.remote import actor, cancel
from adapters.warehouses import open_warehouse
from pipeline.errors import QueryFailed, WarehouseUnavailable
from pipeline.ports import QueryResult, Warehouse, WarehouseInfo
from pipeline.records import Quality, Table, WarehouseConfig
from pipeline.settings import WarehouseSettings


class ResultFacts(NamedTuple):
    """A result without its table, which travels through the object store on its own."""

    sql: str
    row_count: int
    duration_ms: int
    caveats: tuple[Quality, ...]


class WarehouseShell:
    """Opens the datasource on first use and again after a restart."""

    def __init__(self, config: WarehouseConfig, settings: WarehouseSettings) -> None:
        self._config, self._settings = config, settings
        self._opening = asyncio.Lock()
        self._opened: Warehouse | None = None

    async def _warehouse(self) -> Warehouse:
        async with self._opening:
            if self._opened is None:
                self._opened = await asyncio.to_thread(open_warehouse, self._config, self._settings)
            return self._opened

    async def info(self) -> WarehouseInfo:
        return (await self._warehouse()).info

    async def query(self, sql: str, max_rows: int | None) -> tuple[ResultFacts, pa.Table]:
        found = await (await self._warehouse()).query(sql, max_rows=max_rows)
        facts = ResultFacts(found.sql, found.row_count, found.duration_ms, found.caveats)
        return facts, found.table

    async def tables(self) -> list[Table]:
        return await (await self._warehouse()).tables()

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        return await (await self._warehouse()).sample(table, rows)

    def __repr__(self) -> str:
        return f"Warehouse({self._config.id})"


class WarehouseClient:
    """The ``Warehouse`` port over an actor; a result's ``handle`` is its table's reference."""

    def __init__(self, handle: Any, info: WarehouseInfo) -> None:
        self.handle, self.info = handle, info

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        facts_ref, table_ref = self.handle.query.options(num_returns=2).remote(sql, max_rows)
        lost = _query_lost(sql)
        try:
            facts: ResultFacts = await call(facts_ref, lost)
        except asyncio.CancelledError:
            cancel(facts_ref)
            raise
        table: pa.Table = await call(table_ref, lost)
        return QueryResult(
            sql=facts.sql,
            table=table,
            row_count=facts.row_count,
            duration_ms=facts.duration_ms,
            caveats=facts.caveats,
            handle=table_ref,
        )

    async def tables(self) -> list[Table]:
        return await call(self.handle.tables.remote(), _lost)

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        return await call(self.handle.sample.remote(table, rows), _lost)


def _query_lost(sql: str) -> Any:
    def lost(why: str) -> QueryFailed:
        return QueryFailed(f"the query was under way when the warehouse was lost: {why}", sql)

    return lost


def _lost(why: str) -> WarehouseUnavailable:
    return WarehouseUnavailable(f"the warehouse was lost: {why}; start the run again")


async def start_warehouse(config: WarehouseConfig, settings: WarehouseSettings) -> WarehouseClient:
    """One actor a datasource of a run. A query in flight when it dies is reported, never re-run."""
    handle = actor(WarehouseShell, restarts=2, concurrency=32).remote(config, settings)
    return WarehouseClient(handle, await call(handle.info.remote(), _lost))
