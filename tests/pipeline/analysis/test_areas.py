"""Which areas a run analyses, and in which order."""

from __future__ import annotations

import pytest

from pipeline.analysis.areas import Area, area_lines, select_areas
from pipeline.analysis.budgets import query_results_budget
from pipeline.errors import BadRequest
from pipeline.ports import ModelInfo
from pipeline.records import AreaConfig, Project, ProjectPrompts

PROJECT = Project(
    id="p",
    name="p",
    prompts=ProjectPrompts(
        analysis_areas={
            "late": AreaConfig(name="Late", keywords=["b"], priority=9),
            "off": AreaConfig(name="Off", keywords=["c"], enabled=False),
            "early": AreaConfig(name="Early", description="First\nof all.", priority=1),
            "second": AreaConfig(name="Second", priority=1, is_custom=True),
        }
    ),
)


@pytest.mark.parametrize(
    ("requested", "selected"),
    [([], ["early", "second", "late"]), (["late", "early"], ["early", "late"])],
)
def test_enabled_areas_by_priority(requested: list[str], selected: list[str]) -> None:
    assert [area.id for area in select_areas(PROJECT, requested)] == selected


@pytest.mark.parametrize("requested", [["nope"], ["early", "off"]])
def test_an_unknown_or_disabled_area_is_a_bad_request(requested: list[str]) -> None:
    with pytest.raises(BadRequest, match=f"unknown analysis area {requested[-1]}"):
        select_areas(PROJECT, requested)


def test_a_project_without_areas_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="enables no analysis area"):
        select_areas(Project(id="p", name="p"), [])


def test_areas_are_listed_with_number_id_name_and_description() -> None:
    assert area_lines(select_areas(PROJECT, ["early", "late"])) == (
        "1. early - Early: First of all.\n2. late - Late: "
    )


@pytest.mark.parametrize(
    ("area", "text"),
    [
        (Area("a", "A", "What. ", ("x", "y")), "A — What. Keywords: x, y"),
        (Area("a", "A", "What.", ("x",)), "A — What. Keywords: x"),
        (Area("a", "A", "", ("x",)), "A. Keywords: x"),
        (Area("a", "A"), "A."),
    ],
)
def test_query_text_is_name_description_and_keywords(area: Area, text: str) -> None:
    assert area.query_text == text


@pytest.mark.parametrize(
    ("window", "max_output", "budget"),
    [
        (1_000_000, 64_000, 200_000),
        (128_000, 64_000, 128_000 - 16_384 - 512 - 19_200),
        (128_000, 4_000, 128_000 - 4_000 - 512 - 19_200),
        (8_000, 4_000, 4_096),
    ],
)
def test_the_budget_of_query_results(window: int, max_output: int, budget: int) -> None:
    info = ModelInfo("scripted", "m", context_window=window, max_output=max_output)
    assert query_results_budget(info) == budget
