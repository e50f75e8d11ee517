"""False figures are caught and true ones pass: a handful, in a small warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.warehouses import open_warehouse
from benchmarks.in_process import InProcess
from benchmarks.planted import figures, headline_only, judge_planted, plant, plants
from pipeline.records import Insight, WarehouseConfig
from pipeline.settings import WarehouseSettings
from tests.serve.cli.shop import build_warehouse


def insight(name: str, affected_count: int = 60) -> Insight:
    return Insight(
        id="i",
        ref="segments-1",
        analysis_area="segments",
        name=name,
        affected_count=affected_count,
    )


@pytest.mark.parametrize(
    ("how", "after"),
    [
        ("3 % more", "61.8 of 1,060 rows"),
        ("doubled", "120.0 of 1,060 rows"),
        ("off by one in the last digit", "60.1 of 1,060 rows"),
        ("a tenth less", "54.0 of 1,060 rows"),
        ("swapped with a neighbour", "1,060 of 1,060 rows"),
    ],
)
def test_one_figure_is_altered_and_keeps_its_form(how: str, after: str) -> None:
    planted = plant(insight("60.0 of 1,060 rows"), "name", how)
    assert planted
    assert planted.insight.name == after
    assert planted.insight.affected_count == 60


def test_dates_ordinals_and_names_are_no_figures() -> None:
    text = "In 2013-07 the 99th percentile of F9 is 1,301.5, or 12% of B6-7."
    assert [match[0] for match in figures(text)] == ["1,301.5", "12"]


def test_an_alteration_that_changes_nothing_is_not_planted() -> None:
    assert plant(insight("no figure"), "name", "doubled") is None
    assert plant(insight("0 rows"), "name", "doubled") is None
    assert plant(insight("a", affected_count=0), "affected_count", "doubled") is None
    assert plants([], 5) == []


async def test_planted_figures_are_rejected_and_true_ones_are_not(tmp_path: Path) -> None:
    path = build_warehouse(tmp_path / "shop.duckdb")
    warehouse = open_warehouse(WarehouseConfig(config={"path": str(path)}), WarehouseSettings())
    try:
        here = InProcess(warehouse)
        result = await here.explore(12)
        true = [*result.insights, *map(headline_only, result.insights)]
        caught = await judge_planted(true, plants(result.insights, 10), here.validator())
    finally:
        await warehouse.close()
    assert caught.true >= 6
    assert caught.wrongly_rejected == 0, caught.document()
    assert caught.planted == 10
    assert caught.rejected >= 9, caught.document()
