"""A Cube server over 1,200 orders, and datasources that read it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.records import WarehouseConfig
from pipeline.settings import WarehouseSettings
from tests.servers.cube_server import TOKEN, CubeServer, build_sales, cube_server

CubeOpener = Callable[..., OpenWarehouse]


@pytest.fixture(scope="session")
def sales_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sales(tmp_path_factory.mktemp("sales") / "sales.duckdb")


@pytest.fixture
def server(sales_file: Path) -> Iterator[CubeServer]:
    with cube_server(sales_file) as running:
        yield running


@pytest.fixture
async def open_cube(server: CubeServer) -> AsyncIterator[CubeOpener]:
    """Open the server as a datasource; its config, and settings by name."""
    opened: list[OpenWarehouse] = []

    def opener(
        config: dict[str, Any] | None = None, settings: dict[str, Any] | None = None, **more: Any
    ) -> OpenWarehouse:
        chosen = {"url": server.url, "token": TOKEN} | (config or {})
        source = WarehouseConfig(id="sales", provider="cube", config=chosen, **more)
        opened.append(open_warehouse(source, WarehouseSettings(**(settings or {}))))
        return opened[-1]

    yield opener
    for warehouse in opened:
        await warehouse.close()
