"""SchemaCache: catalog, table detail and table search of a run's datasources."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from actors.calls import call
from actors.remote import actor
from adapters.store import connect
from adapters.store.store import Store
from adapters.warehouses import fingerprints
from pipeline.errors import StoreUnavailable, ToolError
from pipeline.ports import Embedder, SchemaStore, Warehouse
from pipeline.records import Project, SchemaLookup, Table, TableHit
from pipeline.schema.cache import CatalogCore
from pipeline.settings import Settings

log = logging.getLogger(__name__)


class SchemaCacheShell:
    """Connects to the store when it is first asked and stays connected while it lives. After a
    restart the tables come from the store again, where the first load has left them."""

    def __init__(
        self,
        settings: Settings,
        project: Project,
        warehouses: Mapping[str, Warehouse],
        embedder: Embedder,
    ) -> None:
        self._settings, self._project = settings, project
        self._warehouses, self._embedder = warehouses, embedder
        self._opening = asyncio.Lock()
        self._opened: CatalogCore | None = None
        self._connected: Store | None = None

    async def _catalog(self) -> CatalogCore:
        async with self._opening:
            if self._opened is None:
                store = await self._store()
                self._opened = CatalogCore(self._warehouses, self._embedder, store)
            return self._opened

    async def _store(self) -> SchemaStore | None:
        try:
            self._connected = await connect(self._settings.store, self._settings.home.path)
        except StoreUnavailable as error:
            log.warning("schemas are neither read from nor kept in the store: %s", error)
            return None
        prints = await fingerprints(self._project.datasources())
        return self._connected.schemas.of_project(self._project.id, prints)

    async def load(self, skip_cache: bool) -> dict[str, str]:
        return await (await self._catalog()).load(skip_cache=skip_cache)

    async def text(self, keywords: Sequence[str], budget_tokens: int) -> str:
        return await (await self._catalog()).text(keywords, budget_tokens)

    async def tables(self) -> list[Table]:
        return await (await self._catalog()).tables()

    async def lookup(self, tables: Sequence[str], datasource_id: str) -> SchemaLookup:
        return await (await self._catalog()).lookup(tables, datasource_id)

    async def search(self, text: str, k: int) -> list[TableHit]:
        return await (await self._catalog()).search(text, k)

    async def close(self) -> None:
        """Let go of the store; for tests, since an actor ends by being killed."""
        if self._opened is not None:
            await self._opened.close()
        if self._connected is not None:
            await self._connected.close()

    def __repr__(self) -> str:
        return f"SchemaCache({self._project.id})"


class CatalogClient:
    """The ``SchemaCatalog`` port over an actor. The list of tables, which may be long and does not
    change during a run, is fetched once."""

    def __init__(self, handle: Any, *, skip_cache: bool = False) -> None:
        self._handle, self._skip_cache = handle, skip_cache
        self._tables: list[Table] | None = None

    async def load(self) -> dict[str, str]:
        """Read the schemas; gives the datasources left out. Raises ``WarehouseUnavailable``."""
        self._tables = None
        return await call(self._handle.load.remote(self._skip_cache), _lost)

    async def text(self, keywords: Sequence[str], budget_tokens: int) -> str:
        """The catalog lines for a prompt."""
        return await call(self._handle.text.remote(list(keywords), budget_tokens), _lost)

    async def tables(self) -> list[Table]:
        if self._tables is not None:
            return list(self._tables)
        tables: list[Table] = await call(self._handle.tables.remote(), _lost)
        self._tables = tables
        return list(tables)

    async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
        return await call(self._handle.lookup.remote(list(tables), datasource_id), _lost)

    async def search(self, text: str, k: int) -> list[TableHit]:
        return await call(self._handle.search.remote(text, k), _lost)

    def __reduce__(self) -> tuple[Any, ...]:
        return CatalogClient, (self._handle,)  # whoever gets it fetches the tables itself


def _lost(why: str) -> ToolError:
    return ToolError(f"the schema cache was lost ({why}); try again")


def start_schema_cache(
    settings: Settings,
    project: Project,
    warehouses: Mapping[str, Warehouse],
    embedder: Embedder,
    *,
    skip_cache: bool = False,
) -> CatalogClient:
    """One actor a run. It reads the schemas on first use, and again after a restart; with
    ``skip_cache`` the first load asks the warehouses, whatever is kept of them."""
    made = actor(SchemaCacheShell, restarts=2, concurrency=16)
    handle = made.remote(settings, project, dict(warehouses), embedder)
    return CatalogClient(handle, skip_cache=skip_cache)
