"""A DuckDB file as a warehouse: opened read-only, without a way out of the file.

The file is opened with ``read_only``, ``enable_external_access=false`` (no other file, no network,
no extension) and a locked configuration. Each query runs on a cursor of its own in a thread and
streams its rows as Arrow batches up to the cap.

DuckDB adds up floats in the order its threads deliver them, so the last digit of a ``sum`` over
doubles may differ between runs; set ``{"threads": 1}`` in the datasource's config where that
matters.
"""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# The driver's stubs type relations and readers as Any.

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from adapters.warehouses.capping import Cap, collect
from adapters.warehouses.duckdb_catalog import Relation, column_names, listed, relations
from adapters.warehouses.duckdb_opening import Opened, configured_path, open_file, short
from adapters.warehouses.gate import Gate, warehouse_info, without_values
from adapters.warehouses.threads import CANCEL_EVERY, CANCEL_WAIT, OutOfTime, run_cancellable
from pipeline.errors import QueryFailed, QueryTimeout, WarehouseUnavailable
from pipeline.ports import QueryResult, WarehouseInfo
from pipeline.records import Table, WarehouseConfig
from pipeline.schema.names import parts_of, spelled
from pipeline.settings import WarehouseSettings
from pipeline.sql.caveats import query_caveats
from pipeline.sql.rows import Column, rows_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

T = TypeVar("T")

BATCH_ROWS = 1024
PARALLEL_QUERIES = 4
AS_TEXT = frozenset({"BIT", "TIME WITH TIME ZONE", "BIGNUM"})
"""Types that lose something on the way through Arrow."""


class DuckDbWarehouse:
    """The ``Warehouse`` port over one DuckDB file.

    ``config.config``: ``path`` (required), ``memory_limit`` ("1GB"), ``threads`` (DuckDB's choice).
    Safe to use from several tasks at once.
    """

    def __init__(self, config: WarehouseConfig, settings: WarehouseSettings) -> None:
        self._path = configured_path(config)
        self._config = config
        self._settings = settings
        self._gate = Gate.of(config, "duckdb")
        self._info = warehouse_info(config, "duckdb")
        self._cap = Cap(settings.WAREHOUSE_MAX_ROWS, settings.WAREHOUSE_MAX_BYTES)
        self._pool = ThreadPoolExecutor(PARALLEL_QUERIES, thread_name_prefix="duckdb")
        self._opening = threading.Lock()
        self._opened: Opened | None = None
        self._known: dict[str, Relation] | None = None
        self._names: dict[str, list[str]] | None = None
        self._calls: set[_Call[Any]] = set()
        self._closed = False

    @property
    def info(self) -> WarehouseInfo:
        return self._info

    async def ping(self) -> None:
        """Open the file and run the smallest query."""
        await self._in_thread(lambda cursor: cursor.execute("SELECT 1").fetchall(), "ping")

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        """See ``Warehouse.query``; ``max_rows`` may only lower the configured cap."""
        cap = self._cap.lowered(max_rows)
        return await self._in_thread(lambda cursor: self._query(cursor, sql, cap), sql)

    async def tables(self) -> list[Table]:
        """See ``Warehouse.tables``; the file is looked at anew each time."""
        return await self._in_thread(
            self._tables, "list tables", self._settings.LIST_TABLES_TIMEOUT_SECONDS
        )

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        """See ``Warehouse.sample``. Raises ``QueryFailed`` for an unknown table."""
        return await self._in_thread(lambda cursor: self._sample(cursor, table, rows), table)

    async def close(self) -> None:
        """Interrupt what runs, wait for it, and close the file."""
        self._closed = True
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for call in tuple(self._calls):
            call.end()
        with self._opening:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()

    # ------------------------------------------------------------ in a thread

    async def _in_thread(
        self, work: Callable[[DuckDBPyConnection], T], sql: str, timeout: float | None = None
    ) -> T:
        """Run ``work`` on a cursor of its own; time-out and cancellation interrupt that cursor."""
        limit = self._settings.WAREHOUSE_TIMEOUT if timeout is None else timeout
        call = _Call(self, work)
        if self._closed:
            raise self._closed_error()
        self._calls.add(call)
        try:
            return await run_cancellable(self._pool, call.run, call.interrupt, limit)
        except OutOfTime:
            raise QueryTimeout(
                f"the query ran longer than {limit:g} s and was cancelled; ask for less: "
                "fewer rows, a shorter period, or a pre-aggregated step",
                sql,
            ) from None
        except (QueryFailed, CancelledError):
            if self._closed:
                raise self._closed_error() from None
            raise
        finally:
            self._calls.discard(call)

    def cursor(self) -> DuckDBPyConnection:
        """A new cursor; the file is opened the first time."""
        with self._opening:
            if self._closed:
                raise WarehouseUnavailable(
                    f"datasource {self._info.id!r} was closed; open it again"
                )
            if self._opened is None:
                self._opened = open_file(self._path, self._config.config)
            return self._opened.cursor()

    def _closed_error(self) -> WarehouseUnavailable:
        return WarehouseUnavailable(f"datasource {self._info.id!r} was closed; open it again")

    def _query(self, cursor: DuckDBPyConnection, sql: str, cap: Cap) -> QueryResult:
        columns = self._columns(cursor) if self._gate.filters else {}
        final = self._gate.pass_query(sql, columns)
        started = time.monotonic()
        with _told(final, columns if self._gate.filters else None):
            table, truncated = _read(cursor, final, cap)
        duration = int((time.monotonic() - started) * 1000)
        return QueryResult(
            sql=final,
            table=table,
            row_count=table.num_rows,
            duration_ms=duration,
            caveats=query_caveats(final, "duckdb", table.num_rows, cut=truncated),
        )

    def _tables(self, cursor: DuckDBPyConnection) -> list[Table]:
        self._known = self._names = None
        with _told("list tables"):
            return listed(cursor, self._relations(cursor), self._gate, self._info.id)

    def _sample(self, cursor: DuckDBPyConnection, table: str, rows: int) -> list[dict[str, Any]]:
        known = self._relations(cursor)
        relation = known.get(table) or known.get(spelled(parts_of(table)))
        columns = self._columns(cursor)
        if relation is None or not self._gate.reads(relation.name, columns):
            raise QueryFailed(f"there is no table {table} to sample", table)
        sql = self._gate.sample_sql(relation.parts, rows, columns)
        with _told(sql, columns if self._gate.filters else None):
            return rows_of(_read(cursor, sql, self._cap)[0])

    def _relations(self, cursor: DuckDBPyConnection) -> dict[str, Relation]:
        """What the file holds; it is read-only, so it is looked up once."""
        if self._known is None:
            with _told("list tables"):
                self._known = relations(cursor, self._info.datasets)
        return self._known

    def _columns(self, cursor: DuckDBPyConnection) -> dict[str, list[str]]:
        """Column names by table; made once, since a warehouse may have thousands."""
        if self._names is None:
            self._names = column_names(self._relations(cursor))
        return self._names


class _Call(Generic[T]):
    """One piece of work on one cursor, which another thread may interrupt."""

    def __init__(self, warehouse: DuckDbWarehouse, work: Callable[[DuckDBPyConnection], T]) -> None:
        self._warehouse = warehouse
        self._work = work
        self._cursor: DuckDBPyConnection | None = None
        self._stopped = False
        self._running = threading.Lock()

    def run(self) -> T:
        with self._running:
            if self._stopped:
                raise OutOfTime
            cursor = self._warehouse.cursor()
            self._cursor = cursor
            try:
                return self._work(cursor)
            finally:
                self._cursor = None
                cursor.close()

    def end(self) -> None:
        """Interrupt until it has ended, or for ten seconds."""
        for _ in range(int(CANCEL_WAIT / CANCEL_EVERY)):
            self.interrupt()
            if self._running.acquire(timeout=CANCEL_EVERY):
                self._running.release()
                return

    def interrupt(self) -> None:
        self._stopped = True
        cursor = self._cursor
        if cursor is not None:
            cursor.interrupt()


# ---------------------------------------------------------------- reading


@contextmanager
def _told(sql: str, names: Mapping[str, Collection[str]] | None = None) -> Generator[None]:
    """Hand DuckDB's own words to whoever has to act on them.

    With ``names`` (tables and columns, given under a tenant filter) values that an error quotes are
    taken out unless the query itself has them: a cast may fail on a row before the filter has
    dropped it.
    """
    import duckdb

    try:
        yield
    except (duckdb.FatalException, duckdb.IOException) as error:
        raise WarehouseUnavailable(
            f"the warehouse file failed while it was read ({short(error)}); check the disk and "
            "the file, then start again"
        ) from error
    except (duckdb.Error, pa.ArrowException) as error:
        text = str(error).strip()
        raise QueryFailed(
            text if names is None else without_values(text, sql, names), sql
        ) from error
    except (RuntimeError, UnicodeDecodeError, MemoryError) as error:
        raise QueryFailed(f"{type(error).__name__}: {error}", sql) from error


def _read(cursor: DuckDBPyConnection, sql: str, cap: Cap) -> tuple[pa.Table, Any]:
    relation = cursor.sql(sql)
    relation = _as_texts(cursor, relation, sql)
    reader = relation.to_arrow_reader(BATCH_ROWS)
    try:
        table, caveat = collect(reader.schema, reader, cap)
    finally:
        reader.close()
    return _plain(table, [str(kind) for kind in relation.types]), caveat


def _as_texts(cursor: DuckDBPyConnection, relation: DuckDBPyRelation, sql: str) -> DuckDBPyRelation:
    """Let DuckDB write out the types that Arrow would change."""
    types = [str(kind) for kind in relation.types]
    if AS_TEXT.isdisjoint(types):
        return relation
    shown = [
        f'#{i}::VARCHAR AS "{name.replace(chr(34), chr(34) * 2)}"' if kind in AS_TEXT else f"#{i}"
        for i, (name, kind) in enumerate(zip(relation.columns, types, strict=True), start=1)
    ]
    return cursor.sql(f"SELECT {', '.join(shown)} FROM ({sql})")


def _plain(table: pa.Table, types: list[str]) -> pa.Table:
    """Sums of integers are 128 bits wide in DuckDB: keep them as integers where they fit; enums
    become texts."""
    changed = False
    columns = table.columns
    for i, kind in enumerate(types):
        if kind == "HUGEINT" and pa.types.is_decimal(columns[i].type):
            columns[i] = _narrowed(columns[i])
        elif pa.types.is_dictionary(columns[i].type):
            columns[i] = columns[i].cast(columns[i].type.value_type)
        else:
            continue
        changed = True
    return pa.Table.from_arrays(columns, names=table.column_names) if changed else table


def _narrowed(column: Column) -> Column:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
