"""Runs: the lock of a project, the attempt fence, and how a run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.store import connect
from adapters.store.client import Collection
from adapters.store.runs import Ownership, attempt_filter
from adapters.store.store import Store
from pipeline.errors import Conflict, NotFound, RunSuperseded
from pipeline.records import DiscoveryRun, RunPhase, RunStatus
from pipeline.settings import StoreSettings

NewRun = Callable[..., DiscoveryRun]
Raw = Callable[[str], Collection]


async def put(store: Store, raw: Raw, run: DiscoveryRun, status: str, attempt: int | None) -> str:
    """Store a run in a given state; attempt None means that the field is missing."""
    await store.runs.create(run)
    change: dict[str, Any] = {"$set": {"status": status}}
    if attempt is None:
        change["$unset"] = {"attempt": ""}
    else:
        change["$set"]["attempt"] = attempt
    await raw("discovery_runs").update({"_id": run.id}, change)
    return run.id


async def test_a_run_comes_back_as_it_was(store: Store, new_run: NewRun) -> None:
    created = await store.runs.create(new_run(max_steps=40, areas=["trends"], effort="low"))
    assert await store.runs.get(created.id) == created
    assert [event.status for event in created.lifecycle] == [RunStatus.PENDING]


async def test_an_unknown_run_is_not_found(store: Store) -> None:
    assert await store.runs.find("nope") is None
    with pytest.raises(NotFound, match="no run 'nope'"):
        await store.runs.get("nope")


async def test_at_most_one_active_run_per_project(store: Store, new_run: NewRun) -> None:
    first = await store.runs.create(new_run("p1"))
    await store.runs.create(new_run("p2"))
    with pytest.raises(Conflict, match=f"run {first.id} of project p1 is active"):
        await store.runs.create(new_run("p1"))
    await store.runs.fail(first.id, 1, "it broke")
    second = await store.runs.create(new_run("p1"))
    assert await store.runs.active("p1") == second
    assert [run.id for run in await store.runs.recent("p1")][-1] in {first.id, second.id}
    assert len(await store.runs.all_active()) == 2


async def test_of_many_that_start_at_once_exactly_one_wins(
    store: Store, new_run: NewRun, settings: StoreSettings, shared_home: Path
) -> None:
    async with await connect(settings, shared_home) as other:
        answers = await asyncio.gather(
            *(door.runs.create(new_run("p1")) for door in (store, other) for _ in range(8)),
            return_exceptions=True,
        )
    created = [answer for answer in answers if isinstance(answer, DiscoveryRun)]
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(created), len(refused)) == (1, 15)
    assert all(created[0].id in str(error) for error in refused)


async def test_a_run_id_is_taken_once(store: Store, new_run: NewRun) -> None:
    run = await store.runs.create(new_run("p1"))
    with pytest.raises(Conflict, match="exists already"):
        await store.runs.create(new_run("p2", id=run.id))


@pytest.mark.parametrize(
    ("attempt", "matches"),
    [
        (1, [None, 1]),
        (2, [2]),
        (3, []),
        (0, [None, 1, 2]),
        (-1, [None, 1, 2]),
    ],
)
async def test_attempt_1_matches_a_missing_attempt_and_0_matches_any(
    raw: Raw, attempt: int, matches: list[int | None]
) -> None:
    rows = raw("fence")
    for stored in (None, 1, 2):
        await rows.insert({"a": 0} if stored is None else {"a": 0, "attempt": stored})
    found = await rows.find(attempt_filter(attempt), [("attempt", 1)])
    assert [row.get("attempt") for row in found] == matches


OWNERSHIP = [
    ("running", 1, 1, Ownership.MINE),
    ("running", None, 1, Ownership.MINE),
    ("failed", 1, 1, Ownership.MINE),
    ("running", 2, 1, Ownership.TAKEN_OVER),
    ("running", None, 2, Ownership.TAKEN_OVER),
    ("cancelled", 1, 1, Ownership.CANCELLED),
    ("cancelled", 2, 1, Ownership.CANCELLED),
    ("running", 7, 0, Ownership.MINE),
]


@pytest.mark.parametrize(("status", "stored", "mine", "answer"), OWNERSHIP)
async def test_ownership_has_three_answers_and_cancelled_is_checked_first(
    store: Store,
    raw: Raw,
    new_run: NewRun,
    status: str,
    stored: int | None,
    mine: int,
    answer: Ownership,
) -> None:
    run_id = await put(store, raw, new_run(), status, stored)
    assert await store.runs.ownership(run_id, mine) is answer


async def test_a_run_that_is_gone_counts_as_cancelled(store: Store) -> None:
    assert await store.runs.ownership("gone", 1) is Ownership.CANCELLED


# state of the run, its attempt, mine -> may it report progress, complete, fail?
FENCES = [
    ("pending", 1, 1, True, True, True),
    ("running", 1, 1, True, True, True),
    ("running", None, 1, True, True, True),
    ("running", 2, 1, False, False, False),
    ("running", 1, 2, False, False, False),
    ("running", 3, 0, True, True, True),
    ("failed", 1, 1, True, True, False),
    ("failed", 2, 1, False, False, False),
    ("cancelled", 1, 1, False, False, False),
    ("cancelled", 2, 2, False, False, False),
    ("completed", 1, 1, True, False, False),
]


@pytest.mark.parametrize(("status", "stored", "mine", "progress", "complete", "fail"), FENCES)
async def test_every_write_is_fenced_by_attempt_and_status(
    store: Store,
    raw: Raw,
    new_run: NewRun,
    status: str,
    stored: int | None,
    mine: int,
    progress: bool,
    complete: bool,
    fail: bool,
) -> None:
    async def reaches(write: str) -> bool:
        run_id = await put(store, raw, new_run(f"p-{write}"), status, stored)
        before = await store.runs.get(run_id)
        try:
            if write == "progress":
                await store.runs.progress(run_id, mine, RunPhase.ANALYSIS, 65, "segments")
            elif write == "complete":
                await store.runs.complete(run_id, mine, discovery_id="d9", active_ms=5)
            else:
                assert await store.runs.fail(run_id, mine, "broke") is fail
        except RunSuperseded:
            pass
        return await store.runs.get(run_id) != before

    assert [await reaches(w) for w in ("progress", "complete", "fail")] == [
        progress,
        complete,
        fail,
    ]


async def test_complete_ends_the_run_and_clears_the_checkpoint_marker(
    store: Store, new_run: NewRun
) -> None:
    run = await store.runs.create(new_run())
    await store.runs.start(run.id, 1, llm_provider="offline", llm_model="rules")
    await store.runs.mark_checkpoint(run.id, 1, 4)
    await store.runs.complete(
        run.id, 1, discovery_id="d1", active_ms=1200, llm_provider="offline", llm_model="rules"
    )
    ended = await store.runs.get(run.id)
    assert (ended.status, ended.phase, ended.progress) == ("completed", "complete", 100)
    assert (ended.discovery_id, ended.last_checkpoint_step, ended.active_ms) == ("d1", 0, 1200)
    assert ended.completed_at is not None
    assert [(e.status, e.llm_model) for e in ended.lifecycle] == [
        ("pending", ""),
        ("running", "rules"),
        ("completed", "rules"),
    ]


async def test_a_swept_run_of_the_same_attempt_may_still_complete(
    store: Store, new_run: NewRun
) -> None:
    run = await store.runs.create(new_run())
    assert await store.runs.fail(run.id, 1, "swept", active_ms=10)
    await store.runs.complete(run.id, 1, discovery_id="d1", active_ms=5)
    ended = await store.runs.get(run.id)
    assert (ended.status, ended.error, ended.active_ms) == ("completed", "", 15)


async def test_completing_twice_changes_nothing(store: Store, new_run: NewRun) -> None:
    run = await store.runs.create(new_run())
    await store.runs.complete(run.id, 1, discovery_id="d1", active_ms=5)
    once = await store.runs.get(run.id)
    await store.runs.complete(run.id, 1, discovery_id="d1", active_ms=5)
    assert await store.runs.get(run.id) == once
    with pytest.raises(RunSuperseded, match="discovery d1"):
        await store.runs.complete(run.id, 1, discovery_id="another")


async def test_a_failure_keeps_its_reason_and_the_checkpoint_marker(
    store: Store, new_run: NewRun
) -> None:
    run = await store.runs.create(new_run())
    await store.runs.mark_checkpoint(run.id, 1, 7)
    await store.runs.mark_checkpoint(run.id, 1, 3)
    assert await store.runs.fail(run.id, 0, "the warehouse is gone")
    failed = await store.runs.get(run.id)
    assert (failed.status, failed.error) == ("failed", "the warehouse is gone")
    assert failed.last_checkpoint_step == 7
    assert failed.lifecycle[-1].reason == "the warehouse is gone"
    assert not await store.runs.fail("nope", 1, "no such run")


async def test_cancel_is_terminal_and_deletes_the_checkpoints(
    store: Store, new_run: NewRun, new_step: Callable[..., Any]
) -> None:
    run = await store.runs.create(new_run(attempt=2))
    journal = store.journal(run)
    await journal.step(new_step(1))
    assert await store.cancel_run(run.id)
    assert not await store.cancel_run(run.id)
    cancelled = await store.runs.get(run.id)
    assert (cancelled.status, cancelled.attempt) == ("cancelled", 2)
    assert await store.checkpoints.rows(run.id) == []
    with pytest.raises(RunSuperseded, match="cancelled"):
        await store.runs.complete(run.id, 2, discovery_id="d1")
    assert not await store.cancel_run("nope")


async def test_a_run_that_has_ended_is_not_started_again(store: Store, new_run: NewRun) -> None:
    run = await store.runs.create(new_run())
    await store.runs.fail(run.id, 1, "broke")
    with pytest.raises(RunSuperseded, match="ended already"):
        await store.runs.start(run.id, 1)


async def test_the_driver_of_a_run_is_named_and_its_heartbeat_is_fenced(
    store: Store, raw: Raw, new_run: NewRun
) -> None:
    run = await store.runs.create(new_run())
    await store.runs.start(run.id, 1, owner="host:1:2")
    started = await store.runs.get(run.id)
    assert (started.status, started.owner) == ("running", "host:1:2")
    assert started.heartbeat_at is not None
    await store.runs.heartbeat(run.id, 1)
    beaten = await store.runs.get(run.id)
    assert beaten.heartbeat_at is not None
    assert beaten.heartbeat_at >= started.heartbeat_at
    assert beaten.updated_at == started.updated_at
    await raw("discovery_runs").update({"_id": run.id}, {"$set": {"attempt": 2}})
    with pytest.raises(RunSuperseded, match="newer attempt"):
        await store.runs.heartbeat(run.id, 1)


async def test_counters_are_set_by_name_and_nothing_else_is(store: Store, new_run: NewRun) -> None:
    run = await store.runs.create(new_run())
    await store.runs.count(run.id, 1, {"total_queries": 3, "insights_found": 2})
    counted = await store.runs.get(run.id)
    assert (counted.total_queries, counted.insights_found) == (3, 2)
    for name in ("attempt", "status", "active_ms", "progress", "nonsense"):
        with pytest.raises(ValueError, match=f"no counter {name}"):
            await store.runs.count(run.id, 1, {name: 9})
