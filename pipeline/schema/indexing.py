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

from pipeline.errors import ForModel, ForOperator
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
from pipeline.schema.cache import for_operator
from pipeline.schema.describing import Describer
from pipeline.schema.fingerprint import table_fingerprint
from pipeline.schema.lookup import trim
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
ERROR_CHARS = 500
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
    _progress: IndexProgress = field(default_factory=IndexProgress)
    _describer: Describer | None = None

    async def index(self) -> SchemaIndexRun:
        """Read, keep and embed. Raises ``ForOperator`` when the warehouse, the store or the
        embedder fails as a whole; what was kept before then still counts."""
        source = self.warehouse.info.id
        self._progress = IndexProgress(datasource=source)
        await self._tell()
        try:
            tables = await self.warehouse.tables()
        except ForModel as error:
            raise for_operator(error) from error
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
            kept = {} if self.skip_cache else await self.store.kept(self.warehouse.info.id, names)
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
        fingerprint = table_fingerprint(table)
        if kept is not None and kept.complete and kept.fingerprint == fingerprint:
            self.reused += 1
            indexed = kept.model_copy(update={"table": _renewed(kept.table, table)})
        else:
            async with places:
                read = await self._read(table)
            indexed = IndexedTable(
                table=read,
                fingerprint=fingerprint,
                sampled=not read.error,
                complete=not read.error,
                read_at=self.clock(),
            )
        self._advance(
            done=self._progress.done + 1,
            failed=self._progress.failed + bool(indexed.table.error),
            table=table.name,
        )
        await self._tell()
        return indexed

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
        except TimeoutError:
            told["error"] = f"it was not read within {self.table_seconds:g} s"
        except Exception as error:  # noqa: BLE001 - whatever it is, the other tables matter more
            log.info("table %s cannot be read: %s", table.name, error)
            told["error"] = " ".join(str(error).split())[:ERROR_CHARS] or type(error).__name__
        read = trim(table.model_copy(update=told), SAMPLES)
        if self._describer is not None and not read.error and not read.description:
            read.description = await self._describer.describe(read)
        return read

    # ------------------------------------------------------------ vectors

    async def _embed(self, tables: Sequence[Table]) -> None:
        lines = await asyncio.to_thread(Lines, tables, self.embedder, self.store)
        await lines.take_kept()
        missing = lines.missing()
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


def _renewed(kept: Table, listed: Table) -> Table:
    """What was kept, with what the listing says today."""
    changes: dict[str, Any] = {"row_count": listed.row_count, "columns": listed.columns}
    if listed.description:
        changes["description"] = listed.description
    return kept.model_copy(update=changes)
