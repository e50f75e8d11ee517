"""Phase 3 of the lifecycle specification: what a step does, keeps and shows, and how a run ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import (
    ModelRefused,
    ModelUnreachable,
    RunSuperseded,
    StoreUnavailable,
)
from pipeline.exploration.loop import Budget
from pipeline.ports import ChatReply, ChatRequest, QueryResult, StopReason
from pipeline.records import Quality, QualityKind, RunPhase, RunStepType, StepAction
from pipeline.testing import ScriptedModel
from tests.pipeline.exploration.lab import (
    DONE,
    NOW,
    Lab,
    query,
    told,
)


def count_rows(table: pa.Table) -> dict[str, Any]:
    return {"rows": table.num_rows}


async def test_each_query_is_executed_and_its_result_sent_back(lab: Lab) -> None:
    model = ScriptedModel([query("SELECT a FROM flights"), DONE])
    found = await lab.explore(model)
    assert lab.warehouses["default"].asked == ["SELECT a FROM flights"]
    assert found.completed
    assert found.message == "seen enough"
    assert list(found.results) == [1]
    assert found.results[1].table.num_rows == 2
    result = told(model.requests[1])
    assert list(result) == [
        *("step", "action", "ok", "purpose", "row_count", "duration_ms", "healed"),
        *("caveats", "columns", "rows", "steps_left"),
    ]
    assert result["rows"] == [[1, "x"], [2, "y"]]
    assert (result["purpose"], result["row_count"], result["steps_left"]) == ("what", 2, 9)


async def test_a_step_keeps_what_was_asked_what_ran_and_what_it_cost(lab: Lab) -> None:
    model = ScriptedModel([query("SELECT a FROM flights"), DONE])
    found = await lab.explore(model, digest=count_rows)
    step, last = found.steps
    assert (step.step, step.action, step.thinking) == (1, StepAction.QUERY_DATA, "why")
    assert (step.query_purpose, step.query) == ("what", "SELECT a FROM flights")
    assert step.query_result == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert (step.result_columns, step.row_count) == (["a", "b"], 2)
    assert step.compact_result == {"rows": 2}
    assert step.tokens_in > 0
    assert step.tokens_out > 0
    assert (step.timestamp, step.execution_time_ms, step.succeeded) == (NOW, 3, True)
    assert "SELECT a" in step.llm_response
    assert last.action is StepAction.COMPLETE
    assert last.thinking == "seen enough"
    assert found.steps == lab.journal.steps


async def test_the_live_feed_shows_question_sql_rows_and_time(lab: Lab) -> None:
    await lab.explore(ScriptedModel([query(), {"lookup_schema": ["main.flights"]}, DONE]))
    first, second, last = lab.journal.rows
    assert (first.type, first.message, first.llm_thinking) == (RunStepType.QUERY, "what", "why")
    assert (first.llm_query, first.query, first.row_count) == ("SELECT 1", "SELECT 1", 2)
    assert (first.query_time_ms, first.step_num, first.step_total) == (3, 1, 10)
    assert second.type is RunStepType.LOOKUP_SCHEMA
    assert "main.flights" in second.message
    assert last.message == "Exploration finished: seen enough"
    assert lab.journal.phases[0] == (RunPhase.EXPLORATION, 10, "step 1 of 10")


async def test_counters_follow_the_steps(lab: Lab) -> None:
    model = ScriptedModel(
        [
            query(),
            query("BROKEN", datasource_id="nowhere"),
            {"lookup_schema": ["main.flights"]},
            {"search_tables": "x"},
            DONE,
        ]
    )
    await lab.explore(model)
    assert lab.journal.counters == {
        "total_queries": 2,
        "successful_queries": 1,
        "failed_queries": 1,
        "schema_lookup_calls": 1,
        "schema_search_calls": 1,
        "correlation_lookup_calls": 0,
        "analysis_step_index_upserts": 1,
    }


async def test_a_step_is_kept_before_it_is_indexed_and_shown(lab: Lab) -> None:
    await lab.explore(ScriptedModel([query(), DONE]))
    assert lab.journal.log == ["step 1", "index 1", "feed 1", "step 2", "feed 2"]


async def test_only_successful_queries_are_indexed_by_purpose_and_sql(lab: Lab) -> None:
    script = [query("SELECT 2"), query("BROKEN"), "no fix", {"search_tables": "x"}, DONE]
    await lab.explore(ScriptedModel(script))
    assert lab.index
    assert lab.index.added == [(1, "what\n[SQL]: SELECT 2", "default")]


async def test_caveats_come_before_rows_and_the_count_is_the_true_one(lab: Lab) -> None:
    caveat = Quality(kind=QualityKind.TRUNCATED, detail="first 50 rows")
    table = pa.table({"n": list(range(50))})
    result = QueryResult("SELECT n", table, 50, 1, (caveat,))
    lab.warehouses["default"].answer = lambda sql: result
    model = ScriptedModel([query(), DONE])
    found = await lab.explore(model)
    payload = told(model.requests[1])
    assert payload["caveats"] == [{"kind": "truncated", "detail": "first 50 rows"}]
    assert list(payload).index("caveats") < list(payload).index("rows")
    assert payload["row_count"] == 50
    assert payload["rows"] == [[i] for i in range(10)]
    words = model.requests[1].messages[-1].content
    assert words.startswith("At least 50 rows. Mind the caveats (truncated)")
    assert found.steps[0].quality == [caveat]
    assert len(found.steps[0].query_result) == 50


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"n": pa.array([], pa.int64())}),
        pa.table({f"c{i}": ["y" * 2_000] * 300 for i in range(400)}),
        pa.table({"t": ["z" * 3_000_000]}),
        pa.table({"ключ": [{"a": [1, None]}], "</step_result>": ["</step_result>\n<budget>"]}),
        pa.table({}),
    ],
    ids=["no rows", "wide", "one huge cell", "odd names", "no columns"],
)
async def test_any_result_fits_into_a_message_and_a_record(lab: Lab, table: pa.Table) -> None:
    lab.warehouses["default"].answer = lambda sql: table
    model = ScriptedModel([query(), DONE])
    found = await lab.explore(model)
    payload = told(model.requests[1])
    assert payload["ok"]
    assert payload["row_count"] == table.num_rows
    assert len(model.requests[1].messages[-1].content) < 80_000
    assert len(found.steps[0].model_dump_json()) < 8_000_000
    assert found.results[1].table is table


async def test_a_failed_query_asks_for_a_different_approach(lab: Lab) -> None:
    model = ScriptedModel([query("SELECT BROKEN"), "I cannot fix this", DONE])
    found = await lab.explore(model)
    payload = told(model.requests[2])
    assert payload == {
        "step": 1,
        "action": "query_data",
        "ok": False,
        "error": "syntax error near BROKEN",
        "sql": "SELECT BROKEN",
        "steps_left": 9,
    }
    assert "different approach" in model.requests[2].messages[-1].content
    step = found.steps[0]
    assert (step.error, step.succeeded) == ("syntax error near BROKEN", False)
    assert len(step.fix_history) == 1
    assert lab.journal.rows[0].error == "syntax error near BROKEN"
    assert found.results == {}


async def test_a_healed_query_says_so_and_keeps_the_sql_that_ran(lab: Lab) -> None:
    model = ScriptedModel([query("SELECT BROKEN"), "```sql\nSELECT 5\n```", DONE])
    found = await lab.explore(model)
    step = found.steps[0]
    assert (step.query, step.fixed, step.fix_attempts) == ("SELECT 5", True, 1)
    assert told(model.requests[2])["healed"] is True
    assert lab.journal.rows[0].query_fixed
    assert lab.journal.rows[0].llm_query == "SELECT BROKEN"


# ---------------------------------------------------------------- ends


async def test_max_steps_is_the_cap(lab: Lab) -> None:
    found = await lab.explore(ScriptedModel([query(f"SELECT {i}") for i in range(3)]), Budget(3))
    assert [step.step for step in found.steps] == [1, 2, 3]
    assert found.completed
    assert found.message == "all 3 steps are used"


async def test_done_before_min_steps_is_recorded_and_nudged(lab: Lab) -> None:
    model = ScriptedModel([DONE, query(), DONE])
    found = await lab.explore(model, Budget(max_steps=9, min_steps=3))
    first = found.steps[0]
    assert first.action is StepAction.COMPLETE_REJECTED
    assert "2 more to go" in first.reject_reason
    payload = told(model.requests[1])
    assert payload == {
        "step": 1,
        "action": "complete_rejected",
        "ok": False,
        "error": first.reject_reason,
        "steps_left": 8,
    }
    assert lab.journal.rows[0].type is RunStepType.COMPLETE_REJECTED
    assert lab.journal.rows[0].message == first.reject_reason
    assert found.steps[-1].action is StepAction.COMPLETE
    assert found.steps[-1].step == 3


async def test_the_default_floor_is_none(lab: Lab) -> None:
    found = await lab.explore(ScriptedModel([DONE]))
    assert [step.action for step in found.steps] == [StepAction.COMPLETE]


async def test_a_floor_above_the_cap_is_the_cap(lab: Lab) -> None:
    found = await lab.explore(ScriptedModel([DONE, DONE]), Budget(max_steps=2, min_steps=50))
    assert found.steps[-1].action is StepAction.COMPLETE


async def test_a_deadline_returns_what_there_is(lab: Lab) -> None:
    times = iter([NOW + timedelta(minutes=i) for i in range(100)])
    model = ScriptedModel(lambda request: query())
    deadline = NOW + timedelta(minutes=20)
    found = await lab.explore(model, Budget(100), clock=lambda: next(times), deadline=deadline)
    assert not found.completed
    assert 0 < len(found.steps) < 20
    assert "DISCOVERY_MAX_DURATION" in found.message
    assert lab.journal.steps == found.steps


async def test_a_deadline_ends_a_call_that_hangs(lab: Lab) -> None:
    hung = asyncio.Event()

    async def play(request: ChatRequest) -> dict[str, Any]:
        if len(model.requests) == 2:
            await hung.wait()
        return query()

    model = ScriptedModel(play)
    deadline = NOW + timedelta(milliseconds=50)
    found = await lab.explore(model, deadline=deadline)
    assert not found.completed
    assert [step.step for step in found.steps] == [1]


async def test_a_timeout_that_is_not_the_deadline_is_not_hidden(lab: Lab) -> None:
    with pytest.raises(TimeoutError, match="driver"):
        await lab.explore(ScriptedModel([TimeoutError("driver")]))


async def test_a_refusal_fails_the_step_with_its_own_error_and_is_not_asked_again(
    lab: Lab,
) -> None:
    model = ScriptedModel([query(), ChatReply("", StopReason.REFUSAL)])
    with pytest.raises(ModelRefused, match="step 2: the model refused"):
        await lab.explore(model)
    assert len(model.requests) == 2
    assert len(lab.journal.steps) == 1
    row = lab.journal.rows[-1]
    assert row.type is RunStepType.ERROR
    assert "refused" in row.error


async def test_a_model_error_ends_the_run_with_its_steps_in_the_journal(lab: Lab) -> None:
    with pytest.raises(ModelUnreachable):
        await lab.explore(ScriptedModel([query(), ModelUnreachable("no connection")]))
    assert [step.step for step in lab.journal.steps] == [1]


async def test_a_superseded_attempt_stops_at_once(lab: Lab) -> None:
    lab.journal.fail = RunSuperseded("attempt 2 owns this run")
    with pytest.raises(RunSuperseded):
        await lab.explore(ScriptedModel([query(), DONE]))
    assert lab.journal.log == ["step 1"]


async def test_a_failing_checkpoint_write_never_ends_a_working_run(lab: Lab) -> None:
    lab.journal.fail = StoreUnavailable("disk full")
    found = await lab.explore(ScriptedModel([query(), DONE]))
    assert found.completed
    assert len(found.steps) == 2


async def test_a_failing_index_never_ends_a_run(lab: Lab) -> None:
    assert lab.index
    lab.index.fail_add = ValueError("any error at all")
    assert (await lab.explore(ScriptedModel([query(), DONE]))).completed
    lab.index = None
    assert (await lab.explore(ScriptedModel([query(), DONE]))).completed
