"""The plain class below the SchemaCache actor, without Ray: it keeps what it read in the store."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.schema_cache import CatalogClient, SchemaCacheShell
from adapters.embeddings.hashing import HashingEmbedder
from adapters.store import connect, embedded
from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.records import Project, WarehouseConfig
from pipeline.settings import Settings


@pytest.fixture
async def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Settings]:
    home = tmp_path / "home"
    monkeypatch.setenv("VERIDICAL_HOME", str(home))
    yield Settings.load()
    assert await asyncio.to_thread(embedded.settled, home, 60)


@pytest.fixture
async def warehouse(shop: WarehouseConfig, settings: Settings) -> AsyncGenerator[OpenWarehouse]:
    opened = open_warehouse(shop, settings.warehouse)
    yield opened
    await opened.close()


@asynccontextmanager
async def shell(
    settings: Settings, shop: WarehouseConfig, warehouse: OpenWarehouse
) -> AsyncGenerator[SchemaCacheShell]:
    """What an actor is made of; ended as a restart ends it."""
    project = Project(id="p", name="Shop", warehouses=[shop])
    made = SchemaCacheShell(settings, project, {shop.id: warehouse}, HashingEmbedder())
    try:
        yield made
    finally:
        await made.close()


async def test_after_a_restart_the_tables_come_from_the_store(
    settings: Settings, shop: WarehouseConfig, warehouse: OpenWarehouse
) -> None:
    async with await connect(settings.store, settings.home.path) as store:
        async with shell(settings, shop, warehouse) as first:
            assert await first.load(skip_cache=True) == {}
            before = await first.tables()
            [orders] = (await first.lookup(["orders"], "")).tables
        readings = await store.schemas.latest("p", shop.id)
        async with shell(settings, shop, warehouse) as second:
            assert await second.tables() == before
            assert (await second.lookup(["orders"], "")).tables == [orders]
            assert "main.orders | 5 columns | 6K rows" in await second.text([], 1_000)
            assert (await second.search("orders", 1))[0].table == "main.orders"
        assert await store.schemas.latest("p", shop.id) == readings, "nothing was read again"


async def test_without_a_store_the_warehouse_is_asked(
    settings: Settings,
    shop: WarehouseConfig,
    warehouse: OpenWarehouse,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50")
    async with shell(Settings.load(), shop, warehouse) as alone:
        assert [t.name for t in await alone.tables()] == ["main.orders", "main.shops"]
    assert "neither read from nor kept in the store" in caplog.text


def test_a_client_that_is_handed_on_leaves_the_tables_behind() -> None:
    client = CatalogClient("handle", skip_cache=True)
    assert vars(pickle.loads(pickle.dumps(client))) == vars(CatalogClient("handle"))
