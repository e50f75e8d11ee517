"""The offline explorer on several datasources: none is left out for another one's size."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adapters.embeddings.hashing import HashingEmbedder
from adapters.llm.offline import OfflineAnalyst
from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.exploration.loop import Budget, explore
from pipeline.exploration.prompts import system_prompt
from pipeline.prompting import text_block
from pipeline.records import ExplorationStep, StepAction, WarehouseConfig
from pipeline.schema.cache import CatalogCore
from pipeline.settings import ExplorationSettings, WarehouseSettings
from tests.adapters.llm.offline.conftest import NOW, Desk, built

TABLES = {
    "zoo": ["CREATE TABLE animals AS SELECT i AS id, 'k' || i % 3 AS kind FROM range(60) r(i)"],
    "clicks": [
        f"""CREATE TABLE clicks_{n} AS SELECT i AS id, i % 7 AS page, i * 0.5 AS seconds
        FROM range({40_000 + n}) r(i)"""
        for n in range(12)
    ],
    "a_log": ["CREATE TABLE lines AS SELECT i AS id, i % 2 AS level FROM range(9000) r(i)"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("several")
    return {name: built(folder / f"{name}.duckdb", *script) for name, script in TABLES.items()}


@pytest.fixture
async def warehouses(files: dict[str, Path]) -> AsyncGenerator[dict[str, OpenWarehouse]]:
    async with AsyncExitStack() as stack:
        opened: dict[str, OpenWarehouse] = {}
        for name, path in files.items():
            config = WarehouseConfig(id=name, config={"path": str(path)})
            opened[name] = open_warehouse(config, WarehouseSettings())
            stack.push_async_callback(opened[name].close)
        yield opened


async def explored(warehouses: dict[str, OpenWarehouse], steps: int) -> list[ExplorationStep]:
    catalog = CatalogCore(warehouses, HashingEmbedder())
    await catalog.load()
    text = text_block("catalog", await catalog.text([], 100_000))
    found = await explore(
        model=OfflineAnalyst(),
        warehouses=warehouses,
        catalog=catalog,
        index=None,
        journal=Desk(),
        system=system_prompt("", text),
        budget=Budget(max_steps=steps),
        settings=ExplorationSettings(),
        clock=lambda: NOW,
    )
    return found.steps


@pytest.mark.parametrize("steps", [8, 20])
async def test_the_datasources_take_turns_the_primary_first(
    warehouses: dict[str, OpenWarehouse], steps: int
) -> None:
    found = await explored(warehouses, steps)
    lookups = [s.warehouse_id for s in found if s.action is StepAction.LOOKUP_SCHEMA]
    queries = [s.warehouse_id for s in found if s.action is StepAction.QUERY_DATA]
    assert lookups[:3] == ["zoo", "clicks", "a_log"], "each is looked up before the questions start"
    assert all(step.succeeded for step in found if step.action is StepAction.QUERY_DATA)
    assert queries[:3] == ["zoo", "clicks", "a_log"]
    asked = [queries.count(name) for name in warehouses]
    assert max(asked) - min(asked) <= 1 + (steps > 10), asked


async def test_with_few_steps_the_primary_is_asked(warehouses: dict[str, OpenWarehouse]) -> None:
    found = await explored(warehouses, 4)
    assert [s.warehouse_id for s in found if s.action is StepAction.QUERY_DATA] == ["zoo", "zoo"]
