"""Large and odd schemas of DuckDB files, and when what is kept of one still holds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.warehouses import duckdb_catalog, fingerprints
from adapters.warehouses.duckdb import DuckDbWarehouse
from pipeline.records import WarehouseConfig
from pipeline.schema.fingerprint import same_configuration
from pipeline.sql.rows import rows_of
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


async def test_a_change_of_the_file_leaves_its_configuration_the_same(make_file: Maker) -> None:
    path = make_file("CREATE TABLE t(a INT)")
    before = await printed(path)
    await asyncio.to_thread(os.utime, path, (1, 1))
    assert same_configuration(before, await printed(path))
    assert not same_configuration(before, await printed(path, datasets=["other"]))


async def test_a_file_that_is_not_there_has_a_fingerprint_too(tmp_path: Path) -> None:
    missing = await printed(tmp_path / "missing.duckdb")
    assert [len(part) for part in missing.split(".")] == [64, 32]
    cube = WarehouseConfig(id="cube", provider="cube", config={"url": "http://host"})
    assert len((await fingerprints([cube]))["cube"]) == 64


async def test_parts_with_a_dot_are_quoted_so_that_two_tables_never_share_a_name(
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
    assert tables == {'"a.b".c': ["x"], 'a."b.c"': ["y"]}
    for name in ('a."b.c"', "a.b.c", '"a"."b.c"'):
        assert await warehouse.sample(name, 1) == [{"y": 2}]
    for name in ('"a.b".c', '"a.b"."c"'):
        assert await warehouse.sample(name, 1) == [{"x": 1}]
    for name in tables:
        assert (await warehouse.query(f"SELECT * FROM {name}")).row_count == 1


@pytest.mark.parametrize("file", ["shop.duckdb", "SHOP.db", "main.duckdb", "temp.duckdb"])
async def test_a_schema_may_have_the_name_that_duckdb_takes_from_the_files(
    make_file: Maker, opened: Opener, file: str
) -> None:
    path = make_file(
        "CREATE SCHEMA shop", "CREATE TABLE shop.orders AS SELECT 7 AS x", "CREATE TABLE t(a INT)"
    )
    warehouse = opened(path.rename(path.with_name(file)))
    assert [table.name for table in await warehouse.tables()] == ["main.t", "shop.orders"]
    assert await warehouse.sample("shop.orders", 1) == [{"x": 7}]
    for sql in ('SELECT x FROM "shop"."orders"', "SELECT shop.orders.x FROM shop.orders"):
        assert rows_of((await warehouse.query(sql)).table) == [{"x": 7}]
    assert (await warehouse.query("SELECT * FROM t")).row_count == 0
    assert isinstance(warehouse, DuckDbWarehouse)
    cursor = warehouse.cursor()
    for refused in (
        "CREATE TABLE shop.z(a INT)",
        "SELECT * FROM read_text('/etc/hostname')",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(refused)


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
