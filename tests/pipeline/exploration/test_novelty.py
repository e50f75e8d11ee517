"""Phase 3, "Cube-shaped sources stop on signal": the rule, and each fallback to the floor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import VectorsUnavailable
from pipeline.exploration.loop import Budget
from pipeline.exploration.novelty import Judgement, Novelty, Ruling, judge
from pipeline.ports import WarehouseInfo
from pipeline.records import ExplorationStep, StepAction
from pipeline.testing import ScriptedModel
from tests.pipeline.exploration.lab import Lab, MemoryWarehouse, answer_all

NEW, REPEAT, UNJUDGED = Judgement.NEW, Judgement.REPEAT, Judgement.UNJUDGED


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (None, NEW),
        (0.0, NEW),
        (0.9199, NEW),
        (0.92, REPEAT),
        (1.0, REPEAT),
        (float("nan"), UNJUDGED),
        (float("inf"), UNJUDGED),
    ],
)
def test_a_cosine_of_092_is_a_repeat_and_no_neighbour_is_new(
    score: float | None, expected: Judgement
) -> None:
    assert judge(score) is expected


RULINGS: dict[str, tuple[list[Judgement | bool], Ruling]] = {
    "nothing judged yet is unproven": ([], Ruling.UNPROVEN),
    "a new step is productive": ([NEW], Ruling.PRODUCTIVE),
    "two repeats are not enough": ([REPEAT, REPEAT], Ruling.PRODUCTIVE),
    "three repeats in a row finish": ([NEW, REPEAT, REPEAT, REPEAT], Ruling.ALLOWED),
    "a new step ends the row": ([REPEAT, REPEAT, NEW, REPEAT, REPEAT], Ruling.PRODUCTIVE),
    "new ground after three repeats counts again": (
        [REPEAT, REPEAT, REPEAT, NEW],
        Ruling.PRODUCTIVE,
    ),
    "an unjudged step is neither new nor a repeat": (
        [REPEAT, REPEAT, UNJUDGED, REPEAT],
        Ruling.ALLOWED,
    ),
    "unjudged steps are not repeats": ([NEW, UNJUDGED, UNJUDGED], Ruling.PRODUCTIVE),
    "only unjudged steps prove nothing": ([UNJUDGED, UNJUDGED], Ruling.UNPROVEN),
    "three in a row that could not be judged": (
        [NEW, UNJUDGED, UNJUDGED, UNJUDGED],
        Ruling.ALLOWED,
    ),
    "unjudged steps not in a row": (
        [UNJUDGED, UNJUDGED, NEW, UNJUDGED, UNJUDGED],
        Ruling.PRODUCTIVE,
    ),
    "judging works again": ([UNJUDGED, UNJUDGED, UNJUDGED, NEW], Ruling.PRODUCTIVE),
    "an index that was offered steps and kept none": ([NEW, False], Ruling.ALLOWED),
    "an index that keeps steps": ([NEW, True], Ruling.PRODUCTIVE),
    "an index that refuses now and then": ([NEW, True, False, False, True], Ruling.PRODUCTIVE),
    "an index that went stale": ([NEW, True, NEW, False, False, False], Ruling.ALLOWED),
    "a stale index that works again": (
        [NEW, True, False, False, False, True],
        Ruling.PRODUCTIVE,
    ),
    "an index that never worked and then does": ([NEW, False, True], Ruling.PRODUCTIVE),
}


@pytest.mark.parametrize(("seen", "expected"), RULINGS.values(), ids=RULINGS.keys())
def test_the_ruling_on_a_done_signal_past_the_floor(
    seen: list[Judgement | bool], expected: Ruling
) -> None:
    novelty = Novelty()
    for event in seen:
        if isinstance(event, bool):
            novelty.stored(event)
        else:
            novelty.observe(event)
    assert novelty.ruling() is expected


def test_without_an_index_the_rule_is_never_armed() -> None:
    novelty = Novelty(armed=False)
    novelty.observe(NEW)
    assert novelty.ruling() is Ruling.ALLOWED
    assert novelty.fallback == "no step index"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([NEW, REPEAT, UNJUDGED]), max_size=12), st.booleans())
def test_the_rule_stands_down_or_needs_three_repeats_at_the_end(
    seen: list[Judgement], armed: bool
) -> None:
    novelty = Novelty(armed=armed)
    for judgement in seen:
        novelty.observe(judgement)
    judged = [judgement for judgement in seen if judgement is not UNJUDGED]
    measured_out = judged[-3:] == [REPEAT] * 3 or seen[-3:] == [UNJUDGED] * 3 or not armed
    assert (novelty.ruling() is Ruling.ALLOWED) == measured_out


# ---------------------------------------------------------------- within a run

DONE = {"done": True}


def query(sql: str, **more: Any) -> dict[str, Any]:
    return {"query_purpose": "p", "query": sql} | more


def rejected(steps: list[ExplorationStep]) -> list[int]:
    return [s.step for s in steps if s.action is StepAction.COMPLETE_REJECTED]


async def run(lab: Lab, script: list[Any], **budget: int) -> list[ExplorationStep]:
    found = await lab.explore(
        ScriptedModel(script), Budget(**({"max_steps": 20} | budget)), cube_reaching=True
    )
    return found.steps


async def test_while_steps_turn_up_new_ground_done_is_rejected(lab: Lab) -> None:
    same = [query("SELECT 1")] * 3
    steps = await run(lab, [DONE, query("SELECT 1"), DONE, *same[:2], DONE, same[2], DONE])
    assert rejected(steps) == [1, 3, 6]
    assert steps[0].reject_reason.startswith("unproven")
    assert steps[2].reject_reason.startswith("productive")
    assert steps[-1].action is StepAction.COMPLETE
    assert steps[-1].step == 8


async def test_min_steps_still_gates_completion(lab: Lab) -> None:
    same = [query("SELECT 1")] * 4
    steps = await run(lab, [*same, DONE, *same[:3], DONE], min_steps=6)
    assert rejected(steps) == [5]
    assert steps[4].reject_reason.startswith("too early")
    assert steps[-1].action is StepAction.COMPLETE


async def test_steps_are_scored_once_the_run_is_past_the_floor(lab: Lab) -> None:
    same = [query("SELECT 1")] * 4
    steps = await run(lab, [*same[:2], DONE, *same[:3], DONE], min_steps=3)
    assert rejected(steps) == [3]
    assert steps[2].reject_reason.startswith("unproven")
    assert steps[-1].step == 7


@pytest.mark.parametrize("floor", [0, 1, 4, 9])
@pytest.mark.parametrize("same", [True, False])
async def test_the_rule_can_only_make_a_run_longer(lab: Lab, floor: int, same: bool) -> None:
    script: list[Any] = []
    for number in range(20):
        script += [query("SELECT 1" if same else f"SELECT {number}"), DONE]
    with_rule = await run(lab, list(script), min_steps=floor)
    assert lab.index
    lab.index.steps.clear()
    budget = Budget(max_steps=20, min_steps=floor)
    without = (await lab.explore(ScriptedModel(list(script)), budget)).steps
    assert len(with_rule) > len(without) >= floor
    assert len(with_rule) <= 20


async def test_a_first_query_against_each_source_has_no_neighbour_and_is_new(lab: Lab) -> None:
    lab.warehouses["b"] = MemoryWarehouse(answer_all, WarehouseInfo("b", "duckdb"))
    repeats = [query("SELECT 1")] * 4
    steps = await run(lab, [*repeats, query("SELECT 9", datasource_id="b"), DONE], max_steps=6)
    assert steps[-1].reject_reason.startswith("productive")


async def test_a_retry_is_never_a_repeat_of_the_failed_attempt(lab: Lab) -> None:
    failing = [query("BROKEN 1"), "no repair"]
    steps = await run(lab, [*failing, *failing, query("SELECT 1"), DONE], max_steps=4)
    assert steps[-1].reject_reason.startswith("productive")


async def test_max_steps_is_unaffected(lab: Lab) -> None:
    script = [item for i in range(5) for item in (query(f"SELECT {i}"), DONE)]
    steps = await run(lab, script, max_steps=10)
    assert len(steps) == 10
    assert rejected(steps) == [2, 4, 6, 8, 10]


async def test_a_run_over_tables_only_behaves_as_ever(lab: Lab) -> None:
    found = await lab.explore(ScriptedModel([query("SELECT 1"), DONE]))
    assert found.steps[-1].action is StepAction.COMPLETE
    assert "nearest" not in lab.journal.log


async def test_a_step_is_scored_before_it_is_indexed(lab: Lab) -> None:
    await run(lab, [query("SELECT 1")], max_steps=1)
    assert lab.journal.log == ["step 1", "nearest", "index 1", "feed 1"]


async def test_novelty_is_judged_within_one_datasource(lab: Lab) -> None:
    lab.warehouses["b"] = MemoryWarehouse(answer_all, WarehouseInfo("b", "duckdb"))
    first = [query("SELECT 1")] * 3
    steps = await run(lab, [*first, query("SELECT 1", datasource_id="b"), DONE], max_steps=5)
    assert steps[-1].reject_reason.startswith("productive")


async def test_no_index_falls_back_to_the_floor(lab: Lab) -> None:
    lab.index = None
    steps = await run(lab, [query("SELECT 1"), DONE])
    assert rejected(steps) == []


async def test_an_index_that_keeps_nothing_falls_back_to_the_floor(lab: Lab) -> None:
    assert lab.index
    lab.index.fail_add = VectorsUnavailable("no")
    steps = await run(lab, [query("SELECT 1"), DONE])
    assert rejected(steps) == []


async def test_an_index_gone_stale_falls_back_to_the_floor(lab: Lab) -> None:
    assert lab.index
    index = lab.index

    def play() -> Any:
        yield query("SELECT 0")
        yield DONE
        index.fail_add = VectorsUnavailable("read only")
        for i in range(1, 4):
            yield query(f"SELECT {i}")
        yield DONE

    steps = await run(lab, list_of(play))
    assert rejected(steps) == [2]
    assert steps[-1].step == 6


async def test_an_index_that_cannot_be_read_falls_back_to_the_floor(lab: Lab) -> None:
    assert lab.index
    lab.index.fail_nearest = VectorsUnavailable("no")
    steps = await run(lab, [query("SELECT 1"), DONE, query("SELECT 2"), query("SELECT 3"), DONE])
    assert rejected(steps) == [2]
    assert steps[-1].step == 5


async def test_a_run_whose_queries_all_fail_falls_back_to_the_floor(lab: Lab) -> None:
    failing = [query("BROKEN"), "no repair"]
    steps = await run(lab, [*failing, DONE, *failing, *failing, DONE])
    assert rejected(steps) == [2]
    assert steps[-1].step == 5
    assert lab.index
    assert lab.index.added == []


def list_of(player: Any) -> Any:
    """Keeps a generator lazy, so that it can break a part in the middle of the run."""
    return player()
