"""Small DuckDB files to ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.records import WarehouseConfig
from pipeline.settings import WarehouseSettings

Opener = Callable[..., OpenWarehouse]
Maker = Callable[..., Path]


@pytest.fixture
def make_file(tmp_path: Path) -> Maker:
    """Make a DuckDB file from statements."""

    def make(*statements: str, name: str = "small.duckdb") -> Path:
        path = tmp_path / name
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)
        return path

    return make


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Open a warehouse over a file; settings by name, configuration as keywords."""
    warehouses: list[OpenWarehouse] = []

    def open_file(
        path: Path, settings: dict[str, Any] | None = None, **config: Any
    ) -> OpenWarehouse:
        warehouse = open_warehouse(
            WarehouseConfig(config={"path": str(path)}, **config),
            WarehouseSettings(**(settings or {})),
        )
        warehouses.append(warehouse)
        return warehouse

    yield open_file
    for warehouse in warehouses:
        await warehouse.close()
