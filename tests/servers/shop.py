"""A shop in three datasources: two DuckDB files and a cube, behind the real adapters."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.records import WarehouseConfig
from pipeline.settings import WarehouseSettings
from tests.servers.cube_server import TOKEN, CubeServer, build_sales, cube_server

SHOP = """
    CREATE TABLE customers AS SELECT i AS id, 'c' || i AS name FROM range(1, 101) r(i);
    CREATE TABLE visits AS SELECT 'V' || i AS visit_key, i % 100 + 1 AS customer_id
        FROM range(20000) r(i);
    CREATE TABLE products AS SELECT i AS product_id FROM range(1, 51) r(i);
"""
CRM = """
    CREATE TABLE contacts AS SELECT (i * 2)::VARCHAR AS customer_no, 'p' || i AS product_id,
        'V' || (i * 7) AS visit_key FROM range(1, 51) r(i);
    CREATE TABLE sessions AS SELECT 'V' || i AS visit_key FROM range(19000, 40000) r(i);
"""
Warehouses = dict[str, OpenWarehouse]


@dataclass(frozen=True, slots=True)
class Shop:
    warehouses: Warehouses
    """``shop``, ``crm`` and the cube ``sales``, the first being the primary."""
    server: CubeServer
    configs: list[WarehouseConfig]


@asynccontextmanager
async def open_shop(folder: Path) -> AsyncGenerator[Shop]:
    """Build the files in a folder, start the server, and open all three."""
    for name, script in (("shop", SHOP), ("crm", CRM)):
        with duckdb.connect(str(folder / f"{name}.duckdb")) as connection:
            connection.execute(script)
    with cube_server(build_sales(folder / "sales.duckdb")) as server:
        access = {"url": server.url, "token": TOKEN}
        configs = [
            WarehouseConfig(id="shop", config={"path": str(folder / "shop.duckdb")}),
            WarehouseConfig(id="crm", config={"path": str(folder / "crm.duckdb")}),
            WarehouseConfig(id="sales", provider="cube", label="web sales", config=access),
        ]
        opened = {c.id: open_warehouse(c, WarehouseSettings()) for c in configs}
        yield Shop(opened, server, configs)
        for warehouse in opened.values():
            await warehouse.close()
