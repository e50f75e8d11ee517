"""Whole discoveries by the offline analyst over odd schemas: real DuckDB, real loops, no Ray.

Each ends by itself, with a result that holds: no failure, and every finding rests on queries that
give the same rows again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from adapters.embeddings.hashing import HashingEmbedder
from adapters.llm.offline import OfflineAnalyst
from adapters.warehouses import OpenWarehouse, open_warehouse
from benchmarks.in_process import NoOffice
from pipeline.discovery import DiscoveryDeps, discover
from pipeline.errors import EmptyWarehouse
from pipeline.packs import load_pack, new_project
from pipeline.ports import SchemaStore
from pipeline.records import DiscoveryResult, DiscoveryRun, RunType, StepAction, WarehouseConfig
from pipeline.schema.cache import CatalogCore
from pipeline.schema.indexing import Indexer
from pipeline.settings import Settings, WarehouseSettings
from pipeline.sql.healing import Healer
from pipeline.sql.rows import rows_of
from pipeline.step_index import StepIndexCore
from pipeline.validation.agents import LocalAgents
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools
from tests.pipeline.schema.memory import Heard, MemorySchemas

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MAX_STEPS = 14

SCHEMAS: dict[str, list[str]] = {
    "one column": ["CREATE TABLE t AS SELECT range % 7 AS v FROM range(100)"],
    "one column of text": ["CREATE TABLE t AS SELECT 'k' || range % 7 AS v FROM range(100)"],
    "two thousand columns": [
        "CREATE TABLE wide AS SELECT "
        + ", ".join(f"range % {i + 2} AS c{i}" for i in range(2_000))
        + " FROM range(200)"
    ],
    "unicode names": [
        'CREATE SCHEMA "Größe x"',
        """CREATE TABLE "Größe x"."日本語 表" AS SELECT
        ['東京', '大阪', '京都'][1 + (range * range) % 3] AS "名前", range AS "数",
        DATE '2023-01-01' + (range % 300)::INT AS "日付" FROM range(300)""",
        'CREATE TABLE "😀" AS SELECT range % 5 AS "ключ", range * 1.5 AS "résumé" FROM range(200)',
    ],
    "reserved words": [
        """CREATE TABLE "select" AS SELECT ['a', 'b', 'c'][1 + range % 3] AS "from",
        range % 17 AS "where", DATE '2023-01-01' + (range % 90)::INT AS "order",
        range AS "group" FROM range(500)""",
        'CREATE SCHEMA "table"',
        'CREATE TABLE "table"."table" AS SELECT range AS "table", range % 4 AS "join" '
        "FROM range(300)",
    ],
    "the same names in two schemas": [
        "CREATE SCHEMA s1",
        "CREATE SCHEMA s2",
        "CREATE TABLE s1.orders AS SELECT range AS id, range % 5 AS g, 1.5 * range AS amount "
        "FROM range(300)",
        "CREATE TABLE s2.orders AS SELECT range AS id, range % 3 AS g, 2.5 * range AS amount "
        "FROM range(200)",
    ],
    "a view that is broken": [
        "CREATE TABLE t AS SELECT range AS id, range % 5 AS g, 1.5 * range AS v FROM range(300)",
        "CREATE VIEW sums AS SELECT g, sum(v) AS total FROM t GROUP BY g",
        "CREATE TABLE gone AS SELECT 1 AS a",
        "CREATE VIEW broken AS SELECT a FROM gone",
        "DROP TABLE gone",
    ],
    "tables without rows": ["CREATE TABLE t(a INT, b VARCHAR)", "CREATE TABLE u(x DATE)"],
    "three hundred tables": [
        f"CREATE TABLE t{i} AS SELECT range AS id, range % {i + 2} AS g FROM range({50 + i})"
        for i in range(300)
    ],
}


@asynccontextmanager
async def opened(path: Path, script: list[str]) -> AsyncGenerator[OpenWarehouse]:
    with duckdb.connect(str(path)) as connection:
        for statement in script:
            connection.execute(statement)
    warehouse = open_warehouse(WarehouseConfig(config={"path": str(path)}), WarehouseSettings())
    try:
        yield warehouse
    finally:
        await warehouse.close()


def dependencies(warehouse: OpenWarehouse, store: SchemaStore | None = None) -> DiscoveryDeps:
    model, settings, office = OfflineAnalyst(), Settings(), NoOffice()
    catalog = CatalogCore({"default": warehouse}, HashingEmbedder(), store)
    deps = DiscoveryDeps(
        settings=settings,
        model=model,
        warehouses={"default": warehouse},
        catalog=catalog,
        index=StepIndexCore(HashingEmbedder()),
        findings=office,
        journal=office,
        memory=office,
        archive=office,
        clock=lambda: NOW,
    )
    queries = {"default": Healer(model, warehouse, catalog)}
    rows = StepSnapshot(deps.steps, deps.results)
    tools = WarehouseTools(queries, rows, catalog, settings.validation)
    deps.agents = LocalAgents(model, tools, settings.validation)
    return deps


async def run(deps: DiscoveryDeps) -> DiscoveryResult:
    project = new_project("Odd", load_pack("general"), WarehouseConfig())
    planned = DiscoveryRun(id="run", project_id=project.id, started_at=NOW, max_steps=MAX_STEPS)
    return await discover(planned, project, deps)


@pytest.mark.parametrize("name", list(SCHEMAS))
async def test_a_run_over_an_odd_schema_ends_in_a_result_that_holds(
    tmp_path: Path, name: str
) -> None:
    async with opened(tmp_path / "odd.duckdb", SCHEMAS[name]) as warehouse:
        deps = dependencies(warehouse)
        result = await run(deps)
        assert (result.failure, result.run_type, result.summary.errors) == ("", RunType.FULL, [])
        queries = {s.step: s for s in deps.steps if s.action is StepAction.QUERY_DATA}
        answered = {number for number, step in queries.items() if step.succeeded}
        assert answered
        for number in answered:
            again = await warehouse.query(queries[number].query)
            assert rows_of(again.table) == rows_of(deps.results[number].table)
        assert all(set(insight.source_steps) <= answered for insight in result.insights)
        assert all(i.validation and i.validation.combined for i in result.insights)
        refs = {insight.id for insight in result.insights}
        assert all(set(r.related_insight_ids) <= refs for r in result.recommendations)
        if name == "tables without rows":
            assert result.insights == []
        if name == "a view that is broken":
            assert all("broken" in s.query for s in queries.values() if s.error)
        else:
            assert [step.error for step in queries.values() if step.error] == []


async def test_names_that_no_catalog_line_can_carry_end_in_an_honest_result(tmp_path: Path) -> None:
    """A reader of the catalog may not find the way back to such a table; nothing is made up."""
    script = [
        'CREATE TABLE "new\nline" AS SELECT range % 5 AS "x\ny", range AS v FROM range(300)',
        'CREATE TABLE "a | b" AS SELECT range % 4 AS "c""d", range AS v FROM range(200)',
    ]
    async with opened(tmp_path / "odd.duckdb", script) as warehouse:
        deps = dependencies(warehouse)
        result = await run(deps)
        lookups = [s for s in deps.steps if s.action is StepAction.LOOKUP_SCHEMA]
        assert [step.error for step in lookups if step.error] == []
        assert set(result.schemas) == {"main.new\nline", "main.a | b"}
        if result.failure:
            assert "no exploration query returned a result" in result.failure
            assert result.insights == []


async def test_a_run_over_an_empty_schema_ends_with_the_reason(tmp_path: Path) -> None:
    async with opened(tmp_path / "empty.duckdb", ["CREATE SCHEMA nothing"]) as warehouse:
        with pytest.raises(EmptyWarehouse, match="no table that can be read"):
            await run(dependencies(warehouse))


async def test_a_run_over_an_indexed_schema_finds_what_a_run_without_finds(tmp_path: Path) -> None:
    script = SCHEMAS["reserved words"]
    async with opened(tmp_path / "odd.duckdb", script) as warehouse:
        live = await run(dependencies(warehouse))
        store, embedder = MemorySchemas(), HashingEmbedder()
        await Indexer(warehouse, store, embedder, Heard()).index()
        indexed = await run(dependencies(warehouse, store))
        assert [i.description for i in indexed.insights] == [i.description for i in live.insights]
        assert live.insights
        assert len(store.runs) == 1, "the discovery read the index and wrote none"
