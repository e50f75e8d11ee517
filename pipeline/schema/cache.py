"""The catalog of a run: tables of every datasource, read once, looked up and searched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import (
    EmptyWarehouse,
    ForModel,
    StoreUnavailable,
    ToolError,
    WarehouseUnavailable,
)
from pipeline.ports import Embedder, SchemaStore, Warehouse
from pipeline.records import (
    IndexedTable,
    IndexOrigin,
    SchemaLookup,
    Shape,
    Table,
    TableHit,
    TableKind,
)
from pipeline.schema.catalog import DEFAULT_BUDGET, render_catalog
from pipeline.schema.describing import told_of
from pipeline.schema.lookup import MAX_SAMPLES, UNREADABLE, Resolved, TableNames, trim
from pipeline.schema.renewal import carried
from pipeline.schema.search import TableSearch

log = logging.getLogger(__name__)

PROBE = "SELECT 1"
"""Asked when the tables come from the store: a run must not begin on a warehouse that is gone."""
NOTHING_THERE = "it has no table that can be read; check its datasets and permissions"
ERROR_CHARS = 500
SAMPLES_KEPT = 2_000
"""Tables whose sample rows are held in memory."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The sample rows of a table, or why there are none."""

    rows: list[dict[str, Any]]
    error: str = ""


class CatalogCore:
    """The ``SchemaCatalog`` port over the warehouses of a run.

    ``warehouses`` maps datasource ids to warehouses, the primary first. With a ``store``, a reading
    of the tables that still counts takes the place of asking the warehouse, and a new one is kept
    there; a store that fails costs nothing but time. A cube's model is always asked for. A
    secondary that cannot be listed, or has no table, is left out with a warning; the primary's
    error is raised. Sample rows are read when a table is first looked up, and vectors made at the
    first search.
    """

    def __init__(
        self,
        warehouses: Mapping[str, Warehouse],
        embedder: Embedder,
        store: SchemaStore | None = None,
    ) -> None:
        self._warehouses = dict(warehouses)
        self._embedder = embedder
        self._store = store
        self._tables: dict[str, list[Table]] | None = None
        self._names: dict[str, TableNames] = {}
        self._left_out: dict[str, str] = {}
        self._samples: dict[tuple[str, str], _Sampled] = {}
        self._from_store: set[str] = set()
        self._search: TableSearch | None = None
        self._loading = asyncio.Lock()

    async def load(self, *, skip_cache: bool = False) -> dict[str, str]:
        """List the tables of every datasource; what an earlier load found is replaced.

        ``skip_cache`` asks every warehouse, whatever is kept. Gives the datasources that had to be
        left out, with the reason. Raises the primary's error.
        """
        async with self._loading:
            self._tables = await self._list(skip_cache)
            self._samples.clear()
            self._names.clear()
            await self._forget_search()
            return dict(self._left_out)

    async def close(self) -> None:
        """Stop what goes on in the background."""
        await self._forget_search()

    async def tables(self) -> list[Table]:
        """Every table of every datasource, without sample rows, ordered by name."""
        loaded = await self._loaded()
        every = [table for tables in loaded.values() for table in tables]
        return sorted(every, key=lambda table: table.name)

    async def text(self, keywords: Sequence[str] = (), budget_tokens: int = DEFAULT_BUDGET) -> str:
        """Catalog lines for a prompt. Raises ``EmptyWarehouse`` when there is no table at all."""
        loaded = await self._loaded()
        if not any(loaded.values()):
            names = ", ".join(self._warehouses) or "none"
            raise EmptyWarehouse(
                f"the warehouse has no table that can be read (datasources: {names}); "
                "check its schemas, its filter and the rights of its user"
            )
        pairs = [(self._warehouses[id].info, tables) for id, tables in loaded.items()]
        return await asyncio.to_thread(render_catalog, pairs, keywords, budget_tokens)

    async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
        """Columns and sample rows of the named tables; each table once, in the order asked.

        Without ``datasource_id`` all datasources are looked at, the primary first. Raises
        ``ToolError`` for an unknown datasource.
        """
        loaded = await self._loaded()
        if datasource_id and datasource_id not in self._warehouses:
            known = ", ".join(self._warehouses)
            raise ToolError(f"there is no datasource {datasource_id!r}; known: {known}")
        within = self._named(loaded, datasource_id)
        found: dict[tuple[str, str], Table] = {}
        not_found: list[dict[str, Any]] = []
        for name in tables:
            answer = within.resolve(name)
            if answer.table is None:
                elsewhere = self._named(loaded, "").resolve(name) if datasource_id else None
                not_found.append(_missing(name, answer, elsewhere))
            else:
                found.setdefault((answer.table.datasource_id, answer.table.name), answer.table)
        sampled = await asyncio.gather(*(self._in_full(table) for table in found.values()))
        return SchemaLookup(tables=list(sampled), not_found=not_found)

    async def search(self, text: str, k: int = 10) -> list[TableHit]:
        """The ``k`` tables nearest in meaning, best first: cosine, and a little for words of the
        text in the names and for size."""
        if self._search is None:
            tables = await self.tables()
            # Another search may have come first while the tables were read.
            self._search = self._search or TableSearch(tables, self._embedder, self._store)
        return await self._search.search(text, k)

    # ------------------------------------------------------------ loading

    async def _loaded(self) -> dict[str, list[Table]]:
        if self._tables is None:
            async with self._loading:
                if self._tables is None:
                    self._tables = await self._list(skip_cache=False)
        return self._tables

    async def _list(self, skip_cache: bool) -> dict[str, list[Table]]:
        ids = list(self._warehouses)
        self._left_out.clear()
        self._from_store.clear()
        answers = await asyncio.gather(
            *(self._read(id, skip_cache) for id in ids), return_exceptions=True
        )
        loaded: dict[str, list[Table]] = {}
        for place, (id, answer) in enumerate(zip(ids, answers, strict=True)):
            if place > 0 and answer == []:
                self._left_out[id] = NOTHING_THERE
                log.warning("datasource %s is left out: %s", id, NOTHING_THERE)
            elif isinstance(answer, list):
                own = [table.model_copy(update={"datasource_id": id}) for table in answer]
                loaded[id] = sorted(own, key=lambda table: table.name)
            elif place == 0 or not isinstance(answer, Exception):
                raise for_operator(answer)
            else:
                self._left_out[id] = str(answer) or type(answer).__name__
                log.warning("datasource %s is left out: %s", id, answer)
        return loaded

    async def _read(self, id: str, skip_cache: bool) -> list[Table]:
        warehouse = self._warehouses[id]
        kept_at_all = self._store is not None and warehouse.info.shape is Shape.ENTITIES
        if kept_at_all and not skip_cache:
            kept = await self._kept(id)
            if kept:
                await warehouse.query(PROBE, max_rows=1)
                self._from_store.add(id)
                return kept
        tables = await warehouse.tables()
        if not kept_at_all or not tables:
            return tables
        earlier = await self._earlier(id, tables)
        carried_on = [carried(table, earlier, anew=skip_cache) for table in tables]
        await self._keep(id, carried_on)
        return [item.table.model_copy(update={"sample_rows": []}) for item in carried_on]

    async def _kept(self, id: str) -> list[Table] | None:
        assert self._store is not None
        try:
            return await self._store.load(id)
        except StoreUnavailable as error:
            log.warning("the kept schema of %s is not used: %s", id, error)
            return None

    async def _earlier(self, id: str, tables: Sequence[Table]) -> dict[str, IndexedTable]:
        """What an earlier reading of the tables, which no longer counts as a whole, has left."""
        assert self._store is not None
        try:
            return await self._store.kept(id, [table.name for table in tables])
        except StoreUnavailable as error:
            log.warning("what is kept of %s is not used: %s", id, error)
            return {}

    async def _keep(self, id: str, tables: Sequence[IndexedTable]) -> None:
        assert self._store is not None

        async def batches() -> AsyncIterator[Sequence[IndexedTable]]:
            yield tables

        try:
            await self._store.save(id, IndexOrigin.DISCOVERY, batches())
            self._from_store.add(id)
        except StoreUnavailable as error:
            log.warning("the schema of %s is not kept for later runs: %s", id, error)

    async def _forget_search(self) -> None:
        search, self._search = self._search, None
        if search is not None:
            await search.close()

    # ------------------------------------------------------------ detail

    async def _in_full(self, table: Table) -> Table:
        """The table with sample rows and a description."""
        key = (table.datasource_id, table.name)
        if key not in self._samples:
            if len(self._samples) >= SAMPLES_KEPT:
                self._samples.pop(next(iter(self._samples)))
            self._samples[key] = await self._sampled(table)
        sampled, description = self._samples[key], told_of(table)
        if sampled.error:
            description = f"{UNREADABLE}{sampled.error}. {description}"
        told: dict[str, Any] = {
            "sample_rows": sampled.rows,
            "error": sampled.error,
            "description": description,
        }
        return trim(table.model_copy(update=told))

    async def _sampled(self, table: Table) -> _Sampled:
        if table.kind is not TableKind.TABLE:
            return _Sampled([])
        kept = await self._kept_samples(table)
        if kept is not None:
            return _Sampled(kept)
        try:
            rows = await self._warehouses[table.datasource_id].sample(table.name, MAX_SAMPLES)
        except ForModel as error:
            log.warning("no sample rows of %s: %s", table.name, error)
            return _Sampled([], reason_of(error))
        rows = trim(table.model_copy(update={"sample_rows": rows})).sample_rows
        await self._keep_samples(table, rows)
        return _Sampled(rows)

    async def _kept_samples(self, table: Table) -> list[dict[str, Any]] | None:
        if self._store is None or table.datasource_id not in self._from_store:
            return None
        try:
            kept = (await self._store.kept(table.datasource_id, [table.name])).get(table.name)
        except StoreUnavailable as error:
            log.warning("kept sample rows of %s are not used: %s", table.name, error)
            return None
        return None if kept is None or kept.table.error else kept.table.sample_rows

    async def _keep_samples(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._store is None or table.datasource_id not in self._from_store:
            return
        try:
            await self._store.keep_samples(table.datasource_id, table.name, rows)
        except StoreUnavailable as error:
            log.warning("sample rows of %s are not kept: %s", table.name, error)

    def _named(self, loaded: Mapping[str, list[Table]], datasource_id: str) -> TableNames:
        """The names of one datasource, or of all with ""."""
        names = self._names.get(datasource_id)
        if names is None:
            groups = [loaded.get(datasource_id, [])] if datasource_id else loaded.values()
            names = TableNames([table for group in groups for table in group])
            self._names[datasource_id] = names
        return names


def _missing(name: str, answer: Resolved, elsewhere: Resolved | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"table": name, "near": answer.near}
    if elsewhere is not None and elsewhere.table is not None:
        table = elsewhere.table
        entry["advice"] = (
            f"{table.name} is in datasource {table.datasource_id!r}; query it there "
            "and pass the values on as a list"
        )
    return entry


def reason_of(error: BaseException) -> str:
    """The first words of an error, on one line."""
    return " ".join(str(error).split())[:ERROR_CHARS] or type(error).__name__


def for_operator(error: BaseException) -> BaseException:
    """A query error while listing tables is the operator's concern: no model can mend it."""
    if isinstance(error, ForModel):
        return WarehouseUnavailable(f"the tables of the warehouse cannot be listed: {error}")
    return error
