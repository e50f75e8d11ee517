"""A discovery reads a schema that is kept while it counts, and fills the store when none does."""

from __future__ import annotations

import pytest

from pipeline.errors import WarehouseUnavailable
from pipeline.records import IndexOrigin, Shape, TimeSpan
from pipeline.schema.cache import CatalogCore
from tests.pipeline.schema.memory import (
    DOWN,
    NO_RIGHT,
    CountingEmbedder,
    MemorySchemas,
    MemoryWarehouse,
    table,
)

ORDERS = table("main.orders", "id INT", "customer", "amount DOUBLE", rows=1_000)
SHOPS = table("main.shops", "id INT", "name", rows=3)


def core(store: MemorySchemas | None, *warehouses: MemoryWarehouse) -> CatalogCore:
    return CatalogCore({w.info.id: w for w in warehouses}, CountingEmbedder(), store)


async def names(catalog: CatalogCore) -> list[str]:
    return [t.name for t in await catalog.tables()]


async def test_the_first_discovery_reads_live_and_fills_the_store() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS, SHOPS)
    catalog = core(store, warehouse)
    assert await catalog.load() == {}
    assert await names(catalog) == ["main.orders", "main.shops"]
    assert warehouse.listings == 1
    assert [run.origin for run in store.runs] == [IndexOrigin.DISCOVERY]
    assert not warehouse.sampled, "sample rows are read when a table is looked up"


async def test_the_next_one_takes_what_is_kept_once_the_warehouse_has_answered() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS, SHOPS)
    await core(store, warehouse).load()
    catalog = core(store, warehouse)
    assert "main.orders | 3 columns | 1K rows" in await catalog.text([], 1_000)
    assert warehouse.listings == 1
    assert warehouse.queries == ["SELECT 1"]


async def test_what_does_not_count_any_more_is_read_anew() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS)
    await core(store, warehouse).load()
    store.counts = False
    warehouse.listed = [ORDERS, SHOPS]
    assert await names(core(store, warehouse)) == ["main.orders", "main.shops"]


async def test_that_there_was_no_table_is_not_kept() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse()
    assert await names(core(store, warehouse)) == []
    assert not store.runs
    store.rows["default"] = {}
    warehouse.listed = [ORDERS]
    assert await names(core(store, warehouse)) == ["main.orders"]


async def test_skip_cache_asks_the_warehouse_and_keeps_the_new_reading() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS)
    await core(store, warehouse).load()
    warehouse.listed = [ORDERS, SHOPS]
    catalog = core(store, warehouse)
    await catalog.load(skip_cache=True)
    assert await names(catalog) == ["main.orders", "main.shops"]
    assert await names(core(store, warehouse)) == ["main.orders", "main.shops"]
    assert warehouse.listings == 2


async def test_of_tables_that_have_not_changed_what_the_index_found_stays() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS, SHOPS)
    await core(store, warehouse).lookup(["orders", "shops"])
    kept = store.rows["default"]
    span = TimeSpan(column="day", first="2024-01-01", last="2024-12-31")
    for row in kept.values():
        row.table.description, row.table.time_span = "by a model", span
    store.counts = False
    warehouse.listed = [ORDERS, SHOPS.model_copy(update={"row_count": 4})]
    catalog = core(store, warehouse)
    told = {t.name: (t.description, t.time_span) for t in await catalog.tables()}
    assert told == {"main.orders": ("by a model", span), "main.shops": ("by a model", None)}
    assert not any(table.sample_rows for table in await catalog.tables())
    await catalog.lookup(["orders", "shops"])
    assert warehouse.sampled == ["main.orders", "main.shops", "main.shops"]


async def test_skip_cache_keeps_descriptions_of_tables_that_are_the_same() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS, SHOPS)
    await core(store, warehouse).lookup(["orders", "shops"])
    for row in store.rows["default"].values():
        row.table.description = "written by a model"
    warehouse.listed = [ORDERS, table("main.shops", "other")]
    catalog = core(store, warehouse)
    await catalog.load(skip_cache=True)
    told = {t.name: t.description for t in await catalog.tables()}
    assert told == {"main.orders": "written by a model", "main.shops": ""}


async def test_sample_rows_are_kept_when_a_table_is_looked_up_and_not_read_again() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS, SHOPS)
    [first] = (await core(store, warehouse).lookup(["orders"])).tables
    [again] = (await core(store, warehouse).lookup(["main.orders"])).tables
    assert first == again
    assert len(again.sample_rows) == 3
    assert warehouse.sampled == ["main.orders"]


async def test_a_table_that_failed_in_the_index_is_tried_again() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS)
    await core(store, warehouse).lookup(["orders"])
    store.rows["default"]["main.orders"].table.error = "no right to read"
    [found] = (await core(store, warehouse).lookup(["orders"])).tables
    assert len(found.sample_rows) == 3
    assert warehouse.sampled == ["main.orders"] * 2


async def test_a_lookup_tells_why_a_table_has_no_sample_rows() -> None:
    warehouse = MemoryWarehouse(ORDERS, SHOPS, broken={"main.shops": NO_RIGHT})
    orders, shops = (await core(None, warehouse).lookup(["orders", "shops"])).tables
    assert (orders.error, len(orders.sample_rows)) == ("", 3)
    assert (shops.error, shops.sample_rows) == ("no right to read", [])
    assert shops.description.startswith("It cannot be read: no right to read. 2 columns, 3 rows.")


async def test_a_lookup_tells_what_the_table_is() -> None:
    span = TimeSpan(column="day", first="2024-01-01", last="2024-12-31")
    days = table("main.days", "day DATE", "amount INT", time_span=span)
    noted = table("main.noted", "a", description="Notes of the staff.")
    found = (await core(None, MemoryWarehouse(days, noted)).lookup(["days", "noted"])).tables
    assert [t.description for t in found] == [
        "2 columns, 100 rows, day from 2024-01-01 to 2024-12-31. Times: day. Measures: amount.",
        "Notes of the staff.",
    ]


async def test_a_store_that_fails_costs_nothing_but_time(caplog: pytest.LogCaptureFixture) -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS)
    store.down = True
    catalog = core(store, warehouse)
    await catalog.load()
    assert (await catalog.lookup(["orders"])).tables[0].sample_rows
    assert (await catalog.search("customer", 1))[0].table == "main.orders"
    assert "is not kept for later runs: the store does not answer" in caplog.text


async def test_a_kept_schema_does_not_hide_a_warehouse_that_is_gone() -> None:
    store = MemorySchemas()
    good, crm = MemoryWarehouse(ORDERS), MemoryWarehouse(SHOPS, id="crm")
    await core(store, good, crm).load()
    crm.broken["query"] = DOWN
    catalog = core(store, good, crm)
    assert await catalog.load() == {"crm": "the warehouse is down"}
    assert await names(catalog) == ["main.orders"]
    good.broken["query"] = NO_RIGHT
    with pytest.raises(WarehouseUnavailable, match="no right"):
        await core(store, good, crm).load()


async def test_a_cubes_model_is_always_asked_for() -> None:
    store = MemorySchemas()
    cube = MemoryWarehouse(ORDERS, id="cube", shape=Shape.CUBE)
    for _ in range(2):
        await core(store, MemoryWarehouse(SHOPS), cube).load()
    assert cube.listings == 2
    assert "cube" not in store.rows


async def test_vectors_that_are_kept_are_not_made_again() -> None:
    store, warehouse = MemorySchemas(), MemoryWarehouse(ORDERS, SHOPS)
    first, second = CountingEmbedder(), CountingEmbedder()
    hits = await CatalogCore({"default": warehouse}, first, store).search("customers", 2)
    assert await CatalogCore({"default": warehouse}, second, store).search("customers", 2) == hits
    assert (len(first.lines), len(second.lines)) == (2, 0)
    other = CountingEmbedder()
    other.id = "another model"
    await CatalogCore({"default": warehouse}, other, store).search("customers", 2)
    assert len(other.lines) == 2, "vectors of one embedder are never taken for another's"
