"""A whole discovery over a real DuckDB file, its real catalog, and a broken query on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import duckdb
import pytest

from adapters.embeddings.hashing import HashingEmbedder
from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.discovery import discover
from pipeline.errors import EmptyWarehouse
from pipeline.ports import ChatRequest
from pipeline.prompting import read_block
from pipeline.records import RunType, Status, StepAction, WarehouseConfig
from pipeline.schema.cache import CatalogCore
from pipeline.settings import WarehouseSettings
from pipeline.testing import Scripted
from tests.pipeline.discovery.conftest import ANSWERS, World, explore

FLIGHTS = """
    CREATE TABLE flights AS
    SELECT i % 12 + 1 AS month, ['UA', 'AA', 'B6'][i % 3 + 1] AS carrier,
           CASE WHEN i % 10 = 0 THEN NULL ELSE i % 12 * 1.5 END AS delay
    FROM range(600) r(i)
"""


async def opened(path: Path, script: str) -> OpenWarehouse:
    with duckdb.connect(str(path)) as connection:
        connection.execute(script)
    return open_warehouse(WarehouseConfig(config={"path": str(path)}), WarehouseSettings())


@pytest.fixture
async def warehouse(tmp_path: Path) -> AsyncIterator[OpenWarehouse]:
    opening = await opened(tmp_path / "flights.duckdb", FLIGHTS)
    yield opening
    await opening.close()


async def test_findings_are_judged_on_rows_of_the_warehouse(
    world: World, warehouse: OpenWarehouse
) -> None:
    world.renew(warehouse=warehouse, catalog=CatalogCore({"default": warehouse}, HashingEmbedder()))
    first = next(iter(ANSWERS))

    def misspell_the_first(request: ChatRequest) -> Scripted:
        reply = explore(request)
        if reply.get("query") == first:
            return reply | {"query": first.replace("delay", "dely")}
        return reply

    world.roles["explorer"] = misspell_the_first
    world.roles["sql_fixer"] = lambda _: f"```sql\n{first}\n```"
    result = await discover(world.run(), world.project, world.deps)

    assert (result.run_type, result.failure, result.summary.errors) == (RunType.FULL, "", [])
    assert result.schemas == {"main.flights": ["month", "carrier", "delay"]}
    queries = [s for s in world.desk.exploration if s.action is StepAction.QUERY_DATA]
    assert [(s.fixed, s.row_count) for s in queries] == [(True, 12), (False, 3), (False, 1)]
    for step in queries:
        again = await warehouse.query(step.query)
        assert again.row_count == step.row_count
    assert {i.validation.combined for i in result.insights if i.validation} == {Status.SUPPORTED}
    for insight in result.insights:
        assert insight.validation
        assert insight.validation.verifier
        [claim] = insight.validation.verifier.claim_verdicts
        assert claim.evidence.provenance
        assert claim.evidence.provenance.attested
    assert len(result.recommendations) == len(result.insights)
    catalog = read_block(world.requests("explorer")[0].system, "catalog") or ""
    assert "main.flights | 3 columns | 600 rows" in catalog


async def test_an_empty_warehouse_ends_the_run_with_the_reason(
    world: World, tmp_path: Path
) -> None:
    warehouse = await opened(tmp_path / "empty.duckdb", "SELECT 1")
    world.renew(warehouse=warehouse, catalog=CatalogCore({"default": warehouse}, HashingEmbedder()))
    with pytest.raises(EmptyWarehouse):
        await discover(world.run(), world.project, world.deps)
    await warehouse.close()


async def test_a_warehouse_with_empty_tables_only_is_explored_all_the_same(
    world: World, tmp_path: Path
) -> None:
    script = "CREATE TABLE flights (month INT, carrier VARCHAR, delay DOUBLE)"
    warehouse = await opened(tmp_path / "hollow.duckdb", script)
    world.renew(warehouse=warehouse, catalog=CatalogCore({"default": warehouse}, HashingEmbedder()))
    world.roles["analyst"] = lambda _: {"insights": []}
    result = await discover(world.run(), world.project, world.deps)
    assert (result.run_type, result.insights) == (RunType.FULL, [])
    assert result.summary.text.endswith("No finding was reported.")
    await warehouse.close()
