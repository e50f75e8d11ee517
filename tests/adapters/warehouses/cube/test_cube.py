"""Issue 4, "A real cube datasource": the adapter against a server of the Cube REST protocol."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.warehouses.cube.api import api_root, shown
from pipeline.errors import QueryFailed, QueryTimeout, WarehouseUnavailable
from pipeline.records import ColumnCategory, QualityKind, Shape, TableKind
from pipeline.sql.rows import rows_of
from tests.adapters.warehouses.cube.conftest import CubeOpener
from tests.servers.cube_server import TOKEN, Answer, CubeServer

BY_STATUS = {"measures": ["orders.count", "orders.total"], "dimensions": ["orders.status"]}


def asked(**query: Any) -> str:
    return json.dumps(BY_STATUS | query)


# ---------------------------------------------------------------- what it is


async def test_it_is_a_cube_with_a_query_language_and_cannot_anchor(open_cube: CubeOpener) -> None:
    info = open_cube(label="Web shop").info
    assert (info.id, info.shape, info.label) == ("sales", Shape.CUBE, "Web shop")
    assert (info.dialect, info.query_language) == ("", "Cube JSON query")
    assert not info.can_anchor


async def test_cubes_and_views_are_catalogued_with_their_public_members(
    open_cube: CubeOpener,
) -> None:
    view, orders = await open_cube().tables()
    assert (view.name, view.kind, orders.name, orders.kind) == (
        "order_view",
        TableKind.VIEW,
        "orders",
        TableKind.CUBE,
    )
    assert orders.description == "Orders of the web shop"
    assert orders.row_count == -1
    members = {column.name: (column.type, column.category) for column in orders.columns}
    assert members["orders.total"] == ("number (sum)", ColumnCategory.METRIC)
    assert members["orders.id"] == ("number", ColumnCategory.PRIMARY_KEY)
    assert members["orders.customer_id"] == ("number", ColumnCategory.DIMENSION)
    assert members["orders.ordered_at"] == ("time", ColumnCategory.TIME)
    assert members["orders.large"] == ("segment", ColumnCategory.DIMENSION)
    assert "orders.secret" not in members


async def test_datasets_name_the_cubes_to_read(open_cube: CubeOpener) -> None:
    warehouse = open_cube(datasets=["Order_View"])
    assert [table.name for table in await warehouse.tables()] == ["order_view"]
    with pytest.raises(QueryFailed, match=r"there is no measure 'orders\.count'"):
        await warehouse.query(asked())


# ---------------------------------------------------------------- queries


async def test_results_have_the_types_of_the_data_model_exactly(
    open_cube: CubeOpener, sales_file: Path
) -> None:
    result = await open_cube().query(
        json.dumps(
            {
                "measures": ["orders.count", "orders.total", "orders.latest"],
                "dimensions": ["orders.paid", "orders.status"],
                "timeDimensions": [
                    {
                        "dimension": "orders.ordered_at",
                        "granularity": "month",
                        "dateRange": ["2024-01-01", "2024-01-31"],
                    }
                ],
                "filters": [{"member": "orders.status", "operator": "equals", "values": ["open"]}],
                "order": {"orders.count": "desc"},
            }
        )
    )
    names, types = result.table.schema.names, result.table.schema.types
    assert dict(zip(names, map(str, types), strict=True)) == {
        "orders.paid": "bool",
        "orders.status": "string",
        "orders.ordered_at.month": "timestamp[us]",
        "orders.count": "int64",
        "orders.total": "decimal128(6, 2)",
        "orders.latest": "timestamp[us]",
    }
    first, second = result.table.to_pylist()
    assert {first["orders.count"], second["orders.count"]} == {124}
    assert first["orders.ordered_at.month"] == datetime(2024, 1, 1)
    january = "status = 'open' AND ordered_at < TIMESTAMP '2024-02-01'"
    with duckdb.connect(str(sales_file), read_only=True) as connection:
        total = connection.execute(f"SELECT sum(amount) FROM sales WHERE {january}").fetchone()
    assert (first["orders.total"] + second["orders.total"],) == total
    assert result.row_count == 2
    assert result.caveats == ()


async def test_what_ran_is_what_is_shown_and_gives_the_same_rows_again(
    open_cube: CubeOpener,
) -> None:
    warehouse = open_cube()
    first = await warehouse.query(asked(limit=2, order=[["orders.total", "desc"]]))
    assert json.loads(first.sql) == BY_STATUS | {"limit": 2, "order": [["orders.total", "desc"]]}
    again = await warehouse.query(first.sql)
    assert rows_of(again.table) == rows_of(first.table)


async def test_a_query_that_still_runs_is_polled_for(
    open_cube: CubeOpener, server: CubeServer
) -> None:
    warehouse = open_cube()
    await warehouse.tables()
    server.waits(3)
    result = await warehouse.query(asked())
    assert result.row_count == 3
    assert len(server.loads) == 4
    assert all(load == server.loads[0] for load in server.loads)


async def test_a_query_that_runs_too_long_is_given_up(
    open_cube: CubeOpener, server: CubeServer
) -> None:
    warehouse = open_cube(settings={"WAREHOUSE_TIMEOUT": 0.3})
    await warehouse.tables()
    server.waits(1_000)
    with pytest.raises(QueryTimeout, match=r"longer than 0\.3 s") as caught:
        await warehouse.query(asked())
    assert json.loads(caught.value.sql) == BY_STATUS


async def test_a_cancelled_query_stops_polling(open_cube: CubeOpener, server: CubeServer) -> None:
    warehouse = open_cube()
    await warehouse.tables()
    server.play(Answer(hang=True))
    running = asyncio.create_task(warehouse.query(asked()))
    assert await asyncio.to_thread(server.hanging.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await warehouse.query(asked())).row_count == 3


async def test_a_dropped_connection_is_tried_once_more(
    open_cube: CubeOpener, server: CubeServer
) -> None:
    warehouse = open_cube()
    await warehouse.tables()
    server.play(Answer(drop=True))
    assert (await warehouse.query(asked())).row_count == 3
    server.play(Answer(drop=True), Answer(drop=True))
    with pytest.raises(WarehouseUnavailable, match="dropped the connection"):
        await warehouse.query(asked())


# ---------------------------------------------------------------- caps and caveats

BY_ID = {"measures": ["orders.count"], "dimensions": ["orders.id"]}


@pytest.mark.parametrize(
    ("query", "settings", "max_rows", "rows", "detail"),
    [
        (BY_STATUS, {}, None, 3, ""),
        (BY_STATUS | {"limit": 4}, {}, None, 3, ""),
        (BY_STATUS | {"limit": 3}, {}, None, 3, "asked for at most 3 rows"),
        (BY_ID, {"WAREHOUSE_MAX_ROWS": 100}, None, 100, "WAREHOUSE_MAX_ROWS"),
        (BY_ID | {"limit": 100}, {"WAREHOUSE_MAX_ROWS": 100}, None, 100, "asked for at most 100"),
        (BY_ID | {"limit": 90_000}, {}, None, 1_200, ""),
        (BY_ID, {}, 7, 7, "more rows exist"),
        (BY_ID, {}, 1_200, 1_200, ""),
        (BY_ID, {"WAREHOUSE_MAX_BYTES": 5_000}, None, None, "WAREHOUSE_MAX_BYTES"),
    ],
)
async def test_results_are_capped_and_say_so(
    open_cube: CubeOpener,
    query: dict[str, Any],
    settings: dict[str, Any],
    max_rows: int | None,
    rows: int | None,
    detail: str,
) -> None:
    if "WAREHOUSE_MAX_BYTES" in settings:
        query = query | {"limit": 400}
    result = await open_cube(settings=settings).query(json.dumps(query), max_rows=max_rows)
    assert rows is None or result.row_count == rows
    assert result.row_count == result.table.num_rows
    assert [c.kind for c in result.caveats] == ([QualityKind.TRUNCATED] if detail else [])
    assert all(detail in caveat.detail for caveat in result.caveats)


async def test_an_answer_beyond_all_measure_is_refused(open_cube: CubeOpener) -> None:
    warehouse = open_cube(settings={"WAREHOUSE_MAX_BYTES": 4_000})
    with pytest.raises(QueryFailed, match="larger than 16000 bytes"):
        await warehouse.query(json.dumps(BY_ID))


async def test_a_limit_of_the_server_is_told_to_the_model(
    open_cube: CubeOpener, server: CubeServer
) -> None:
    server.highest_limit = 50
    warehouse = open_cube()
    with pytest.raises(QueryFailed, match=r'limit has been exceeded: .*write a smaller "limit"'):
        await warehouse.query(json.dumps(BY_ID))
    assert (await warehouse.query(json.dumps(BY_ID | {"limit": 20}))).row_count == 20


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(400, {"error": "Error: Can't find join path"}), "Can't find join path"),
        (Answer(500, {"error": "Error: division by zero"}), "division by zero"),
        (Answer(200, {"error": "Query was cancelled"}), "Query was cancelled"),
    ],
)
async def test_an_error_of_a_query_is_told_to_the_model(
    open_cube: CubeOpener, server: CubeServer, answer: Answer, reason: str
) -> None:
    warehouse = open_cube()
    await warehouse.tables()
    server.play(answer)
    with pytest.raises(QueryFailed, match=reason) as caught:
        await warehouse.query(asked())
    assert json.loads(caught.value.sql) == BY_STATUS


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(502, raw="bad gateway"), "cannot answer now"),
        (Answer(429, {"error": "slow down"}), "try again later"),
        (Answer(200, raw="<html>"), "is not a Cube API"),
        (Answer(200, {"rows": []}), "is not a Cube API"),
        (Answer(302, raw=""), "is not a Cube API"),
        (Answer(403, {"error": "Token expired"}), "refuses the token .Token expired"),
    ],
)
async def test_an_answer_that_no_query_can_mend_is_told_to_the_operator(
    open_cube: CubeOpener, server: CubeServer, answer: Answer, reason: str
) -> None:
    warehouse = open_cube()
    await warehouse.tables()
    server.play(answer)
    with pytest.raises(WarehouseUnavailable, match=reason):
        await warehouse.query(asked())


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"token": "wrong"}, "refuses the token .Invalid token"),
        ({"token": ""}, "refuses the token .Authorization header isn't set"),
        ({"url": "http://127.0.0.1:9"}, "refused the connection; start it"),
        ({"url": "http://no-such-host.invalid"}, "unknown host name|cannot be reached"),
    ],
)
async def test_a_datasource_that_cannot_be_reached_says_what_to_do(
    open_cube: CubeOpener, config: dict[str, Any], reason: str
) -> None:
    with pytest.raises(WarehouseUnavailable, match=reason):
        await open_cube(config).ping()


async def test_a_server_that_is_not_cube_is_named_as_such(
    open_cube: CubeOpener, server: CubeServer
) -> None:
    with pytest.raises(WarehouseUnavailable, match=r"HTTP 404.* is not a Cube API"):
        await open_cube({"url": f"{server.url}/elsewhere"}).tables()
    server.play(Answer(500, {"error": "Compile errors: orders.js"}))
    with pytest.raises(WarehouseUnavailable, match=r"cannot give its data model .Compile errors"):
        await open_cube().tables()


async def test_the_token_is_in_no_error(open_cube: CubeOpener) -> None:
    with pytest.raises(WarehouseUnavailable) as caught:
        await open_cube({"token": "s3cret", "url": "http://me:s3cret@127.0.0.1:9"}).ping()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "more", "reason"),
    [
        ({"url": " "}, {}, "names no Cube deployment"),
        ({"url": "127.0.0.1:4000"}, {}, "is no web address"),
        ({"url": "http://["}, {}, "is no web address"),
        ({"url": "file:///etc/passwd"}, {}, "is no web address"),
        ({}, {"filter_field": "tenant", "filter_value": "7"}, "cannot carry the row filter"),
    ],
)
def test_a_cube_that_cannot_work_is_refused_outright(
    open_cube: CubeOpener, config: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(WarehouseUnavailable, match=reason):
        open_cube(config, **more)


async def test_the_token_may_come_from_the_environment(
    open_cube: CubeOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"token": "", "token_env": "SALES_TOKEN"}
    with pytest.raises(WarehouseUnavailable, match="variable SALES_TOKEN, which is not set"):
        open_cube(named)
    monkeypatch.setenv("SALES_TOKEN", TOKEN)
    assert (await open_cube(named).query(asked())).row_count == 3


async def test_rows_are_ordered_by_period(open_cube: CubeOpener) -> None:
    by_month = {
        "measures": ["orders.count"],
        "timeDimensions": [{"dimension": "orders.ordered_at", "granularity": "month"}],
        "order": {"orders.ordered_at": "desc"},
        "limit": 1,
    }
    text = f"```json\n{json.dumps(by_month)}\n```"
    result = await open_cube().query(text)
    assert result.table.column(0).to_pylist() == [datetime(2024, 2, 1)]


async def test_a_closed_datasource_says_so(open_cube: CubeOpener) -> None:
    warehouse = open_cube()
    await warehouse.ping()
    await warehouse.close()
    await warehouse.close()
    with pytest.raises(WarehouseUnavailable, match="was closed"):
        await warehouse.query(asked())


async def test_only_meta_and_load_are_ever_called(
    open_cube: CubeOpener, server: CubeServer
) -> None:
    warehouse = open_cube()
    await warehouse.query(asked())
    assert await warehouse.sample("orders", 3) == []
    assert set(server.requests) == {("GET", "/cubejs-api/v1/meta"), ("POST", "/cubejs-api/v1/load")}


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://host:4000", "http://host:4000/cubejs-api/v1"),
        ("http://host:4000/", "http://host:4000/cubejs-api/v1"),
        ("https://host/cubejs-api", "https://host/cubejs-api/v1"),
        ("https://host/cubejs-api/v1/", "https://host/cubejs-api/v1"),
        ("https://host/custom", "https://host/custom/v1"),
    ],
)
def test_the_address_of_the_api_is_found(url: str, root: str) -> None:
    assert api_root(url) == root
    assert shown(root.replace("//", "//user:secret@")) == root
