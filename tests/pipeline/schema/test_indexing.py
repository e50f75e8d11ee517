"""Indexing: table by table, with progress; one that fails does not lose the others."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from pipeline.errors import (
    EmptyWarehouse,
    ModelUnreachable,
    StoreUnavailable,
    UnsafeSql,
    WarehouseUnavailable,
)
from pipeline.records import IndexOrigin, IndexPhase, TimeSpan
from pipeline.schema import indexing
from pipeline.schema.cache import CatalogCore
from pipeline.schema.describing import ModelDescriber
from pipeline.schema.indexing import Indexer
from pipeline.testing import ScriptedModel
from tests.pipeline.schema.memory import (
    DOWN,
    NO_RIGHT,
    CountingEmbedder,
    Heard,
    MemorySchemas,
    MemoryWarehouse,
    table,
)

ORDERS = table("main.orders", "id INT", "day DATE", "amount DOUBLE", rows=1_000)
SHOPS = table("main.shops", "id INT", "name", rows=3)
EMPTY = table("main.empty", "day DATE", rows=0)


class Desk:
    """An indexer and what lies around it."""

    def __init__(self, *tables: Any, **broken: Exception) -> None:
        self.store, self.embedder, self.heard = MemorySchemas(), CountingEmbedder(), Heard()
        self.warehouse = MemoryWarehouse(*(tables or (ORDERS, SHOPS, EMPTY)))
        self.warehouse.broken = broken

    def indexer(self, **fields: Any) -> Indexer:
        return Indexer(self.warehouse, self.store, self.embedder, self.heard, **fields)

    def kept(self, name: str) -> Any:
        return self.store.rows["default"][name]


async def test_every_table_is_kept_with_sample_rows_and_its_time_span() -> None:
    desk = Desk()
    run = await desk.indexer().index()
    assert (run.table_count, run.failed, run.origin) == (3, {}, IndexOrigin.INDEX)
    orders = desk.kept("main.orders").table
    assert len(orders.sample_rows) == 5
    assert orders.time_span == TimeSpan(
        column="day", first="2024-01-01", last="2024-12-31T23:00:00"
    )
    assert desk.kept("main.shops").table.time_span is None
    assert desk.kept("main.empty").table.time_span is None
    assert desk.warehouse.queries == ['SELECT MIN("day"), MAX("day") FROM "main"."orders"']
    assert len(desk.embedder.lines) == len(desk.store.lines) == 3


async def test_progress_tells_phase_and_n_of_m_tables() -> None:
    desk = Desk()
    await desk.indexer().index()
    told = [(p.phase, p.done, p.total) for p in desk.heard.progress]
    reading = IndexPhase.TABLES
    assert told == [
        (IndexPhase.LISTING, 0, 0),
        *((reading, n, 3) for n in range(4)),
        (IndexPhase.EMBEDDING, 0, 3),
        (IndexPhase.EMBEDDING, 3, 3),
        (IndexPhase.DONE, 3, 3),
    ]
    assert all(p.updated_at is not None for p in desk.heard.progress)


async def test_a_table_that_fails_does_not_lose_the_others() -> None:
    broken: dict[str, Exception] = {"main.shops": NO_RIGHT, "main.empty": ZeroDivisionError()}
    desk = Desk(**broken)
    run = await desk.indexer().index()
    assert run.failed == {"main.shops": "no right to read", "main.empty": "ZeroDivisionError"}
    assert run.table_count == 3
    assert desk.heard.progress[-1].failed == 2
    assert desk.kept("main.orders").table.sample_rows


async def test_a_table_that_takes_too_long_is_given_up() -> None:
    desk = Desk()
    started = asyncio.Event()

    async def hang(table: str, rows: int) -> list[dict[str, Any]]:
        started.set()
        await asyncio.Event().wait()
        return []

    desk.warehouse.sample = hang
    run = await desk.indexer(table_seconds=0.02).index()
    assert started.is_set()
    assert set(run.failed.values()) == {"it was not read within 0.02 s"}
    assert len(run.failed) == 3


async def test_a_warehouse_that_goes_away_ends_the_indexing_and_nothing_changes() -> None:
    desk = Desk()
    await desk.indexer().index()
    desk.warehouse.broken["main.shops"] = DOWN
    with pytest.raises(WarehouseUnavailable, match="down"):
        await desk.indexer(skip_cache=True).index()
    assert len(desk.store.runs) == 1
    desk.warehouse.broken["all"] = NO_RIGHT
    with pytest.raises(WarehouseUnavailable, match="cannot be listed"):
        await desk.indexer().index()


async def test_an_unchanged_table_is_not_read_again_unless_the_cache_is_skipped() -> None:
    desk = Desk()
    await desk.indexer().index()
    assert len(desk.warehouse.sampled) == 3
    desk.warehouse.listed[0] = ORDERS.model_copy(update={"row_count": 2_000})
    desk.warehouse.listed[1] = table("main.shops", "id INT", "name", "opened DATE", rows=3)
    again = desk.indexer()
    await again.index()
    assert desk.warehouse.sampled[3:] == ["main.orders", "main.shops"], "rows, columns"
    assert again.reused == 1
    assert desk.kept("main.orders").table.row_count == 2_000
    await desk.indexer(skip_cache=True).index()
    assert len(desk.warehouse.sampled) == 3 + 2 + 3


async def test_a_dropped_table_disappears_and_a_new_one_is_read() -> None:
    desk = Desk()
    await desk.indexer().index()
    desk.warehouse.listed = [ORDERS, table("main.new", "a"), EMPTY]
    again = desk.indexer()
    assert (await again.index()).table_count == 3
    assert set(desk.store.rows["default"]) == {"main.orders", "main.new", "main.empty"}
    assert (again.reused, desk.warehouse.sampled[3:]) == (2, ["main.new"])


async def test_a_warehouse_without_tables_is_told_and_keeps_nothing() -> None:
    desk = Desk()
    desk.warehouse.listed = []
    with pytest.raises(EmptyWarehouse, match="no table that can be read"):
        await desk.indexer().index()
    assert not desk.store.runs


async def test_a_table_that_no_query_may_name_is_told() -> None:
    desk = Desk()
    desk.warehouse.broken["query"] = UnsafeSql("it looks like a data file")
    run = await desk.indexer().index()
    assert run.failed == {
        "main.orders": "no query can name it: it looks like a data file; read it through a view"
    }
    assert len(desk.kept("main.orders").table.sample_rows) == 5


async def test_only_so_many_tables_are_embedded_the_largest_first_and_archives_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexing, "LINES_AT_MOST", 3)
    big_log = table("main.big_log", "a", rows=10**9)
    desk = Desk(ORDERS, SHOPS, EMPTY, big_log, table("main.view", "a", rows=-1))
    indexer = desk.indexer()
    await indexer.index()
    assert indexer.postponed == 2
    assert [line.partition(".")[0] for line in desk.embedder.lines] == ["view", "orders", "shops"]


async def test_a_table_that_failed_and_one_that_a_lookup_sampled_are_read_in_full() -> None:
    desk = Desk(**{"main.shops": NO_RIGHT})
    await CatalogCore({"default": desk.warehouse}, desk.embedder, desk.store).lookup(["orders"])
    await desk.indexer().index()
    desk.warehouse.broken = {}
    desk.warehouse.sampled.clear()
    again = desk.indexer()
    run = await again.index()
    assert (run.failed, again.reused, desk.warehouse.sampled) == ({}, 2, ["main.shops"])
    assert desk.kept("main.orders").table.time_span is not None


async def test_what_was_read_before_it_was_broken_off_is_not_read_again() -> None:
    tables = [table(f"main.t{n:03}", "a", "b") for n in range(120)]
    desk = Desk(*tables, **{"main.t110": DOWN})
    with pytest.raises(WarehouseUnavailable):
        await desk.indexer().index()
    desk.warehouse.broken = {}
    desk.warehouse.sampled.clear()
    again = desk.indexer()
    await again.index()
    assert again.reused == 100
    assert len(desk.warehouse.sampled) == 20


async def test_a_discovery_takes_what_was_indexed() -> None:
    desk = Desk()
    await desk.indexer().index()
    desk.warehouse.sampled.clear()
    catalog = CatalogCore({"default": desk.warehouse}, desk.embedder, desk.store)
    [orders] = (await catalog.lookup(["orders"])).tables
    assert len(orders.sample_rows) == 3
    assert "day from 2024-01-01" in orders.description
    assert await catalog.search("orders", 1)
    assert desk.warehouse.listings == 1
    assert desk.warehouse.sampled == []
    assert len(desk.embedder.lines) == 3


async def test_an_embedder_that_fails_leaves_the_tables_kept() -> None:
    desk = Desk()
    desk.embedder.broken = True
    with pytest.raises(StoreUnavailable, match="no embedding"):
        await desk.indexer().index()
    assert len(desk.store.rows["default"]) == 3


async def test_a_model_may_describe_the_tables() -> None:
    model = ScriptedModel(lambda r: f"<think>hm</think>One row of {r.messages[0].content[10:40]!r}")
    noted = table("main.noted", "a", description="Noted already.")
    desk = Desk(ORDERS, noted)
    await desk.indexer(describer=partial(ModelDescriber, model)).index()
    assert desk.kept("main.orders").table.description.startswith("One row of")
    assert desk.kept("main.noted").table.description == "Noted already."
    assert len(model.requests) == 1


async def test_a_description_is_paid_for_once_while_the_columns_are_the_same() -> None:
    model = ScriptedModel(lambda r: f"Text {len(model.requests)}.")
    describer = partial(ModelDescriber, model)
    desk = Desk(ORDERS, SHOPS)
    await desk.indexer().index()
    await desk.indexer(describer=describer).index()
    assert len(model.requests) == 2, "tables that were read before are described too"
    assert len(desk.warehouse.sampled) == 2, "but not read again for it"
    desk.warehouse.listed = [
        ORDERS.model_copy(update={"row_count": 7}),
        table("main.shops", "id INT", "other"),
    ]
    await desk.indexer(describer=describer).index()
    assert len(model.requests) == 3
    assert desk.kept("main.orders").table.description in {"Text 1.", "Text 2."}
    assert desk.kept("main.shops").table.description == "Text 3."
    await desk.indexer(skip_cache=True).index()
    assert desk.kept("main.shops").table.description == "Text 3."


async def test_a_description_that_fails_never_loses_a_table() -> None:
    replies: list[Any] = [ModelUnreachable("no answer"), '{"table": 1}', ""]
    desk = Desk(*(table(f"main.t{n}", "a") for n in range(40)))
    model = ScriptedModel(replies)
    run = await desk.indexer(describer=partial(ModelDescriber, model)).index()
    assert (run.table_count, run.failed) == (40, {})
    assert len(model.requests) == 3, "after one in twenty tables the model is not asked any more"
