"""The catalog of a run over small warehouses in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.errors import EmptyWarehouse, QueryFailed, ToolError, WarehouseUnavailable
from pipeline.ports import QueryResult, WarehouseInfo
from pipeline.records import Column, Table
from pipeline.schema.cache import CatalogCore
from pipeline.schema.search import described, split_words

WORDS = ["flight", "delay", "airline", "name", "revenue", "order", "customer", "weather"]


class CountingEmbedder:
    """One dimension a word; counts what it is asked."""

    id = "words"
    dim = len(WORDS)

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.extend(texts)
        return [self._unit([float(w in text.lower()) for w in WORDS]) for text in texts]

    def _unit(self, vector: list[float]) -> list[float]:
        norm = sum(x * x for x in vector) ** 0.5 or 1.0
        return [x / norm for x in vector]


class MemoryWarehouse:
    """A ``Warehouse`` of tables in memory; ``broken`` names what fails."""

    def __init__(self, id: str, *tables: Table, broken: Sequence[str] = ()) -> None:
        self.info = WarehouseInfo(id, "duckdb")
        self._tables = list(tables)
        self._broken = broken
        self.sampled: list[str] = []

    async def tables(self) -> list[Table]:
        if "tables" in self._broken:
            raise WarehouseUnavailable("the warehouse is down")
        return list(self._tables)

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        self.sampled.append(table)
        if table in self._broken:
            raise QueryFailed("no right to read")
        columns = next(t.columns for t in self._tables if t.name == table)
        return [{c.name: "v" * 200 for c in columns} for _ in range(rows)]

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        raise QueryFailed("not asked here")


def table(name: str, *columns: str, rows: int = 100) -> Table:
    return Table(
        name=name,
        columns=[Column(name=c, type="VARCHAR") for c in columns],
        row_count=rows,
        description=f"{name} holds things",
    )


FLIGHTS = table("main.flights", "carrier", "dep_delay", rows=336_776)
AIRLINES = table("main.airlines", "carrier", "name", rows=16)
EMPTY = table("main.weather", "temp", rows=0)
ORDERS = table("crm.orders", "customer", "revenue", rows=1_000)


def core(*warehouses: MemoryWarehouse) -> CatalogCore:
    return CatalogCore({w.info.id: w for w in warehouses}, CountingEmbedder())


async def test_tables_come_ordered_by_name_and_tagged_with_their_datasource() -> None:
    catalog = core(MemoryWarehouse("default", FLIGHTS, AIRLINES), MemoryWarehouse("crm", ORDERS))
    await catalog.load()
    assert [(t.name, t.datasource_id) for t in await catalog.tables()] == [
        ("crm.orders", "crm"),
        ("main.airlines", "default"),
        ("main.flights", "default"),
    ]


async def test_the_text_groups_by_datasource_the_primary_first() -> None:
    catalog = core(MemoryWarehouse("zoo", FLIGHTS), MemoryWarehouse("crm", ORDERS))
    text = await catalog.text(["flight"], 1_000)
    assert [line for line in text.splitlines() if line.startswith("datasource")] == [
        "datasource zoo | dialect duckdb | 1 tables",
        "datasource crm | dialect duckdb | 1 tables",
    ]


async def test_no_table_at_all_is_the_operators_concern() -> None:
    with pytest.raises(EmptyWarehouse, match="no table that can be read"):
        await core(MemoryWarehouse("default")).text([], 1_000)


async def test_tables_without_rows_are_fine() -> None:
    catalog = core(MemoryWarehouse("default", EMPTY))
    assert "main.weather | 1 columns | 0 rows" in await catalog.text([], 1_000)
    assert (await catalog.search("weather", 3))[0].table == "main.weather"


async def test_a_broken_secondary_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = MemoryWarehouse("crm", ORDERS, broken=["tables"])
    catalog = core(MemoryWarehouse("default", FLIGHTS), broken)
    with caplog.at_level(logging.WARNING):
        await catalog.load()
    assert [t.name for t in await catalog.tables()] == ["main.flights"]
    assert "datasource crm is left out" in caplog.text


async def test_a_broken_primary_is_raised() -> None:
    catalog = core(MemoryWarehouse("default", FLIGHTS, broken=["tables"]))
    with pytest.raises(WarehouseUnavailable, match="down"):
        await catalog.load()


async def test_lookup_gives_columns_and_trimmed_samples_once_a_table() -> None:
    warehouse = MemoryWarehouse("default", FLIGHTS, AIRLINES)
    catalog = core(warehouse)
    found = await catalog.lookup(["flights", "MAIN.FLIGHTS", "airlines", "fligths"])
    assert [t.name for t in found.tables] == ["main.flights", "main.airlines"]
    assert found.not_found == [{"table": "fligths", "near": ["main.flights"]}]
    assert len(found.tables[0].sample_rows) == 3
    assert all(len(v) == 80 for row in found.tables[0].sample_rows for v in row.values())
    await catalog.lookup(["flights"])
    assert warehouse.sampled == ["main.flights", "main.airlines"]
    assert all(not t.sample_rows for t in await catalog.tables())


async def test_one_table_that_cannot_be_sampled_does_not_lose_the_others() -> None:
    catalog = core(MemoryWarehouse("default", FLIGHTS, AIRLINES, broken=["main.flights"]))
    found = await catalog.lookup(["flights", "airlines"])
    assert [(t.name, len(t.sample_rows)) for t in found.tables] == [
        ("main.flights", 0),
        ("main.airlines", 3),
    ]


async def test_an_unknown_datasource_is_answered_with_the_known_ones() -> None:
    catalog = core(MemoryWarehouse("default", FLIGHTS), MemoryWarehouse("crm", ORDERS))
    with pytest.raises(ToolError, match="known: default, crm"):
        await catalog.lookup(["flights"], "nope")


async def test_a_table_of_another_datasource_is_answered_with_advice() -> None:
    catalog = core(MemoryWarehouse("default", FLIGHTS), MemoryWarehouse("crm", ORDERS))
    found = await catalog.lookup(["crm.orders"], "default")
    assert found.tables == []
    assert "is in datasource 'crm'" in found.not_found[0]["advice"]
    assert [t.name for t in (await catalog.lookup(["crm.orders"])).tables] == ["crm.orders"]


async def test_the_primary_wins_where_names_are_equal() -> None:
    theirs = table("main.flights", "other")
    catalog = core(MemoryWarehouse("default", FLIGHTS), MemoryWarehouse("crm", theirs))
    [found] = (await catalog.lookup(["main.flights"])).tables
    assert found.datasource_id == "default"
    [found] = (await catalog.lookup(["main.flights"], "crm")).tables
    assert found.datasource_id == "crm"


async def test_search_spans_all_datasources_best_first() -> None:
    catalog = core(MemoryWarehouse("default", FLIGHTS, AIRLINES), MemoryWarehouse("crm", ORDERS))
    hits = await catalog.search("revenue of a customer", 2)
    assert len(hits) == 2
    assert (hits[0].table, hits[0].datasource_id) == ("crm.orders", "crm")
    assert hits[0].column_count == 2
    assert hits[0].row_count == 1_000
    assert hits[0].score >= hits[1].score


async def test_keywords_add_two_hundredths_each_up_to_a_tenth_and_size_a_little() -> None:
    plain = table("s.aa", "x", rows=1)
    words = table("s.bb", "zeta", "eta", "theta", "iota", "kappa", "lambda", "sigma", rows=1)
    large = table("s.cc", "x", rows=1_000)
    catalog = core(MemoryWarehouse("default", plain, words, large))
    scores = {h.table: h.score for h in await catalog.search("zeta eta", 3)}
    assert scores["s.bb"] - scores["s.aa"] == pytest.approx(0.04)
    assert scores["s.cc"] - scores["s.aa"] == pytest.approx(0.15)
    scores = {
        h.table: h.score for h in await catalog.search("zeta eta theta iota kappa lambda sigma", 3)
    }
    assert scores["s.bb"] - scores["s.aa"] == pytest.approx(0.10)


@pytest.mark.parametrize(("text", "k"), [("", 5), ("  ", 5), ("x", 0), ("x", -1)])
async def test_an_empty_search_finds_nothing(text: str, k: int) -> None:
    assert await core(MemoryWarehouse("default", FLIGHTS)).search(text, k) == []


async def test_vectors_are_made_once_and_made_anew_after_a_load() -> None:
    embedder = CountingEmbedder()
    catalog = CatalogCore({"default": MemoryWarehouse("default", FLIGHTS, AIRLINES)}, embedder)
    await asyncio.gather(*(catalog.search("flight", 1) for _ in range(5)))
    lines = [text for text in embedder.asked if "Columns:" in text]
    assert len(lines) == 2
    await catalog.load()
    await catalog.search("flight", 1)
    assert len([text for text in embedder.asked if "Columns:" in text]) == 4


async def test_a_table_with_two_thousand_columns_works() -> None:
    wide = table("s.wide", *(f"column_{i}" for i in range(2_000)))
    catalog = core(MemoryWarehouse("default", wide))
    assert "s.wide | 2000 columns" in await catalog.text([], 1_000)
    [found] = (await catalog.lookup(["wide"])).tables
    assert len(found.columns) == 2_000
    assert len(found.sample_rows[0]) == 50
    assert len(described(wide)) < 1_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("main.customer_orders", ["main", "customer", "orders"]),
        ("customerOrderIDs2019", ["customer", "order", "i", "ds", "2019"]),
        ("HTTPServer", ["http", "server"]),
        ("größe_täglich", ["größe", "täglich"]),
        ("", []),
    ],
)
def test_names_are_split_into_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words
