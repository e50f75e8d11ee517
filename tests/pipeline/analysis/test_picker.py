"""Facts, section H: which steps an area's prompt shows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pipeline.analysis.areas import Area
from pipeline.analysis.entries import entry, rendered_chars
from pipeline.analysis.picker import Picked, pick
from pipeline.ports import StepHit
from pipeline.prompting import to_json
from pipeline.records import AreaConfig, StepAction
from tests.pipeline.analysis.conftest import MakeStep

AREA = Area(id="trends", name="Trends", keywords=("Delay", " ", ""))
ROOMY = 200_000


def chosen(picked: Picked) -> list[tuple[int, float, str]]:
    return [(p.step, p.score, p.source) for p in picked.selected_steps]


def dropped(picked: Picked) -> list[tuple[int, str]]:
    return [(d.step, d.reason) for d in picked.dropped_steps]


@pytest.mark.parametrize(
    ("score", "kept"), [(0.30, True), (0.299, False), (0.0, False), (-1.0, False), (math.nan, None)]
)
def test_steps_below_the_minimum_score_are_dropped(
    make_step: MakeStep, score: float, kept: bool | None
) -> None:
    picked = pick(AREA, [make_step(1)], [StepHit(1, score)], ROOMY)
    assert chosen(picked) == ([(1, score, "vector")] if kept else [])
    assert dropped(picked) == ([(1, "below_min_score")] if kept is False else [])


@pytest.mark.parametrize(
    ("hits", "score"),
    [(None, 0.55), ([], 0.55), ([StepHit(1, 0.1)], 0.55), ([StepHit(1, 0.8)], 0.8)],
)
@pytest.mark.parametrize("where", ["query", "query_purpose", "thinking"])
def test_a_verbatim_keyword_promotes_a_step_to_the_floor(
    make_step: MakeStep, hits: list[StepHit] | None, score: float, where: str
) -> None:
    step = make_step(1).model_copy(update={where: "avg(DELAY)"})
    assert chosen(pick(AREA, [step], hits, ROOMY)) == [(1, score, "exact_match")]


def test_without_an_index_keywords_alone_decide(make_step: MakeStep) -> None:
    steps = [make_step(1, "delay by month"), make_step(2, "planes by maker")]
    assert [s.step for s in pick(AREA, steps, None, ROOMY).selected] == [1]


def test_sorted_by_score_then_by_step(make_step: MakeStep) -> None:
    steps = [make_step(n) for n in (4, 3, 2, 1)]
    hits = [StepHit(1, 0.5), StepHit(4, 0.9), StepHit(3, 0.5), StepHit(2, 0.7)]
    assert [s.step for s in pick(AREA, steps, hits, ROOMY).selected] == [4, 2, 1, 3]


def test_the_24_nearest_steps_count(make_step: MakeStep) -> None:
    steps = [make_step(n) for n in range(1, 31)]
    hits = [StepHit(n, 1 - n / 100) for n in range(1, 31)]
    picked = pick(AREA, steps, hits, ROOMY)
    assert [s.step for s in picked.selected] == [*range(1, 25)]
    assert picked.dropped_steps == []


def test_only_successful_query_steps_can_be_chosen(make_step: MakeStep) -> None:
    steps = [
        make_step(1, "delay", error="no such column"),
        make_step(2, "delay", action=StepAction.LOOKUP_SCHEMA),
        make_step(3, "delay"),
    ]
    hits = [StepHit(1, 0.9), StepHit(2, 0.9), StepHit(99, 0.9)]
    assert [s.step for s in pick(AREA, steps, hits, ROOMY).selected] == [3]


def test_the_lowest_are_dropped_while_the_rendered_size_is_over_budget(
    make_step: MakeStep,
) -> None:
    steps = [make_step(n, rows=[{"text": "x" * 400}]) for n in (1, 2, 3)]
    hits = [StepHit(1, 0.4), StepHit(2, 0.9), StepHit(3, 0.6)]
    two = [entry(steps[1]), entry(steps[2])]
    budget = math.ceil(len(to_json(two)) / 4)
    picked = pick(AREA, steps, hits, budget)
    assert [s.step for s in picked.selected] == [2, 3]
    assert dropped(picked) == [(1, "over_budget")]
    assert [s.step for s in pick(AREA, steps, hits, budget - 1).selected] == [2]


def test_one_step_stays_whatever_its_size(make_step: MakeStep) -> None:
    steps = [make_step(1, "delay", rows=[{"text": "x" * 10_000}])]
    assert [s.step for s in pick(AREA, steps, None, 1).selected] == [1]


def test_nothing_to_choose_from_gives_nothing() -> None:
    assert pick(AREA, [], [StepHit(1, 0.9)], ROOMY) == Picked([])


def test_an_area_as_a_project_configures_it_is_enough(make_step: MakeStep) -> None:
    config = AreaConfig(name="Trends", keywords=["delay"])
    assert len(pick(config, [make_step(1, "delay")], None, ROOMY).selected) == 1


def test_the_rendered_size_is_that_of_the_prompt_block(make_step: MakeStep) -> None:
    entries = [entry(make_step(n)) for n in range(3)]
    for count in range(4):
        assert rendered_chars(entries[:count]) == len(to_json(entries[:count]))


def test_an_entry_has_the_fields_of_the_reference(make_step: MakeStep) -> None:
    step = make_step(7, "why", rows=[{"a": 1, "b": "x"}, {"a": 2.5, "b": None}], row_count=900)
    shown = entry(step)
    assert list(shown) == [
        "step", "action", "query", "query_purpose", "thinking", "row_count", "error",
        "query_result", "quality_caveats",
    ]  # fmt: skip
    assert shown["row_count"] == shown["query_result"]["row_count"] == 900


def test_kept_rows_of_several_kinds_are_shown_as_text(make_step: MakeStep) -> None:
    shown = entry(make_step(1, rows=[{"a": 1}, {"a": "x"}, {"a": {"b": 2}}, {"a": 2**70}]))
    assert [row["a"] for row in shown["query_result"]["all_rows"]][:2] == ["1", "x"]


def test_a_digest_that_a_step_carries_is_shown_as_it_is(make_step: MakeStep) -> None:
    carried: dict[str, Any] = {"row_count": 5, "columns": []}
    assert entry(make_step(1, compact_result=carried))["query_result"] == carried
