"""What a resumed exploration says, does and spends again (reference K.3)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from pipeline.checkpoint.keep import checkpoint_of
from pipeline.errors import VectorsUnavailable
from pipeline.exploration.actions import parse_action
from pipeline.exploration.live_row import notice_of
from pipeline.exploration.loop import Budget, Exploration
from pipeline.exploration.replay import action_of, asked_by, said
from pipeline.ports import QueryResult
from pipeline.records import ExplorationStep, Quality, QualityKind, StepAction
from pipeline.records.checkpoint import StepCheckpoint
from pipeline.testing import ScriptedModel
from tests.pipeline.exploration.lab import DONE, NOW, Lab, make_lab, query, told


class Again(NamedTuple):
    found: Exploration
    model: ScriptedModel


def rows_of(steps: list[ExplorationStep]) -> list[StepCheckpoint]:
    """The checkpoints of an attempt that took these steps, as they come back from the store."""
    made = [checkpoint_of(s, project_id="p", run_id="r", attempt=1, at=NOW) for s in steps]
    return [StepCheckpoint.model_validate_json(row.model_dump_json()) for row in made]


async def again(lab: Lab, steps: list[ExplorationStep], *replies: Any, **more: Any) -> Again:
    """A second attempt over a journal, an index and a catalog of its own."""
    fresh = make_lab()
    lab.journal, lab.index, lab.catalog = fresh.journal, fresh.index, fresh.catalog
    for warehouse in lab.warehouses.values():
        warehouse.asked = []
    model = ScriptedModel(replies)
    return Again(await lab.explore(model, prefix=rows_of(steps), **more), model)


ACTIONS: list[dict[str, Any]] = [
    {"rationale": "why", "query_purpose": "what", "query": "SELECT 1"},
    {"rationale": "why", "query": "SELECT 'Zürich \"x\"'", "datasource_id": "shop"},
    {"query": "SELECT 1"},
    {"rationale": "r", "lookup_schema": ["main.flights", "planes"], "datasource_id": "shop"},
    {"rationale": "r", "search_tables": "orders", "search_top_k": 3},
    {"rationale": "r", "search_tables": "orders"},
    {"rationale": "r", "get_correlations": {"a": "one", "b": "other"}},
    {"rationale": "r", "done": True, "summary": "all seen"},
    {"done": True, "summary": "all seen"},
    {"done": True},
]
DID = {
    "query": StepAction.QUERY_DATA,
    "lookup_schema": StepAction.LOOKUP_SCHEMA,
    "search_tables": StepAction.SEARCH_TABLES,
    "get_correlations": StepAction.GET_CORRELATIONS,
    "done": StepAction.COMPLETE_REJECTED,
}


@pytest.mark.parametrize("sent", ACTIONS, ids=[json.dumps(action) for action in ACTIONS])
def test_the_model_s_own_turn_is_rebuilt_from_what_a_checkpoint_keeps(sent: dict[str, Any]) -> None:
    action = parse_action(json.dumps(sent))
    step = ExplorationStep(
        step=1,
        timestamp=NOW,
        action=DID[action.kind.value],
        thinking=action.rationale or action.summary,
        query_purpose=action.query_purpose,
        query=f"{action.query} /* filtered */" if action.query else "",
        asked=asked_by(action),
    )
    (row,) = rows_of([step])
    assert action_of(row, step) == action
    assert json.loads(said(action)) == sent


@pytest.mark.parametrize(
    ("record", "turn"),
    [
        (
            {"action": "query_data", "query": "SELECT 1", "query_purpose": "what", "thinking": "w"},
            {"rationale": "w", "query_purpose": "what", "query": "SELECT 1"},
        ),
        ({"action": "lookup_schema", "lookup_tables": ["a.b"]}, {"lookup_schema": ["a.b"]}),
        ({"action": "search_tables", "search_text": "x"}, {"search_tables": "x"}),
        (
            {"action": "get_correlations", "correlated": ["p", "q"]},
            {"get_correlations": {"a": "p", "b": "q"}},
        ),
        ({"action": "complete", "thinking": "seen"}, {"done": True, "summary": "seen"}),
        ({"action": "get_correlations"}, {"get_correlations": {"a": "", "b": ""}}),
    ],
)
def test_a_row_without_arguments_is_read_from_its_record(
    record: dict[str, Any], turn: dict[str, Any]
) -> None:
    step = ExplorationStep.model_validate({"step": 1, "timestamp": NOW} | record)
    (row,) = rows_of([step])
    assert json.loads(said(action_of(row, step))) == turn


async def test_lookups_and_searches_are_done_again_which_restores_budgets_and_dedupe(
    lab: Lab,
) -> None:
    first = await lab.explore(
        ScriptedModel(
            [
                {"lookup_schema": ["main.flights"]},
                {"search_tables": "planes", "search_top_k": 2},
                {"lookup_schema": ["x"], "datasource_id": "nobody"},
                DONE,
            ]
        )
    )
    lookup = {"lookup_schema": ["main.flights", "main.planes"]}
    second = await again(lab, first.steps[:3], lookup, {"search_tables": "x"}, DONE)
    assert lab.catalog.searched == [("planes", 2), ("x", 10)]
    assert lab.catalog.looked_up == [["main.flights"], ["main.planes"]]
    refused, looked, searched = (told(request) for request in second.model.requests)
    assert (refused["step"], refused["ok"]) == (3, False), "it asked for a datasource there is not"
    assert (looked["step"], looked["calls_left"], searched["calls_left"]) == (4, 28, 28)
    assert looked["already_fetched"] == [{"table": "main.flights", "step": 1}]


async def test_a_lookup_that_failed_may_succeed_when_it_is_done_again(lab: Lab) -> None:
    lab.catalog.fail = VectorsUnavailable("gone")
    first = await lab.explore(ScriptedModel([{"lookup_schema": ["main.flights"]}, DONE]))
    assert first.steps[0].error == "gone"
    second = await again(lab, first.steps[:1], DONE)
    assert second.found.steps[0].error == ""
    assert told(second.model.requests[0])["tables"][0]["table"] == "main.flights"


async def test_a_query_is_told_from_its_kept_rows_and_the_true_count(lab: Lab) -> None:
    caveats = (Quality(kind=QualityKind.TRUNCATED, detail="the cap"),)
    table = pa.table({"n": list(range(120)), "big": ["y" * 600] * 120})
    answer = QueryResult("SELECT filtered", table, 120, duration_ms=7, caveats=caveats)
    lab.warehouses["default"].answer = lambda _: answer
    model = ScriptedModel([query("SELECT mine"), DONE])
    first = await lab.explore(model)
    second = await again(lab, first.steps[:1], DONE)
    assert lab.warehouses["default"].asked == []
    assert [m.content for m in second.model.requests[0].messages[1:]] == [
        json.dumps(query("SELECT mine")),
        model.requests[1].messages[-1].content,
    ]
    (kept, _) = second.found.steps
    assert (len(kept.query_result), kept.row_count, kept.quality) == (50, 120, list(caveats))
    assert second.found.results == {}, "there is no whole result of a replayed step"


@pytest.mark.parametrize(
    ("last", "budget"), [(DONE, Budget(max_steps=9)), (query("SELECT 2"), Budget(max_steps=2))]
)
async def test_an_exploration_that_was_at_its_end_asks_nothing(
    lab: Lab, last: dict[str, Any], budget: Budget
) -> None:
    first = await lab.explore(ScriptedModel([query(), last]), budget)
    second = await again(lab, first.steps, budget=budget)
    assert second.model.requests == []
    assert (second.found.completed, second.found.message) == (True, first.message)
    assert len(second.found.steps) == 2


async def test_the_prefix_becomes_this_attempt_s_from_its_end_before_anything_is_shared(
    lab: Lab,
) -> None:
    first = await lab.explore(ScriptedModel([query("SELECT 1"), query("SELECT 2"), DONE]))
    await again(lab, first.steps[:2], DONE)
    replayed = ["step 2", "step 1", "index 1", "feed 1", "index 2", "feed 2"]
    assert lab.journal.log == [*replayed, "step 3", "feed 3"]


async def test_replayed_steps_are_indexed_and_never_judged(lab: Lab) -> None:
    first = await lab.explore(ScriptedModel([query(), query(), query(), query(), DONE]))
    replies = [DONE, query("SELECT 9"), query("SELECT 9"), DONE, DONE, DONE, DONE, DONE]
    budget = Budget(max_steps=8)
    second = await again(lab, first.steps[:4], *replies, budget=budget, cube_reaching=True)
    assert lab.journal.log.count("nearest") == 2
    assert second.found.steps[4].action is StepAction.COMPLETE_REJECTED, "nothing is judged yet"


async def test_a_row_without_its_step_ends_the_prefix(lab: Lab) -> None:
    first = await lab.explore(ScriptedModel([query(), query(), query(), DONE]))
    rows = rows_of(first.steps[:3])
    rows[1] = rows[1].model_copy(update={"step": None})
    model = ScriptedModel([query("SELECT other"), DONE])
    second = await lab.explore(model, prefix=rows)
    assert [s.query for s in second.steps] == ["SELECT 1", "SELECT other", ""]


@pytest.mark.parametrize(
    ("record", "notice"),
    [
        ({"action": "query_data", "query_purpose": "Why?", "thinking": "w"}, "Why?"),
        ({"action": "query_data", "thinking": "w"}, "w"),
        ({"action": "query_data"}, "Ran a query"),
        ({"action": "query_data", "error": "no such table"}, "no such table"),
        ({"action": "lookup_schema", "lookup_tables": ["a", "b"]}, "Looked up a, b"),
        ({"action": "search_tables", "search_text": "x"}, "Searched tables for: x"),
        (
            {"action": "get_correlations", "correlated": ["p", "q"]},
            "Looked up correlations of p and q",
        ),
        ({"action": "complete", "thinking": "seen"}, "Exploration finished: seen"),
        ({"action": "complete_rejected", "reject_reason": "too early"}, "too early"),
    ],
)
def test_a_step_of_an_earlier_attempt_has_its_line_in_the_live_feed(
    record: dict[str, Any], notice: str
) -> None:
    step = ExplorationStep.model_validate({"step": 1, "timestamp": NOW} | record)
    assert notice_of(step) == notice
