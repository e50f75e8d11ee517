"""The catalog of a large warehouse: 5,000 tables, and one table of 2,000 columns.

    python -m benchmarks.schema [--tables 5000] [--columns 20] [--wide 2000]

A DuckDB file is built and read as a discovery reads it. Times are compared within the run: with a
tenth of the tables, and with a table of ordinary width. Vectors come from the hashing embedder, so
that what is measured is ours. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import psutil

from adapters.embeddings.hashing import HashingEmbedder
from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.records import Table, WarehouseConfig
from pipeline.schema.cache import CatalogCore
from pipeline.schema.catalog import render_catalog
from pipeline.settings import WarehouseSettings

T = TypeVar("T")
CATALOG_S = 1.0
NOUNS = ("orders", "customers", "visits", "payments", "shipments", "tickets", "items", "events")
TYPES = ("INTEGER", "VARCHAR", "DATE", "DOUBLE", "BIGINT")
REPEATS = 3


class CountingEmbedder(HashingEmbedder):
    """Counts the lines that it is given."""

    lines = 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """As the hashing embedder does."""
        self.lines += len(texts)
        return await super().embed(texts)


def build(path: Path, tables: int, columns: int, wide: int) -> None:
    """A file of so many tables without rows, and one wide table with a few."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE SCHEMA shop")
        for n in range(tables - 1):
            noun = NOUNS[n % len(NOUNS)]
            made = [f"{noun}_id INTEGER", "customer_id INTEGER"]
            made += [f"field_{i}_{n % 40} {TYPES[i % len(TYPES)]}" for i in range(columns - 2)]
            connection.execute(f"CREATE TABLE shop.{noun}_{n}({', '.join(made)})")
        numbers = ", ".join(f"range * {i} AS measure_{i}" for i in range(wide))
        connection.execute(f"CREATE TABLE shop.wide AS SELECT {numbers} FROM range(10)")
        connection.execute("COMMIT")


async def timed(work: Callable[[], Awaitable[T]]) -> tuple[float, T]:
    """Seconds, and what came of it."""
    started = time.perf_counter()
    result = await work()
    return time.perf_counter() - started, result


def quickest_s(work: Callable[[], object]) -> float:
    """The shortest of three runs."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def resident_mib() -> float:
    """The memory that this process holds."""
    return psutil.Process().memory_info().rss / 2**20


def rendered(warehouse: OpenWarehouse, tables: list[Table], part: int) -> dict[str, Any]:
    """Seconds for the catalog's text, whole and of a part of the tables."""
    info, few = warehouse.info, tables[: max(1, len(tables) // part)]
    keywords = ["orders", "revenue", "delay", "customer"]
    whole_s = quickest_s(lambda: render_catalog([(info, tables)], keywords))
    part_s = quickest_s(lambda: render_catalog([(info, few)], keywords))
    return {
        "seconds": round(whole_s, 3),
        "at_most": CATALOG_S,
        "tables": len(tables),
        "ratio_to_a_tenth": round(whole_s / part_s, 1),
    }


async def looked_up(catalog: CatalogCore, tables: list[Table], wide: str) -> dict[str, Any]:
    """Seconds for a lookup of ten tables, of an unknown name, and of a wide and a narrow table."""
    names = [table.name for table in tables if table.name != wide]
    spread = names[:: max(1, len(names) // 10)][:10]
    narrow = names[-1]
    ten_s, _ = await timed(lambda: catalog.lookup(spread))
    unknown_s, found = await timed(lambda: catalog.lookup(["shop.custmoers_17"]))
    wide_s, _ = await timed(lambda: catalog.lookup([wide]))
    narrow_s, _ = await timed(lambda: catalog.lookup([narrow]))
    return {
        "ten_tables_s": round(ten_s, 3),
        "unknown_name_s": round(unknown_s, 3),
        "near": found.not_found[0]["near"][:2],
        "wide_s": round(wide_s, 3),
        "ratio_wide_to_narrow": round(wide_s / narrow_s, 1),
    }


async def searched(catalog: CatalogCore, embedder: CountingEmbedder) -> dict[str, Any]:
    """Seconds until the first search has its answer and how many lines it waited for; then again
    when the vectors are there."""
    first_s, hits = await timed(lambda: catalog.search("payments of customers", 10))
    waited_for = embedder.lines
    again_s, _ = await timed(lambda: catalog.search("payments of customers", 10))
    return {
        "first_s": round(first_s, 3),
        "lines_waited_for": waited_for,
        "again_s": round(again_s, 3),
        "best": hits[0].table,
    }


async def measure(path: Path) -> dict[str, Any]:
    """All figures of one file."""
    config = WarehouseConfig(config={"path": str(path), "threads": 1})
    warehouse, embedder = open_warehouse(config, WarehouseSettings()), CountingEmbedder()
    try:
        await warehouse.ping()
        before = resident_mib()
        catalog = CatalogCore({config.id: warehouse}, embedder)
        load_s, _ = await timed(catalog.load)
        tables = await catalog.tables()
        grown = resident_mib() - before
        found: dict[str, Any] = {
            "tables": len(tables),
            "columns": sum(len(table.columns) for table in tables),
            "load_s": round(load_s, 3),
            "memory_mib": round(grown, 1),
            "memory_kib_per_table": round(grown * 1024 / len(tables), 1),
            "catalog": rendered(warehouse, tables, 10),
            "lookup": await looked_up(catalog, tables, "shop.wide"),
            "search": await searched(catalog, embedder),
        }
        await catalog.close()
        return found
    finally:
        await warehouse.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--wide", type=int, default=2_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.duckdb"
        with ProcessPoolExecutor(1) as other:  # what building takes is not to be measured
            other.submit(build, path, asked.tables, asked.columns, asked.wide).result()
        print(json.dumps(asyncio.run(measure(path)), indent=2))


if __name__ == "__main__":
    main()
