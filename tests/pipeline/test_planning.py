"""What a run may be started with."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.errors import BadRequest, Conflict
from pipeline.planning import plan_run
from pipeline.records import AreaConfig, Project, ProjectPrompts, RunStatus, WarehouseConfig

NOW = datetime(2026, 11, 30, tzinfo=UTC)
AREAS = {
    "trends": AreaConfig(name="Trends"),
    "segments": AreaConfig(name="Segments"),
    "old": AreaConfig(name="Old", enabled=False),
}


def project(**fields: Any) -> Project:
    made = Project(
        id="p",
        name="shop",
        prompts=ProjectPrompts(analysis_areas=AREAS),
        warehouses=[WarehouseConfig(config={"path": "shop.duckdb"})],
    )
    return made.model_copy(update=fields)


@pytest.mark.parametrize(
    ("asked", "steps", "floor"),
    [
        ({}, 100, 60),
        ({"max_steps": 7}, 7, 4),
        ({"max_steps": 1}, 1, 0),
        ({"max_steps": 7, "min_steps": 7}, 7, 7),
        ({"max_steps": 7, "min_steps": 0}, 7, 0),
        ({"min_steps": 0}, 100, 0),
        ({"effort": "lower"}, 20, 12),
        ({"effort": "low"}, 40, 24),
        ({"effort": "medium"}, 60, 36),
        ({"effort": "high"}, 80, 48),
        ({"effort": "higher", "min_steps": 60}, 100, 60),
        ({"effort": "lower", "max_steps": 5}, 5, 3),
        ({"max_steps": 10_000}, 10_000, 6_000),
    ],
)
def test_steps_come_from_the_number_else_from_the_effort_and_the_floor_is_six_tenths(
    asked: dict[str, Any], steps: int, floor: int
) -> None:
    run = plan_run(project(), now=NOW, **asked)
    assert (run.max_steps, run.min_steps) == (steps, floor)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"max_steps": 0}, "between 1 and"),
        ({"max_steps": -3}, "between 1 and"),
        ({"max_steps": 10**30}, "between 1 and"),
        ({"max_steps": 5, "min_steps": 6}, "between 0 and max_steps"),
        ({"min_steps": -1}, "between 0 and max_steps"),
        ({"effort": "heroic"}, "heroic"),
        ({"areas": ["trends", "weather"]}, "weather"),
        ({"areas": ["old"]}, "old"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        plan_run(project(), now=NOW, **asked)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"state": "indexing"}, "indexing"),
        ({"warehouses": []}, "no warehouse"),
        ({"state": "indexing", "warehouses": []}, "no warehouse"),
    ],
)
def test_a_project_that_is_not_ready_is_not_run(change: dict[str, Any], says: str) -> None:
    with pytest.raises(Conflict, match=says):
        plan_run(project(**change), now=NOW)


@pytest.mark.parametrize("state", ["", "ready"])
def test_a_ready_project_gets_a_pending_run(state: str) -> None:
    run = plan_run(
        project(state=state), now=NOW, areas=["segments", "trends", "segments"], effort="low"
    )
    assert (run.status, run.attempt, run.project_id) == (RunStatus.PENDING, 1, "p")
    assert (run.areas, run.effort) == (["segments", "trends"], "low")
    assert [(event.status, event.at) for event in run.lifecycle] == [(RunStatus.PENDING, NOW)]
    assert run.started_at == run.updated_at == NOW


def test_every_run_has_an_id_of_its_own() -> None:
    assert plan_run(project(), now=NOW).id != plan_run(project(), now=NOW).id
