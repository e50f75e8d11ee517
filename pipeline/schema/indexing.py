"""Indexing a datasource: its tables one by one, with sample rows, time spans and descriptions.

Tables are worked on in batches, so that memory holds one batch's rows; a table that cannot be read
is kept with the reason. What was read before and has not changed is not read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.errors import EmptyWarehouse, ForModel, ForOperator, UnsafeSql
from pipeline.ports import Embedder, SchemaStore, Warehouse
from pipeline.records import (
    IndexedTable,
    IndexOrigin,
    IndexPhase,
    IndexProgress,
    SchemaIndexRun,
    Table,
    TableKind,
)
from pipeline.schema.cache import NOTHING_THERE, for_operator, reason_of
from pipeline.schema.catalog import looks_archived
from pipeline.schema.describing import Describer
from pipeline.schema.fingerprint import table_fingerprint
from pipeline.schema.lookup import trim
from pipeline.schema.renewal import described_as, renewed, unchanged
from pipeline.schema.search import BATCH as LINES_BATCH
from pipeline.schema.search import Lines
from pipeline.schema.spans import time_span

log = logging.getLogger(__name__)

SAMPLES = 5
"""Rows of a table that are kept."""
BATCH = 50
"""Tables that are held at a time."""
AT_A_TIME = 4
TABLE_SECONDS = 120.0
"""What one table may take before it is given up."""
LINES_AT_MOST = 2_000
"""Tables whose vectors are made here, the largest first: about half a minute of one core with the
embedded model. A search makes what it needs of the others and finds them by their words."""
Listener = Callable[[IndexProgress], Awaitable[None]]


@dataclass(slots=True)
class Indexer:
    """Indexes one datasource. ``skip_cache`` reads every table anew."""

    warehouse: Warehouse
    store: SchemaStore
    embedder: Embedder
    listener: Listener
    describer: Callable[[int], Describer] | None = None
    """Makes the describer once the number of tables is known."""
    skip_cache: bool = False
    table_seconds: float = TABLE_SECONDS
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    reused: int = 0
    """Tables that had not changed and were not read again."""
    postponed: int = 0
    """Tables whose vectors the first searches will make."""
    _progress: IndexProgress = field(default_factory=IndexProgress)
    _describer: Describer | None = None

    async def index(self) -> SchemaIndexRun:
        """Read, keep and embed. Raises ``EmptyWarehouse`` without any table, and ``ForOperator``
        when the warehouse, the store or the embedder fails as a whole; what was kept before then
        still counts."""
        source = self.warehouse.info.id
        self._progress = IndexProgress(datasource=source)
        await self._tell()
        try:
            tables = await self.warehouse.tables()
        except ForModel as error:
            raise for_operator(error) from error
        if not tables:
            raise EmptyWarehouse(f"the datasource {source} cannot be indexed: {NOTHING_THERE}")
        tables = sorted(tables, key=lambda table: table.name)
        self._describer = self.describer(len(tables)) if self.describer else None
        self._advance(phase=IndexPhase.TABLES, total=len(tables))
        await self._tell()
        described: list[Table] = []
        run = await self.store.save(source, IndexOrigin.INDEX, self._batches(tables, described))
        await self._embed(described)
        self._advance(phase=IndexPhase.DONE)
        await self._tell()
        return run

    # ------------------------------------------------------------ tables

    async def _batches(
        self, tables: Sequence[Table], described: list[Table]
    ) -> AsyncIterator[list[IndexedTable]]:
        places = asyncio.Semaphore(AT_A_TIME)
        for start in range(0, len(tables), BATCH):
            batch = tables[start : start + BATCH]
            names = [table.name for table in batch]
            kept = await self.store.kept(self.warehouse.info.id, names)
            done = await asyncio.gather(
                *(self._one(table, kept.get(table.name), places) for table in batch),
                return_exceptions=True,
            )
            indexed: list[IndexedTable] = []
            for item in done:
                if isinstance(item, BaseException):
                    raise item
                indexed.append(item)
            described += (item.table.model_copy(update={"sample_rows": []}) for item in indexed)
            yield indexed

    async def _one(
        self, table: Table, kept: IndexedTable | None, places: asyncio.Semaphore
    ) -> IndexedTable:
        if kept is not None and kept.complete and not self.skip_cache and unchanged(kept, table):
            self.reused += 1
            indexed = renewed(kept, table)
            if not indexed.table.description:
                indexed = await self._described(indexed, places)
        else:
            indexed = await self._anew(table, kept, places)
        self._advance(
            done=self._progress.done + 1,
            failed=self._progress.failed + bool(indexed.table.error),
            table=table.name,
        )
        await self._tell()
        return indexed

    async def _described(self, indexed: IndexedTable, places: asyncio.Semaphore) -> IndexedTable:
        async with places:
            text = await self._description(indexed.table)
        told = {"description": text}
        return indexed.model_copy(update={"table": indexed.table.model_copy(update=told)})

    async def _anew(
        self, table: Table, kept: IndexedTable | None, places: asyncio.Semaphore
    ) -> IndexedTable:
        """Read from the warehouse. A description that was paid for stays while the columns do."""
        if self._describer is None or not self.skip_cache:
            table = described_as(kept, table)
        async with places:
            read = await self._read(table)
        return IndexedTable(
            table=read,
            fingerprint=table_fingerprint(table),
            sampled=not read.error,
            complete=not read.error,
            read_at=self.clock(),
        )

    async def _read(self, table: Table) -> Table:
        """The table with all that there is to know; with the error instead if it has one."""
        if table.kind is not TableKind.TABLE:
            return table
        told: dict[str, Any] = {}
        try:
            async with asyncio.timeout(self.table_seconds):
                told["sample_rows"] = await self.warehouse.sample(table.name, SAMPLES)
                told["time_span"] = await time_span(self.warehouse, table)
        except ForOperator:
            raise
        except UnsafeSql as error:
            told["error"] = f"no query can name it: {reason_of(error)}; read it through a view"
        except TimeoutError:
            told["error"] = f"it was not read within {self.table_seconds:g} s"
        except Exception as error:  # noqa: BLE001 - whatever it is, the other tables matter more
            log.info("table %s cannot be read: %s", table.name, error)
            told["error"] = reason_of(error)
        read = trim(table.model_copy(update=told), SAMPLES)
        if not read.error and not read.description:
            read.description = await self._description(read)
        return read

    async def _description(self, table: Table) -> str:
        return "" if self._describer is None else await self._describer.describe(table)

    # ------------------------------------------------------------ vectors

    async def _embed(self, tables: Sequence[Table]) -> None:
        lines = await asyncio.to_thread(Lines, tables, self.embedder, self.store)
        await lines.take_kept()
        missing = sorted(lines.missing(), key=lambda at: _importance(tables[at]))
        self.postponed = max(0, len(missing) - LINES_AT_MOST)
        missing = missing[:LINES_AT_MOST]
        self._advance(phase=IndexPhase.EMBEDDING, done=0, total=len(missing), table="")
        await self._tell()
        for start in range(0, len(missing), LINES_BATCH):
            batch = missing[start : start + LINES_BATCH]
            await lines.embed(batch)
            self._advance(done=start + len(batch))
            await self._tell()

    # ------------------------------------------------------------ progress

    def _advance(self, **changes: Any) -> None:
        self._progress = self._progress.model_copy(update=changes)

    async def _tell(self) -> None:
        await self.listener(self._progress.model_copy(update={"updated_at": self.clock()}))


def _importance(table: Table) -> tuple[bool, float, str]:
    """Large tables first, those of unknown size among them; archives last."""
    rows = float("inf") if table.row_count < 0 else table.row_count
    return looks_archived(table.name), -rows, table.name
