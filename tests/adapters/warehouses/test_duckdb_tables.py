"""Tables of a DuckDB file, its tenants, and the files that cannot be opened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.errors import QueryFailed, UnsafeSql, WarehouseUnavailable
from pipeline.records import ColumnCategory, WarehouseConfig
from pipeline.settings import WarehouseSettings
from pipeline.sql.rows import rows_of
from tests.adapters.warehouses.conftest import Maker, Opener

# ---------------------------------------------------------------- tables


async def test_tables_have_columns_categories_and_counts(demo_file: Path, opened: Opener) -> None:
    tables = {t.name: t for t in await opened(demo_file).tables()}
    assert {name: t.row_count for name, t in tables.items()} == {
        "main.airlines": 16,
        "main.airports": 1458,
        "main.flights": 336_776,
        "main.planes": 3322,
        "main.weather": 26_115,
    }
    columns = {c.name: c for c in tables["main.airlines"].columns}
    assert columns["carrier"].category is ColumnCategory.PRIMARY_KEY
    assert not columns["carrier"].nullable
    flights = {c.name: c.category for c in tables["main.flights"].columns}
    assert flights["time_hour"] is ColumnCategory.TIME
    assert flights["dep_delay"] is ColumnCategory.METRIC
    assert flights["carrier"] is ColumnCategory.DIMENSION
    assert "New York" in tables["main.flights"].description


async def test_views_are_tables_and_system_schemas_are_not(
    make_file: Maker, opened: Opener
) -> None:
    path = make_file(
        "CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT 2",
        "CREATE VIEW v AS SELECT a FROM t WHERE a > 1",
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.orders(id INT)",
        'CREATE SCHEMA "Größe x"',
        'CREATE TABLE "Größe x"."sel""ect"("from" INT)',
    )
    tables = await opened(path).tables()
    assert [(t.name, t.row_count) for t in tables] == [
        ('Größe x.sel"ect', 0),
        ("main.t", 2),
        ("main.v", 1),
        ("shop.orders", 0),
    ]
    assert [t.name for t in await opened(path, datasets=["SHOP"]).tables()] == ["shop.orders"]


async def test_every_listed_table_can_be_sampled(make_file: Maker, opened: Opener) -> None:
    path = make_file(
        'CREATE SCHEMA "a b"',
        'CREATE TABLE "a b"."sel""ect"("from" INT, "x.y" VARCHAR)',
        'INSERT INTO "a b"."sel""ect" VALUES (1, \'v\'), (2, NULL)',
        'CREATE TABLE "data.csv"(a INT)',
        "CREATE VIEW w AS SELECT DATE '2024-01-01' AS d",
    )
    warehouse = opened(path)
    samples = {t.name: await warehouse.sample(t.name, 1) for t in await warehouse.tables()}
    assert samples == {
        'a b.sel"ect': [{"from": 1, "x.y": "v"}],
        'main."data.csv"': [],
        "main.w": [{"d": "2024-01-01"}],
    }
    with pytest.raises(QueryFailed, match="no table"):
        await warehouse.sample("main.nope", 1)


async def test_one_broken_view_does_not_lose_the_others(make_file: Maker, opened: Opener) -> None:
    path = make_file(
        "CREATE TABLE gone AS SELECT 1 AS a",
        "CREATE VIEW broken AS SELECT a FROM gone",
        "CREATE TABLE fine AS SELECT 1 AS a",
        "DROP TABLE gone",
    )
    tables = {t.name: t.row_count for t in await opened(path).tables()}
    assert tables["main.fine"] == 1
    assert tables.get("main.broken", -1) == -1


async def test_a_table_with_two_thousand_columns_and_one_with_one(
    make_file: Maker, opened: Opener
) -> None:
    wide = ", ".join(f"c{i} INT" for i in range(2_000))
    warehouse = opened(make_file(f"CREATE TABLE wide({wide})", "CREATE TABLE one(a INT)"))
    tables = {t.name: len(t.columns) for t in await warehouse.tables()}
    assert tables == {"main.wide": 2_000, "main.one": 1}
    assert (await warehouse.query("SELECT * FROM wide")).row_count == 0


async def test_an_empty_file_has_no_tables(make_file: Maker, opened: Opener) -> None:
    assert await opened(make_file("SELECT 1")).tables() == []


# ---------------------------------------------------------------- the tenant filter


TENANTS = (
    "CREATE TABLE orders(id INT, tenant VARCHAR, amount INT, note VARCHAR)",
    "INSERT INTO orders VALUES (1, 'a', 10, '7'), (2, 'b', 999, 'SECRET')",
    "CREATE TABLE geo AS SELECT 1 AS code",
    "CREATE TABLE secrets AS SELECT 'SECRET' AS x",
    "CREATE VIEW v AS SELECT * FROM orders",
)
FILTER = {"filter_field": "tenant", "filter_value": "a", "shared_tables": ["geo"]}


async def test_only_the_tenants_rows_are_read(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file(*TENANTS), **FILTER)
    result = await warehouse.query("SELECT id FROM orders WHERE tenant = 'b' OR TRUE")
    assert rows_of(result.table) == [{"id": 1}]
    assert "_tenant_row" in result.sql
    assert warehouse.info.filter_field == "tenant"
    assert (await warehouse.query("SELECT * FROM geo")).row_count == 1
    with pytest.raises(UnsafeSql, match="secrets has no column tenant"):
        await warehouse.query("SELECT * FROM secrets")


async def test_tables_samples_and_counts_are_the_tenants(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file(*TENANTS), **FILTER)
    assert {t.name: t.row_count for t in await warehouse.tables()} == {
        "main.geo": 1,
        "main.orders": 1,
        "main.v": 1,
    }
    assert [row["id"] for row in await warehouse.sample("main.orders", 5)] == [1]
    assert await warehouse.sample("main.geo", 5) == [{"code": 1}]
    with pytest.raises(QueryFailed):
        await warehouse.sample("main.secrets", 5)


async def outcome(warehouse: OpenWarehouse, sql: str) -> str:
    try:
        return str(rows_of((await warehouse.query(sql)).table))
    except QueryFailed as error:
        return str(error)


async def test_an_error_quotes_no_value_of_another_tenant(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file(*TENANTS), **FILTER)
    for sql in (
        "SELECT CAST(note AS INT) FROM orders",
        "SELECT * FROM orders WHERE CAST(note AS INT) > 0 OR amount > 1",
        "SELECT MAX(CAST(note AS INT)) FROM v",
    ):
        assert "SECRET" not in await outcome(warehouse, sql)


# ---------------------------------------------------------------- opening


async def unavailable(config: dict[str, Any], provider: str = "duckdb") -> str:
    with pytest.raises(WarehouseUnavailable) as refusal:
        await open_warehouse(
            WarehouseConfig(provider=provider, config=config), WarehouseSettings()
        ).ping()
    return str(refusal.value)


@pytest.fixture
def not_databases(tmp_path: Path) -> list[Path]:
    contents = (b"", b"short", b"this is not a database at all")
    paths = [tmp_path / f"{i}.duckdb" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "damaged.duckdb"
    path.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 5_000)
    return path


async def test_a_missing_file_is_told_and_never_created(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "such.duckdb"
    assert "there is no warehouse file" in await unavailable({"path": str(missing)})
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


async def test_a_folder_another_file_and_no_path_are_told(
    tmp_path: Path, not_databases: list[Path]
) -> None:
    assert "is a folder" in await unavailable({"path": str(tmp_path)})
    for path in not_databases:
        assert "is not a DuckDB file" in await unavailable({"path": str(path)})
    assert "names no file" in await unavailable({})
    assert "names no file" in await unavailable({"path": "  "})


async def test_a_provider_without_adapter_is_told_with_those_that_exist() -> None:
    assert "duckdb" in await unavailable({}, provider="oracle")


async def test_a_damaged_file_is_told_when_it_is_opened(damaged: Path, opened: Opener) -> None:
    with pytest.raises(WarehouseUnavailable, match="cannot be opened"):
        await opened(damaged).ping()


async def test_a_file_that_goes_away_after_opening_the_warehouse_is_told(
    make_file: Maker, opened: Opener
) -> None:
    path = make_file("SELECT 1")
    warehouse = opened(path)
    await asyncio.to_thread(path.unlink)
    with pytest.raises(WarehouseUnavailable, match="there is no warehouse file"):
        await warehouse.ping()


async def test_reading_leaves_no_file_behind(make_file: Maker, opened: Opener) -> None:
    path = make_file("CREATE TABLE t AS SELECT range AS a FROM range(100000)")
    before = await asyncio.to_thread(path.read_bytes)
    warehouse = opened(path)
    await warehouse.query("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n, a")
    await warehouse.close()
    assert await asyncio.to_thread(lambda: list(path.parent.iterdir())) == [path]
    assert await asyncio.to_thread(path.read_bytes) == before


async def test_two_warehouses_share_one_file(demo_file: Path, opened: Opener) -> None:
    first, second = opened(demo_file), opened(demo_file, id="second")
    await asyncio.gather(first.ping(), second.ping())
    await first.close()
    assert (await second.query("SELECT 1 AS a")).row_count == 1
