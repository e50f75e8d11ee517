"""A small real warehouse, a discovery of it in a real store, and the command line over both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
from typer.testing import CliRunner, Result

from adapters.store import connect
from adapters.store.store import Store
from adapters.warehouses import open_warehouse
from benchmarks.in_process import InProcess
from pipeline.packs import load_pack, new_project
from pipeline.records import DiscoveryResult, WarehouseConfig
from pipeline.settings import StoreSettings, WarehouseSettings
from pipeline.validation.phase import Budget, validate_insights
from serve.cli import main

T = TypeVar("T")

SALES = """
    CREATE TABLE sales AS
    SELECT i AS sale_id,
           ['north', 'south', 'east', 'west'][1 + CAST(floor(sqrt(i % 16)) AS INT)] AS region,
           CASE WHEN i % 10 = 0 THEN NULL ELSE i % 37 * 1.5 END AS amount,
           TIMESTAMP '2025-01-01' + INTERVAL 1 HOUR * (i * 3) AS sold_at
    FROM range(1944) r(i)
"""
"""One sale every three hours, for eight whole months."""


def build_warehouse(path: Path, script: str = SALES) -> Path:
    """A DuckDB file made by a script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(script)
    return path


def veridical(*words: object) -> Result:
    """Run a command line; stdout, stderr and the exit status are on the result."""
    return CliRunner().invoke(main, [str(word) for word in words])


@dataclass(frozen=True)
class Shop:
    """A home with one project and one judged discovery."""

    home: Path
    warehouse: Path
    project_id: str
    discovery_id: str

    def with_store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Look into, or change, what the store holds."""

        async def opened() -> T:
            async with await connect(StoreSettings(MONGODB_URI=""), self.home) as store:
                return await work(store)

        return asyncio.run(opened())

    def discovery(self) -> DiscoveryResult:
        return self.with_store(lambda store: store.discoveries.get(self.discovery_id))

    def keep(self, result: DiscoveryResult) -> None:
        self.with_store(lambda store: store.discoveries.save(result))


async def build_shop(folder: Path) -> Shop:
    """Explore the warehouse by the offline analyst, judge what it found, and store all of it."""
    path = build_warehouse(folder / "shop.duckdb")
    config = WarehouseConfig(config={"path": str(path)})
    warehouse = open_warehouse(config, WarehouseSettings())
    try:
        here = InProcess(warehouse)
        result = await here.explore(14)
        await validate_insights(result.insights, here.validator(), Budget(len(result.insights)))
    finally:
        await warehouse.close()
    project = new_project("Shop", load_pack("general"), config)
    result = result.model_copy(update={"project_id": project.id, "recommendations": []})
    home = folder / "home"
    async with await connect(StoreSettings(MONGODB_URI=""), home) as store:
        await store.projects.create(project)
        await store.discoveries.save(result)
        await store.exploration_steps.save(result, here.deps.steps)
    return Shop(home, path, project.id, result.id)
