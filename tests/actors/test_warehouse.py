# pyright: reportUnknownMemberType=false
# Ray's functions are partly untyped.
"""The Warehouse actor: shared results, errors as themselves, loss reported and never re-run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.cluster import Cluster
from actors.warehouse import WarehouseClient, start_warehouse
from pipeline.errors import QueryFailed, UnsafeSql, WarehouseUnavailable
from pipeline.records import WarehouseConfig
from pipeline.settings import WarehouseSettings

pytestmark = pytest.mark.usefixtures("cluster")
SETTINGS = WarehouseSettings()
SLOW = "select count(*) from range(100000000000) as a(i) where i % 7 = 3"


async def opened(config: WarehouseConfig) -> WarehouseClient:
    return await start_warehouse(config, SETTINGS)


async def test_a_result_comes_with_its_table_and_a_handle_to_share(shop: WarehouseConfig) -> None:
    warehouse = await opened(shop)
    result = await warehouse.query("select count(*) as n, max(shop_id) as last from orders")
    assert result.table.to_pylist() == [{"n": 6000, "last": 3}]
    assert result.row_count == 1
    shared: Any = ray.get(result.handle)
    assert shared.equals(result.table)


async def test_a_large_result_is_mapped_and_not_copied(
    shop: WarehouseConfig, cluster: Cluster
) -> None:
    warehouse = await opened(shop)
    result = await warehouse.query("select * from orders")
    tables: list[Any] = [result.table, ray.get(result.handle), ray.get(result.handle)]
    assert len({t.column("id").chunk(0).buffers()[1].address for t in tables}) == 1


@pytest.mark.parametrize(
    ("sql", "kind"),
    [("drop table orders", UnsafeSql), ("select nope from orders", QueryFailed)],
)
async def test_an_error_arrives_as_itself(
    shop: WarehouseConfig, sql: str, kind: type[Exception]
) -> None:
    warehouse = await opened(shop)
    with pytest.raises(kind) as caught:
        await warehouse.query(sql)
    assert type(caught.value) is kind
    assert "Traceback" not in str(caught.value)


async def test_a_missing_file_is_told_to_the_operator(tmp_path: Path) -> None:
    missing = WarehouseConfig(config={"path": str(tmp_path / "none.duckdb")})
    with pytest.raises(WarehouseUnavailable, match=r"none\.duckdb"):
        await (await opened(missing)).tables()


async def test_a_query_in_flight_when_the_actor_dies_is_reported_and_not_run_again(
    shop: WarehouseConfig,
) -> None:
    warehouse = await opened(shop)
    running = asyncio.ensure_future(warehouse.query(SLOW))
    await asyncio.sleep(0)
    handle: Any = warehouse.handle
    await warehouse.tables()
    ray.kill(handle, no_restart=False)
    with pytest.raises(QueryFailed, match="under way"):
        await running


async def test_after_its_restart_the_actor_serves_again(shop: WarehouseConfig) -> None:
    warehouse = await opened(shop)
    handle: Any = warehouse.handle
    ray.kill(handle, no_restart=False)
    for _ in range(600):
        try:
            result = await warehouse.query("select 1 as one")
            break
        except QueryFailed:
            await asyncio.sleep(0.1)
    else:
        pytest.fail("the actor did not come back")
    assert result.table.to_pylist() == [{"one": 1}]


async def test_a_cancelled_query_is_stopped_in_the_warehouse(shop: WarehouseConfig) -> None:
    warehouse = await opened(shop)
    running = asyncio.ensure_future(warehouse.query(SLOW))
    await warehouse.tables()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    result = await asyncio.wait_for(warehouse.query("select 1 as one"), 30)
    assert result.row_count == 1
