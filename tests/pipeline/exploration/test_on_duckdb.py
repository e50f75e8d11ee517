"""The loop over a real DuckDB file: guard, healing, row cap and odd schemas work together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline import prompting
from pipeline.exploration.loop import Budget
from pipeline.records import QualityKind, StepAction, WarehouseConfig
from pipeline.settings import WarehouseSettings
from pipeline.testing import ScriptedModel
from tests.pipeline.exploration.lab import Lab, MemoryCatalog, told

WIDE = ", ".join(f"{i} AS c{i}" for i in range(2_000))
SCRIPT = f"""
    CREATE TABLE flights AS SELECT i AS id, i % 7 AS delay, 'AA' AS carrier FROM range(500) r(i);
    CREATE TABLE nothing (only_one INTEGER);
    CREATE TABLE "Überflüge 航班" AS SELECT 1 AS "größe", 'x' AS "select";
    CREATE TABLE "order" AS SELECT 5 AS "group";
    CREATE TABLE wide AS SELECT {WIDE};
"""


@dataclass
class Bench:
    """A laboratory whose warehouse is a DuckDB file."""

    lab: Lab
    warehouse: OpenWarehouse


@pytest.fixture
async def bench(lab: Lab, tmp_path: Path) -> AsyncIterator[Bench]:
    path = tmp_path / "warehouse.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(SCRIPT)
    config = WarehouseConfig(config={"path": str(path)})
    warehouse = open_warehouse(config, WarehouseSettings(WAREHOUSE_MAX_ROWS=100))
    lab.catalog = MemoryCatalog(await warehouse.tables())
    yield Bench(lab, warehouse)
    await warehouse.close()


async def explore(bench: Bench, model: ScriptedModel) -> None:
    warehouses = {"default": bench.warehouse}
    found = await bench.lab.explore(model, Budget(max_steps=20), warehouses=warehouses)
    assert found.completed


async def test_guard_healing_and_caps_reach_the_model(bench: Bench) -> None:
    model = ScriptedModel(
        [
            {"query": "SELECT count(*) AS n FROM flights"},
            {"query": "DROP TABLE flights"},
            "```sql\nSELECT dely FROM flights\n```",
            "```sql\nSELECT delay, count(*) AS n FROM flights GROUP BY delay ORDER BY delay\n```",
            {"query": "SELECT * FROM flights"},
            {"done": True},
        ]
    )
    await explore(bench, model)
    first, healed, capped, _ = bench.lab.journal.steps
    assert first.query_result == [{"n": 500}]
    assert healed.fixed
    assert healed.fix_attempts == 2
    assert "delay" in (prompting.read_block(healed.fix_history[1].prompt_in, "schema") or "")
    assert len(healed.query_result) == 7
    assert [caveat.kind for caveat in capped.quality] == [QualityKind.TRUNCATED]
    payload = told(model.requests[-1])
    assert (payload["row_count"], len(payload["rows"])) == (100, 10)
    assert payload["caveats"][0]["kind"] == "truncated"


async def test_odd_schemas_are_explored(bench: Bench) -> None:
    model = ScriptedModel(
        [
            {"lookup_schema": [table.name for table in bench.lab.catalog.known]},
            {"query": "SELECT only_one FROM nothing"},
            {"query": 'SELECT "größe", "select" FROM "Überflüge 航班"'},
            {"query": 'SELECT "group" FROM "order"'},
            {"query": "SELECT * FROM wide"},
            {"done": True},
        ]
    )
    await explore(bench, model)
    lookup, empty, unicode, reserved, wide, _ = bench.lab.journal.steps
    assert lookup.action is StepAction.LOOKUP_SCHEMA
    assert not any(step.error for step in bench.lab.journal.steps)
    assert (empty.row_count, empty.query_result) == (0, [])
    assert unicode.query_result == [{"größe": 1, "select": "x"}]
    assert reserved.query_result == [{"group": 5}]
    assert len(wide.query_result[0]) == 2_000
    assert told(model.requests[5])["more_columns"] == 1_000
    assert len(model.requests[1].messages[-1].content) < 60_000
