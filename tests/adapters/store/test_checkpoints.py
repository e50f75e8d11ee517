"""Checkpoint rows, and the journal that writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from adapters.store.client import Collection
from adapters.store.store import Store
from pipeline.errors import RunSuperseded, StoreUnavailable
from pipeline.records import DiscoveryRun, ExplorationStep, RunPhase, RunStep, RunStepType
from pipeline.records.checkpoint import CheckpointKind, StepCheckpoint

NewRun = Callable[..., DiscoveryRun]
NewStep = Callable[..., ExplorationStep]
Raw = Callable[[str], Collection]


async def take_over(raw: Raw, run: DiscoveryRun, attempt: int = 2) -> None:
    await raw("discovery_runs").update({"_id": run.id}, {"$set": {"attempt": attempt}})


def row(number: int, attempt: int, step: ExplorationStep | None = None) -> StepCheckpoint:
    return StepCheckpoint(
        run_id="r1", project_id="p1", step_number=number, attempt=attempt, step=step
    )


async def test_a_finished_step_becomes_a_row_and_raises_the_marker(
    store: Store, new_run: NewRun, new_step: NewStep
) -> None:
    run = await store.runs.create(new_run())
    rows = [{"a.b": n, "$c": str(n)} for n in range(60)]
    await store.journal(run).step(
        new_step(1, query_result=rows, row_count=60, llm_request="dialogue", query="SELECT 1")
    )
    (kept,) = await store.checkpoints.rows(run.id)
    assert kept.kind is CheckpointKind.EXPLORATION_STEP
    assert (kept.step_number, kept.attempt, kept.project_id) == (1, 1, run.project_id)
    assert kept.step is not None
    assert (kept.step.query_result, kept.step.row_count) == (rows[:50], 60)
    assert (kept.step.query, kept.step.llm_request) == ("SELECT 1", "")
    assert kept.created_at is not None
    assert (await store.runs.get(run.id)).last_checkpoint_step == 1


async def test_the_marker_never_goes_back(store: Store, new_run: NewRun, new_step: NewStep) -> None:
    run = await store.runs.create(new_run())
    for number in (1, 2, 1):
        await store.journal(run).step(new_step(number))
    assert (await store.runs.get(run.id)).last_checkpoint_step == 2
    prefix, summary = await store.checkpoints.load(run.id)
    assert [kept.step_number for kept in prefix] == [1, 2]
    assert summary is None


async def test_a_superseded_attempt_cannot_overwrite_a_newer_one(
    store: Store, new_step: NewStep
) -> None:
    await store.checkpoints.save(row(1, 1, new_step(1, query="first")))
    await store.checkpoints.save(row(1, 2, new_step(1, query="second")))
    with pytest.raises(RunSuperseded, match="newer attempt of run r1 has written step 1"):
        await store.checkpoints.save(row(1, 1, new_step(1, query="late")))
    (kept,) = await store.checkpoints.rows("r1")
    assert kept.step is not None
    assert (kept.attempt, kept.step.query) == (2, "second")


async def test_a_row_without_an_attempt_belongs_to_the_first(
    store: Store, raw: Raw, new_step: NewStep
) -> None:
    await store.checkpoints.save(row(1, 1, new_step(1)))
    await raw("discovery_checkpoints").update({"run_id": "r1"}, {"$unset": {"attempt": ""}})
    assert [kept.attempt for kept in await store.checkpoints.rows("r1")] == [1]
    await store.checkpoints.save(row(1, 1, new_step(1, query="again")))
    assert len(await store.checkpoints.rows("r1")) == 1


async def test_the_summary_is_row_0(store: Store, new_step: NewStep, now: datetime) -> None:
    await store.checkpoints.save(row(1, 1, new_step(1)))
    done = StepCheckpoint(
        run_id="r1",
        step_number=9,
        kind=CheckpointKind.EXPLORATION_SUMMARY,
        completed=True,
        completion_msg="all seen",
        total_steps=1,
        exploration_duration_ms=77,
        created_at=now,
    )
    await store.checkpoints.save(done)
    stored = await store.checkpoints.summary("r1")
    assert stored == done.model_copy(update={"step_number": 0})
    prefix, usable = await store.checkpoints.load("r1")
    assert (len(prefix), usable) == (1, stored)
    assert await store.checkpoints.delete("r1") == 2
    assert await store.checkpoints.load("r1") == ([], None)
    assert await store.checkpoints.summary("r1") is None


async def journal_writes(store: Store, run: DiscoveryRun, new_step: NewStep, now: datetime) -> Any:
    journal = store.journal(run)
    return {
        "phase": lambda: journal.phase(RunPhase.ANALYSIS, 65, "trends"),
        "feed": lambda: journal.feed(RunStep(timestamp=now, type=RunStepType.QUERY)),
        "step": lambda: journal.step(new_step(1)),
        "count": lambda: journal.count(total_queries=4),
    }


@pytest.mark.parametrize("write", ["phase", "feed", "step", "count"])
@pytest.mark.parametrize(
    ("happens", "reason"), [("cancelled", "was cancelled"), ("taken over", "newer attempt")]
)
async def test_every_journal_write_of_a_lost_run_raises_and_leaves_nothing(
    store: Store,
    raw: Raw,
    new_run: NewRun,
    new_step: NewStep,
    now: datetime,
    write: str,
    happens: str,
    reason: str,
) -> None:
    run = await store.runs.create(new_run())
    if happens == "cancelled":
        await store.cancel_run(run.id)
    else:
        await take_over(raw, run)
    before = await store.runs.get(run.id)
    with pytest.raises(RunSuperseded, match=reason):
        await (await journal_writes(store, run, new_step, now))[write]()
    assert await store.runs.get(run.id) == before
    assert await store.checkpoints.rows(run.id) == []
    assert await store.run_steps.since(run.id) == []


async def test_the_journal_writes_what_the_run_and_its_feed_show(
    store: Store, new_run: NewRun, new_step: NewStep, now: datetime
) -> None:
    run = await store.runs.create(new_run())
    for write in (await journal_writes(store, run, new_step, now)).values():
        await write()
    shown = await store.runs.get(run.id)
    assert (shown.phase, shown.progress, shown.phase_detail) == ("analysis", 65, "trends")
    assert (shown.total_queries, shown.last_checkpoint_step) == (4, 1)
    (fed,) = await store.run_steps.since(run.id)
    assert (fed.run_id, fed.project_id, fed.attempt) == (run.id, run.project_id, 1)


async def test_a_take_over_between_row_and_marker_is_found_by_the_marker(
    store: Store,
    raw: Raw,
    new_run: NewRun,
    new_step: NewStep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = await store.runs.create(new_run())
    save = store.checkpoints.save

    async def save_then_lose(kept: StepCheckpoint) -> None:
        await save(kept)
        await take_over(raw, run)

    monkeypatch.setattr(store.checkpoints, "save", save_then_lose)
    with pytest.raises(RunSuperseded):
        await store.journal(run).step(new_step(1))
    assert len(await store.checkpoints.rows(run.id)) == 1
    assert (await store.runs.get(run.id)).last_checkpoint_step == 0


async def test_a_checkpoint_that_cannot_be_written_does_not_abort_the_run(
    store: Store,
    new_run: NewRun,
    new_step: NewStep,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = await store.runs.create(new_run())

    async def refuse(kept: StepCheckpoint) -> None:
        raise StoreUnavailable("no room")

    monkeypatch.setattr(store.checkpoints, "save", refuse)
    with caplog.at_level(logging.WARNING):
        await store.journal(run).step(new_step(1))
    assert "step 1 of run" in caplog.text
    assert (await store.runs.get(run.id)).last_checkpoint_step == 0


async def test_the_feed_is_ordered_and_scoped_to_an_attempt(
    store: Store, raw: Raw, now: datetime
) -> None:
    def fed(number: int, attempt: int) -> RunStep:
        return RunStep(
            run_id="r1", step_num=number, attempt=attempt, timestamp=now, type=RunStepType.QUERY
        )

    ids = [(await store.run_steps.append(fed(n, 1 + n // 30))).id for n in range(60)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 60
    await raw("discovery_run_steps").update({"_id": ids[0]}, {"$unset": {"attempt": ""}})

    async def numbers(**page: Any) -> list[int]:
        return [found.step_num for found in await store.run_steps.since("r1", **page)]

    assert await numbers() == list(range(60))
    assert await numbers(attempt=1) == list(range(30))
    assert await numbers(attempt=2, limit=2) == [30, 31]
    assert await numbers(attempt=2, since_id=ids[40]) == list(range(41, 60))
    assert await numbers(since_id=ids[-1]) == []


async def test_feed_ids_ascend_when_the_clock_goes_back(
    store: Store, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(["6a" + "f" * 22, "60" + "0" * 22, "6a" + "f" * 22])
    monkeypatch.setattr("adapters.store.client.new_id", lambda: next(moments))
    blank = RunStep(run_id="r1", timestamp=now, type=RunStepType.PHASE)
    ids = [(await store.run_steps.append(blank)).id for _ in range(3)]
    assert ids == ["6a" + "f" * 22, "6b" + "0" * 22, "6b" + "0" * 21 + "1"]
