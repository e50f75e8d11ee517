"""Issue 4: "Shapes ``entities`` and ``cube``; a cube cannot anchor a run"."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline.anchoring import anchor_problem, check_filters, cube_reaching
from pipeline.errors import BadRequest, Conflict
from pipeline.packs import load_pack, new_project
from pipeline.planning import plan_run
from pipeline.ports import WarehouseInfo
from pipeline.records import Project, Shape, WarehouseConfig

TABLES = WarehouseConfig(id="shop")
MORE = WarehouseConfig(id="crm", provider="postgres")
DEMOTED = WarehouseConfig(id="old", anchors=False)
CUBE = WarehouseConfig(id="sales", provider="cube")
EAGER_CUBE = WarehouseConfig(id="sales", provider=" Cube ", anchors=True)


@pytest.mark.parametrize(
    ("source", "shape", "can_anchor"),
    [
        (TABLES, Shape.ENTITIES, True),
        (MORE, Shape.ENTITIES, True),
        (DEMOTED, Shape.ENTITIES, False),
        (CUBE, Shape.CUBE, False),
        (EAGER_CUBE, Shape.CUBE, False),  # an override may only demote
    ],
)
def test_the_shape_is_registered_for_the_provider(
    source: WarehouseConfig, shape: Shape, can_anchor: bool
) -> None:
    assert (source.shape, source.can_anchor) == (shape, can_anchor)
    info = WarehouseInfo(source.id, "duckdb", shape=source.shape, anchors=source.anchors)
    assert info.can_anchor == can_anchor


@pytest.mark.parametrize(
    ("sources", "primary", "problem"),
    [
        ([TABLES], "", ""),
        ([TABLES, CUBE], "shop", ""),
        ([CUBE, TABLES], "shop", ""),
        ([], "", ""),
        ([CUBE], "", "no datasource of the project can anchor a run: 'sales' is a cube; add a"),
        ([DEMOTED, CUBE], "", "'old' was set not to anchor a run; add a warehouse with tables"),
        ([CUBE, TABLES], "sales", "'sales' is a cube and cannot anchor a run; set primary_ware"),
        ([CUBE, TABLES, MORE], "", "set primary_warehouse_id to 'shop' or 'crm'"),
    ],
)
def test_a_project_needs_a_primary_that_anchors(
    sources: list[WarehouseConfig], primary: str, problem: str
) -> None:
    project = Project(id="p", name="P", warehouses=sources, primary_warehouse_id=primary)
    found = anchor_problem(project)
    assert problem in found
    assert bool(found) == bool(problem)


def test_it_is_refused_when_the_project_is_created() -> None:
    pack = load_pack("general")
    with pytest.raises(BadRequest, match="can anchor a run"):
        new_project("P", pack, [CUBE])
    with pytest.raises(BadRequest, match="'sales' is a cube and cannot anchor a run"):
        new_project("P", pack, [TABLES, CUBE], primary_warehouse_id="sales")
    with pytest.raises(BadRequest, match="'nope' is none of the project's warehouses"):
        new_project("P", pack, [TABLES, CUBE], primary_warehouse_id="nope")
    project = new_project("P", pack, [CUBE, DEMOTED, TABLES])
    assert project.primary_warehouse_id == "shop"
    assert [source.id for source in project.datasources()] == ["shop", "sales", "old"]


def test_it_is_refused_as_a_conflict_when_a_run_is_started() -> None:
    project = new_project("P", load_pack("general"), [TABLES, CUBE])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert plan_run(project, now=now).project_id == project.id
    project.primary_warehouse_id = "sales"
    with pytest.raises(Conflict, match="'sales' is a cube and cannot anchor a run"):
        plan_run(project, now=now)


def test_a_row_filter_on_a_cube_is_refused_outright() -> None:
    filtered = CUBE.model_copy(update={"filter_field": "tenant", "filter_value": "7"})
    with pytest.raises(BadRequest, match="'sales' is a cube and cannot carry a row filter"):
        check_filters([TABLES, filtered])
    with pytest.raises(BadRequest, match="cannot carry a row filter"):
        new_project("P", load_pack("general"), [TABLES, filtered])
    check_filters([TABLES.model_copy(update={"filter_field": "tenant"}), CUBE])


@pytest.mark.parametrize(
    ("shapes", "reaching"),
    [
        ([], False),
        ([Shape.ENTITIES], False),
        ([Shape.ENTITIES, Shape.ENTITIES], False),
        ([Shape.ENTITIES, Shape.CUBE], True),
    ],
)
def test_a_run_reaches_a_cube_by_the_registered_shapes(shapes: list[Shape], reaching: bool) -> None:
    infos = [WarehouseInfo(str(i), "", shape=shape) for i, shape in enumerate(shapes)]
    assert cube_reaching(infos) is reaching
