"""Large and odd schemas of DuckDB files, and when what is kept of one still holds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from adapters.warehouses import duckdb_catalog, fingerprints
from pipeline.records import WarehouseConfig
from tests.adapters.warehouses.conftest import Maker, Opener


async def printed(path: Path, **fields: Any) -> str:
    config = WarehouseConfig(config={"path": str(path)}, **fields)
    return (await fingerprints([config]))["default"]


async def test_the_fingerprint_changes_when_the_file_does(make_file: Maker) -> None:
    path = make_file("CREATE TABLE t(a INT)")
    before = await printed(path)
    assert await printed(path) == before
    assert await printed(path, filter_field="tenant", filter_value="7") != before
    await asyncio.to_thread(os.utime, path, (1, 1))
    assert await printed(path) != before


async def test_a_file_that_is_not_there_has_a_fingerprint_too(tmp_path: Path) -> None:
    assert len(await printed(tmp_path / "missing.duckdb")) == 64
    cube = WarehouseConfig(id="cube", provider="cube", config={"url": "http://host"})
    assert len((await fingerprints([cube]))["cube"]) == 64


async def test_two_tables_whose_names_are_spelt_the_same_are_both_listed(
    make_file: Maker, opened: Opener
) -> None:
    warehouse = opened(
        make_file(
            'CREATE SCHEMA "a.b"',
            'CREATE TABLE "a.b".c AS SELECT 1 AS x',
            "CREATE SCHEMA a",
            'CREATE TABLE a."b.c" AS SELECT 2 AS y',
        )
    )
    tables = {t.name: [c.name for c in t.columns] for t in await warehouse.tables()}
    assert tables == {'"a.b"."c"': ["x"], "a.b.c": ["y"]}
    assert await warehouse.sample("a.b.c", 1) == [{"y": 2}]
    assert await warehouse.sample('"a.b"."c"', 1) == [{"x": 1}]


async def test_columns_that_return_in_many_tables_are_one_record(
    make_file: Maker, opened: Opener
) -> None:
    path = make_file(*(f"CREATE TABLE t{n}(id INT, name VARCHAR)" for n in range(20)))
    tables = await opened(path).tables()
    assert len({id(column) for table in tables for column in table.columns}) == 2


async def test_counting_rows_ends_with_its_time_and_the_rest_is_unknown(
    make_file: Maker, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_file("CREATE TABLE t AS SELECT 1 AS a", "CREATE VIEW v AS SELECT a FROM t")
    monkeypatch.setattr(duckdb_catalog, "COUNT_ALL_SECONDS", 0.0)
    counts = {t.name: t.row_count for t in await opened(path).tables()}
    assert counts == {"main.t": 1, "main.v": -1}
