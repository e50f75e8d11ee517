"""The benchmarks of schema and guard measure what they say they do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.guard import AT_MOST_MS, known_columns, measure
from benchmarks.schema import CATALOG_S, build
from benchmarks.schema import measure as measure_schema
from pipeline.sql.guard import DIALECTS


async def test_a_catalog_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "large.duckdb"
    await asyncio.to_thread(build, path, 300, 6, 200)
    found = await measure_schema(path)
    assert found["tables"] == 300
    assert found["columns"] == 299 * 6 + 200
    assert found["catalog"]["seconds"] < CATALOG_S
    assert found["lookup"]["near"]
    assert found["search"]["best"]
    assert found["search"]["lines_waited_for"] <= 300


@pytest.mark.parametrize("dialect", DIALECTS)
def test_guard_and_filter_take_less_than_four_milliseconds_in_the_median(dialect: str) -> None:
    found = measure(dialect, known_columns(1_000), repeats=5)
    assert 0 < found["guard"]["median_ms"] < AT_MOST_MS
    assert found["guard_and_filter"]["median_ms"] < AT_MOST_MS
