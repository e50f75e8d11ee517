"""The tools: their results, caps and errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline.errors import RunSuperseded, ToolError, WarehouseUnavailable
from pipeline.records import Column, Quality, QualityKind, SchemaLookup, Table
from pipeline.settings import ValidationSettings
from pipeline.validation.envelope import Envelope
from pipeline.validation.tools import ToolReply, Unhealed, WarehouseTools
from tests.pipeline.validation.world import (
    MemoryCatalog,
    World,
    result_of,
    step_of,
)


async def call(world: World, kind: str, body: Any) -> ToolReply:
    return await world.tools.call(Envelope(kind, body), world.bundle())


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"n": i} for i in range(count)]


async def test_lookup_schema_gives_columns_counts_and_samples(world: World) -> None:
    reply = await call(world, "lookup_schema", ["main.flights", "main.fleights"])
    assert reply.payload == {
        "tool": "lookup_schema",
        "tables": [
            {
                "table": "main.flights",
                "columns": [
                    {"name": "carrier", "type": "VARCHAR", "nullable": True},
                    {"name": "dep_delay", "type": "DOUBLE", "nullable": True},
                ],
                "row_count": 336776,
                "sample_rows": [{"carrier": "UA", "dep_delay": 2.0}],
            }
        ],
        "not_found": [{"table": "main.fleights", "near": ["main.flights"]}],
        "truncated": False,
    }
    assert not reply.rows, "a sample is no evidence"


async def test_lookup_schema_without_a_provider_is_a_tool_error(world: World) -> None:
    world.tools = WarehouseTools(world.tools.queries, world.tools.step_rows, None)
    with pytest.raises(ToolError, match="query_warehouse instead"):
        await call(world, "lookup_schema", ["main.flights"])


async def test_lookup_schema_is_capped_and_says_so(world: World) -> None:
    class Wide(MemoryCatalog):
        async def lookup(self, tables: Any, datasource_id: str = "") -> SchemaLookup:
            columns = [Column(name=f"c{i}", type="INT") for i in range(60)]
            rows = [{"c1": "x" * 100} for _ in range(9)]
            return SchemaLookup(tables=[Table(name="t", columns=columns, sample_rows=rows)])

    world.tools = WarehouseTools(world.tools.queries, world.tools.step_rows, Wide())
    (table,) = (await call(world, "lookup_schema", ["t"])).payload["tables"]
    assert len(table["columns"]) == 50
    assert [len(row["c1"]) for row in table["sample_rows"]] == [81, 81, 81]
    assert (await call(world, "lookup_schema", ["t"])).payload["truncated"] is True


async def test_query_warehouse_gives_rows_up_to_the_bundles_limit() -> None:
    world = World({"SELECT n": numbered(51), "SELECT m": numbered(50)})
    reply = await call(world, "query_warehouse", "SELECT n")
    assert list(reply.payload) == ["tool", "sql", "row_count", "rows", "truncated"]
    assert reply.payload["row_count"] == 51
    assert reply.payload["rows"] == numbered(50)
    assert reply.payload["truncated"] is True
    assert (await call(world, "query_warehouse", "SELECT m")).payload["truncated"] is False


async def test_query_warehouse_without_rows_is_an_answer() -> None:
    reply = await call(World({"SELECT none": []}), "query_warehouse", "SELECT none")
    assert (reply.payload["row_count"], reply.payload["rows"]) == (0, [])


async def test_a_failing_query_is_a_tool_error_with_the_warehouses_words(world: World) -> None:
    with pytest.raises(ToolError, match="query_warehouse failed: Catalog Error"):
        await call(world, "query_warehouse", "SELECT nothing")


@pytest.mark.parametrize("error", [WarehouseUnavailable("gone"), ToolError("gone")])
async def test_a_lost_warehouse_is_told_to_the_model(world: World, error: Exception) -> None:
    with pytest.raises(ToolError, match="gone"):
        await call(_failing(world, error), "query_warehouse", "SELECT 1")


async def test_a_lost_run_is_not_the_models_business(world: World) -> None:
    with pytest.raises(RunSuperseded):
        await call(_failing(world, RunSuperseded("cancelled")), "query_warehouse", "SELECT 1")


def _failing(world: World, error: Exception) -> World:
    class Failing:
        async def run(self, sql: str, *, step: int = 0) -> Any:
            raise error

    world.tools = WarehouseTools({"default": Failing()}, world.tools.step_rows)
    return world


async def test_a_query_goes_to_the_bundles_datasource(world: World) -> None:
    world.tools = WarehouseTools({"other": world.tools.queries["default"]}, world.tools.step_rows)
    with pytest.raises(ToolError, match="'default'"):
        await call(world, "query_warehouse", "SELECT 1")


PAGES: list[tuple[str, dict[str, Any], tuple[int, int | None], tuple[int, int, bool]]] = [
    # asked, (first n, last n), (offset, limit, truncated) of a step of 260 rows
    ("the default page", {}, (0, 49), (0, 50, True)),
    ("nulls", {"offset": None, "limit": None}, (0, 49), (0, 50, True)),
    ("a page", {"offset": 100, "limit": 20}, (100, 119), (100, 20, True)),
    ("the last page", {"offset": 250, "limit": 50}, (250, 259), (250, 50, False)),
    ("more than the limit", {"limit": 1000}, (0, 199), (0, 200, True)),
    ("a limit of zero", {"limit": 0}, (0, 49), (0, 50, True)),
    ("a negative limit", {"limit": -3}, (0, 49), (0, 50, True)),
    ("a negative offset", {"offset": -5, "limit": 5}, (0, 4), (0, 5, True)),
    ("whole floats", {"offset": 10.0, "limit": 2.0}, (10, 11), (10, 2, True)),
    ("out of range", {"offset": 260}, (0, None), (260, 50, True)),
    ("far out of range", {"offset": 10**12, "limit": 5}, (0, None), (10**12, 5, True)),
]


@pytest.mark.parametrize(
    ("asked", "span", "told"), [pytest.param(a, s, t, id=name) for name, a, s, t in PAGES]
)
async def test_read_step_rows_pages(
    world: World,
    asked: dict[str, Any],
    span: tuple[int, int | None],
    told: tuple[int, int, bool],
) -> None:
    world.add_step(numbered(260))
    payload = (await call(world, "read_step_rows", {"step_id": 2, **asked})).payload
    first, last = span
    assert payload["rows"] == ([] if last is None else [{"n": n} for n in range(first, last + 1)])
    assert (payload["offset"], payload["limit"], payload["truncated"]) == told
    assert (payload["total_rows"], payload["rows_retained"]) == (260, True)


async def test_an_unknown_step_is_a_tool_error_that_names_the_steps(world: World) -> None:
    with pytest.raises(ToolError, match="step 9 is no query step; steps with rows: 1"):
        await call(world, "read_step_rows", {"step_id": 9})


async def test_an_empty_step_is_complete(world: World) -> None:
    world.steps.append(step_of(2, []))
    payload = (await call(world, "read_step_rows", {"step_id": 2})).payload
    assert (payload["rows"], payload["truncated"]) == ([], False)


async def test_a_resumed_step_says_that_only_a_sample_survived(world: World) -> None:
    world.steps.append(step_of(2, numbered(50), row_count=400))
    inside = await call(world, "read_step_rows", {"step_id": 2})
    assert (len(inside.rows), inside.payload["truncated"]) == (50, True)
    assert inside.payload["rows_retained"] is True
    beyond = await call(world, "read_step_rows", {"step_id": 2, "offset": 50})
    assert (list(beyond.rows), beyond.payload["truncated"]) == ([], True)
    assert beyond.payload["rows_retained"] is False
    assert beyond.beyond_retained


async def test_long_cells_are_cut_for_the_prompt_and_kept_for_attestation(world: World) -> None:
    world.results[1] = result_of([{"text": "y" * 1_000_000}])
    reply = await call(world, "read_step_rows", {"step_id": 1})
    assert reply.payload["rows"] == [{"text": "y" * 200 + "…"}]
    assert len(reply.rows[0]["text"]) == 1_000_000


async def test_every_limit_comes_from_the_settings() -> None:
    settings = ValidationSettings(VALIDATION_BUNDLE_SAMPLE_ROWS=2, VALIDATION_MAX_READ_STEP_ROWS=3)
    world = World({"SELECT n": numbered(9)}, settings=settings)
    world.add_step(numbered(9))
    assert len((await call(world, "query_warehouse", "SELECT n")).rows) == 2
    assert len((await call(world, "read_step_rows", {"step_id": 2, "limit": 99})).rows) == 3


async def test_an_offset_beyond_all_numbers_is_out_of_range_and_can_be_stored(world: World) -> None:
    for offset in (10**30, 1e300):
        reply = await call(world, "read_step_rows", {"step_id": 1, "offset": offset})
        assert (reply.payload["rows"], reply.payload["truncated"]) == ([], True)
        assert reply.offset == reply.payload["offset"] == 2**63 - 1


async def test_names_and_types_of_any_length_are_cut(world: World) -> None:
    wide = Table(name="main.wide", columns=[Column(name="s", type="STRUCT(" + "a INT," * 999)])

    class Wide(MemoryCatalog):
        async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
            return SchemaLookup(tables=[wide], not_found=[{"table": n, "near": []} for n in tables])

    world.tools = replace(world.tools, catalog=Wide())
    reply = await call(world, "lookup_schema", ["x" * 10**6])
    assert len(json.dumps(reply.payload)) < 1_000
    assert reply.payload["tables"][0]["columns"][0]["type"].endswith("…")


async def test_a_result_that_the_warehouse_capped_is_truncated_whatever_was_read() -> None:
    class Capped(Unhealed):
        async def run(self, sql: str, *, step: int = 0) -> Any:
            caveat = Quality(kind=QualityKind.TRUNCATED, detail="stopped at 2 rows")
            ran = await super().run(sql, step=step)
            return replace(ran, result=replace(ran.result, caveats=(caveat,)))

    world = World({"SELECT n": numbered(2)})
    world.tools = replace(world.tools, queries={"default": Capped(world.warehouse)})
    reply = await call(world, "query_warehouse", "SELECT n")
    assert (reply.payload["row_count"], reply.payload["truncated"]) == (2, True)


async def test_a_page_beyond_the_last_row_is_truncated_and_one_up_to_it_is_not(
    world: World,
) -> None:
    snapshot = world.tools.step_rows
    last, beyond = await snapshot.read(1, 2, 2), await snapshot.read(1, 4, 2)
    assert (len(last.rows), last.truncated) == (2, False)
    assert (len(beyond.rows), beyond.truncated, beyond.rows_retained) == (0, True, True)
