"""``veridical schema`` over a real store and a real warehouse: what it reads, keeps and shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

from adapters.store import embedded
from adapters.warehouses import fingerprints, open_warehouse
from pipeline.correlations.known import KnownPairs, know_pairs
from pipeline.records import LlmConfig, Project, WarehouseConfig
from pipeline.settings import Settings, WarehouseSettings
from serve.cli import main, outside

SCRIPT = """
    CREATE TABLE orders AS SELECT i AS id, i % 3 AS shop_id, DATE '2024-01-01' + i::INT AS day,
        i * 1.5 AS amount FROM range(90) r(i);
    CREATE SCHEMA crm;
    CREATE TABLE crm.orders("select" VARCHAR);
    CREATE TABLE gone AS SELECT 1 AS a;
    CREATE VIEW broken AS SELECT a FROM gone;
    DROP TABLE gone;
"""


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    home = tmp_path_factory.mktemp("schema-home")
    lease = embedded.acquire(home)
    try:
        yield home
    finally:
        lease.release()
        assert embedded.settled(home, timeout=60)


@pytest.fixture
def shop(
    shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any
) -> Project:
    """A project of its own in the shared home, named after the test."""
    monkeypatch.setenv("VERIDICAL_HOME", str(shared_home))
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SCRIPT)
    project = Project(
        id=request.node.name,
        name=request.node.name,
        warehouses=[WarehouseConfig(config={"path": str(path)})],
        embedding=LlmConfig(provider="hashing"),
    )

    async def create() -> Project:
        async with outside.open_store(Settings.load()) as store:
            return await store.projects.create(project)

    return asyncio.run(create())


def schema(*words: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, ["schema", *words], env={"COLUMNS": "200"})
    assert result.exit_code == status, result.output
    return result


def document(*words: str) -> dict[str, Any]:
    return json.loads(schema(*words, "--json").stdout)


def test_indexing_tells_n_of_m_tables_and_the_ones_that_failed(shop: Project) -> None:
    text = schema("index", shop.id).stdout
    assert "Reading the tables of default: 0 of 3" in text
    assert "3 of 3" in text
    assert "default: 3 tables in" in text
    assert "1 could not be read" in text
    assert "main.broken: Catalog Error: Table with name gone does not exist!" in text


def test_what_was_indexed_is_shown(shop: Project) -> None:
    schema("index", shop.id)
    text = schema("show", shop.id).stdout
    assert "90 rows, day from 2024-01-01 to 2024-03-30" in " ".join(text.split())
    assert "cannot be read: Catalog Error" in text
    assert "by index" in text
    shown = document("show", shop.id)
    assert [table["name"] for table in shown["tables"]] == [
        "crm.orders",
        "main.broken",
        "main.orders",
    ]
    assert shown["not_indexed"] == {}
    assert shown["progress"]["phase"] == "done"
    short = schema("show", shop.id, "--limit", "1").stdout
    assert "2 more; --limit shows more of them." in short


def test_one_table_is_shown_in_full(shop: Project) -> None:
    schema("index", shop.id)
    text = schema("show", shop.id, "main.orders").stdout
    assert '{"id": 0, "shop_id": 0, "day": "2024-01-01", "amount": 0.0}' in text
    assert "primary_key" in text
    table = document("show", shop.id, "MAIN.ORDERS")["table"]
    assert len(table["sample_rows"]) == 5
    assert table["time_span"] == {"column": "day", "first": "2024-01-01", "last": "2024-03-30"}


def test_an_unclear_or_unknown_table_is_answered_with_near_names(shop: Project) -> None:
    schema("index", shop.id)
    result = schema("show", shop.id, "orders", status=2)
    assert "there is crm.orders, main.orders" in result.stderr
    assert "no table 'zzz'" in schema("show", shop.id, "zzz", status=2).stderr


def test_a_project_that_was_not_indexed_says_how(shop: Project) -> None:
    assert f'veridical schema index "{shop.id}"' in schema("show", shop.id).stdout
    assert "nothing was read yet" in schema("show", shop.id, "orders", status=2).stderr


def test_the_second_time_nothing_is_read_again_unless_the_cache_is_skipped(shop: Project) -> None:
    first, second, third = (
        document("index", shop.id, *extra)["datasources"][0]
        for extra in ((), (), ("--skip-cache",))
    )
    assert (first["reused"], second["reused"], third["reused"]) == (0, 2, 0)
    assert first["table_count"] == second["table_count"] == third["table_count"] == 3
    assert list(third["failed"]) == ["main.broken"]


def test_a_file_that_has_changed_since_is_said_and_read_anew(shop: Project) -> None:
    schema("index", shop.id)
    with duckdb.connect(shop.warehouses[0].config["path"]) as connection:
        connection.execute("CREATE TABLE added(a INT)")
        connection.execute("DROP VIEW broken")
        connection.execute("ALTER TABLE crm.orders ADD COLUMN late INT")
    assert "the datasource has changed since" in schema("show", shop.id).stdout
    again = document("index", shop.id)["datasources"][0]
    assert (again["table_count"], again["reused"], again["failed"]) == (3, 1, {})
    shown = document("show", shop.id)["tables"]
    assert {table["name"]: len(table["columns"]) for table in shown} == {
        "crm.orders": 2,
        "main.added": 1,
        "main.orders": 4,
    }


def test_descriptions_need_a_language_model(shop: Project) -> None:
    result = schema("index", shop.id, "--describe", status=2)
    assert "no language model is set up" in result.stderr


def test_a_warehouse_that_is_gone_is_told(shop: Project) -> None:
    Path(shop.warehouses[0].config["path"]).unlink()
    assert "there is no warehouse file" in schema("index", shop.id, status=3).stderr


# ---------------------------------------------------------------- keys between datasources


def test_indexing_measures_the_keys_between_datasources(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4: "confirmed by measuring value overlap during schema indexing, in process at run
    time": a run asks no datasource again for what indexing has measured."""
    crm = tmp_path / "crm.duckdb"
    with duckdb.connect(str(crm)) as connection:
        connection.execute("CREATE TABLE shops AS SELECT i AS shop_id FROM range(3) r(i)")
        connection.execute("CREATE TABLE deals AS SELECT i + 500 AS order_id FROM range(9) r(i)")

    async def of_run() -> KnownPairs:
        async with outside.open_store(Settings.load()) as store:
            sources = [*shop.warehouses, WarehouseConfig(id="crm", config={"path": str(crm)})]
            await store.projects.replace(shop.model_copy(update={"warehouses": sources}))
            prints = await fingerprints(sources)
            schemas = store.schemas.of_project(shop.id, prints)
            tables = [t for source in sources for t in await schemas.load(source.id) or ()]
            closed = {c.id: open_warehouse(c, WarehouseSettings()) for c in sources}
            for warehouse in closed.values():
                await warehouse.close()
            pairs = store.key_pairs.of_project(shop.id, prints)
            return await know_pairs([], tables, closed, store=pairs)

    assert asyncio.run(of_run()).pairs == ()
    text = schema("index", shop.id).stdout
    assert "Comparing the keys of the datasources" in text
    assert "keys: 1 confirmed, 1 rejected, 0 unknown" in text
    assert "confirmed: default: main.orders.shop_id and crm: main.shops.shop_id" in text
    statuses = {pair["right"]: pair["status"] for pair in document("index", shop.id)["key_pairs"]}
    assert statuses == {
        "crm: main.shops.shop_id": "confirmed",
        "crm: main.deals.order_id": "rejected",
    }
    known = asyncio.run(of_run())
    assert {pair.status.value for pair in known.pairs} == {"confirmed", "rejected"}
    assert known.prohibitions()[0].startswith(
        "default: main.orders.id and crm: main.deals.order_id"
    )
    assert document("show", shop.id)["progress"]["phase"] == "done"
