"""Making a failed run active again, and what attempts leave for each other (reference K)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.store import connect
from adapters.store.client import Collection
from adapters.store.store import Store
from pipeline.errors import Conflict, NotFound, RunSuperseded
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Insight,
    RunPhase,
    StandaloneDoc,
    ValidationResult,
)
from pipeline.records.checkpoint import AreaCheckpoint
from pipeline.settings import StoreSettings

NewRun = Callable[..., DiscoveryRun]
NewStep = Callable[..., ExplorationStep]
NewDiscovery = Callable[..., DiscoveryResult]
Raw = Callable[[str], Collection]


@pytest.fixture
async def failed(store: Store, new_run: NewRun, new_step: NewStep) -> DiscoveryRun:
    """A run that kept two steps and a partial result, and failed."""
    run = await store.runs.create(new_run(job_id="job", max_steps=9, min_steps=3))
    await store.runs.start(run.id, 1, owner="host:1:2")
    for number in (1, 2):
        await store.journal(run).step(new_step(number))
    await store.runs.fail(run.id, 1, "it broke", discovery_id="d1", active_ms=40)
    return await store.runs.get(run.id)


async def test_a_failed_run_becomes_active_under_the_next_attempt(
    store: Store, failed: DiscoveryRun
) -> None:
    resumed = await store.begin_resume(failed.id)
    assert resumed == await store.runs.get(failed.id)
    assert (resumed.status, resumed.phase, resumed.attempt) == ("running", RunPhase.INIT, 2)
    assert resumed.phase_detail == "resuming after step 2"
    assert (resumed.error, resumed.completed_at, resumed.discovery_id) == ("", None, "")
    assert (resumed.owner, resumed.heartbeat_at, resumed.job_id) == ("", None, "")
    assert resumed.last_resumed_at is not None
    kept = ("started_at", "active_ms", "max_steps", "min_steps", "last_checkpoint_step")
    for name in kept:
        assert getattr(resumed, name) == getattr(failed, name), name
    event = resumed.lifecycle[-1]
    assert (event.status, event.attempt, event.reason) == ("running", 2, resumed.phase_detail)
    await store.runs.start(resumed.id, 2, owner="host:3:4")
    await store.runs.complete(resumed.id, 2, discovery_id="d2", active_ms=2)
    assert (await store.runs.get(resumed.id)).active_ms == 42


@pytest.mark.parametrize(("stored", "next_attempt"), [(None, 2), (0, 2), (1, 2), (2, 3), (7, 8)])
async def test_the_next_attempt_is_one_more_and_at_least_2(
    store: Store, raw: Raw, failed: DiscoveryRun, stored: int | None, next_attempt: int
) -> None:
    change = {"$unset": {"attempt": ""}} if stored is None else {"$set": {"attempt": stored}}
    await raw("discovery_runs").update({"_id": failed.id}, change)
    assert (await store.begin_resume(failed.id)).attempt == next_attempt


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("pending", "is waiting for its start"),
        ("running", "is running"),
        ("completed", "is complete"),
        ("cancelled", "was cancelled, which is final"),
    ],
)
async def test_only_a_failed_run_can_be_resumed(
    store: Store, raw: Raw, failed: DiscoveryRun, status: str, why: str
) -> None:
    await raw("discovery_runs").update({"_id": failed.id}, {"$set": {"status": status}})
    with pytest.raises(Conflict, match=why):
        await store.begin_resume(failed.id)
    assert (await store.runs.get(failed.id)).attempt == 1


async def test_an_unknown_run_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="nope"):
        await store.begin_resume("nope")


@pytest.mark.parametrize("lost", ["all rows", "the first step", "all but the summary"])
async def test_a_run_without_a_prefix_is_refused_even_if_its_summary_survives(
    store: Store, raw: Raw, failed: DiscoveryRun, lost: str
) -> None:
    await store.checkpoints_of(failed).explored(message="m", total_steps=2, duration_ms=1)
    which: dict[str, dict[str, Any]] = {
        "all rows": {},
        "the first step": {"step_number": 1},
        "all but the summary": {"step_number": {"$gt": 0}},
    }
    await raw("discovery_checkpoints").delete({"run_id": failed.id, **which[lost]})
    with pytest.raises(Conflict, match="no checkpoint to resume from"):
        await store.begin_resume(failed.id)
    assert (await store.runs.get(failed.id)).status == "failed"


async def test_another_active_run_of_the_project_comes_first(
    store: Store, failed: DiscoveryRun, new_run: NewRun
) -> None:
    other = await store.runs.create(new_run())
    why = f"run {other.id} of project p1 is active already"
    with pytest.raises(Conflict, match=why):
        await store.begin_resume(failed.id)
    with pytest.raises(Conflict, match=why):
        await store.runs.begin_resume(failed, "as if nobody had looked")
    assert await store.runs.get(failed.id) == failed


async def test_a_run_that_finds_another_one_after_all_stands_down(
    store: Store, failed: DiscoveryRun, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_run()
    looks = iter([None, other])

    async def active(project_id: str, besides: str = "") -> DiscoveryRun | None:
        return next(looks)

    monkeypatch.setattr(store.runs, "active", active)
    with pytest.raises(Conflict, match=other.id):
        await store.begin_resume(failed.id)
    stood_down = await store.runs.get(failed.id)
    assert (stood_down.status, stood_down.attempt) == ("failed", 2)
    assert stood_down.error.startswith(f"not resumed: run {other.id}")


async def test_of_many_that_resume_at_once_exactly_one_wins(
    store: Store, failed: DiscoveryRun, settings: StoreSettings, shared_home: Path
) -> None:
    async with await connect(settings, shared_home) as other:
        answers = await asyncio.gather(
            *(door.begin_resume(failed.id) for door in (store, other) for _ in range(4)),
            return_exceptions=True,
        )
    assert [a.attempt for a in answers if isinstance(a, DiscoveryRun)] == [2]
    assert sum(isinstance(a, Conflict) for a in answers) == 7
    assert (await store.runs.get(failed.id)).attempt == 2


# ---------------------------------------------------------------- what attempts leave


def area(area_id: str = "trends", **fields: Any) -> AreaCheckpoint:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    insight = Insight(id="i1", ref=f"{area_id}-1", analysis_area=area_id, name="N",
                      metrics={"a.b": 1, "$c": [2**70]})  # fmt: skip
    step = AnalysisStep(
        area_id=area_id,
        run_at=at,
        prompt="p",
        insights=[insight],
        validation_results=[ValidationResult(insight_id="i1")],
    )
    return AreaCheckpoint(area_id=area_id, step=step, validated=1, **fields)


async def test_the_next_attempt_finds_steps_summary_and_areas(
    store: Store, failed: DiscoveryRun
) -> None:
    first = store.checkpoints_of(failed)
    await first.explored(message="seen", total_steps=2, duration_ms=9)
    await first.area(area())
    await first.area(area("segments", explored_in=3))
    second = store.checkpoints_of(await store.begin_resume(failed.id))
    kept = await second.load()
    assert [step.step for step in kept.steps] == [1, 2]
    assert kept.summary is not None
    assert (kept.explored, kept.summary.completion_msg, kept.summary.attempt) == (True, "seen", 1)
    (row,) = kept.areas_of(1).values()
    assert (row.run_id, row.project_id, row.attempt, row.validated) == (failed.id, "p1", 1, 1)
    assert row.step.insights[0].metrics == {"a.b": 1, "$c": [str(2**70)]}
    assert row.step.validation_results[0].insight_id == "i1"


async def test_an_old_attempt_can_neither_end_exploration_nor_complete_an_area(
    store: Store, failed: DiscoveryRun
) -> None:
    old = store.checkpoints_of(failed)
    resumed = await store.begin_resume(failed.id)
    writes: list[Callable[[], Any]] = [
        lambda: old.explored(message="m", total_steps=2, duration_ms=1),
        lambda: old.area(area()),
        old.renew,
    ]
    for write in writes:
        with pytest.raises(RunSuperseded, match="newer attempt"):
            await write()
    assert await store.area_checkpoints.of_run(failed.id) == []
    await store.checkpoints_of(resumed).area(area())
    with pytest.raises(RunSuperseded, match="completed the area trends"):
        await store.area_checkpoints.save(area(run_id=failed.id, attempt=1))
    (row,) = await store.area_checkpoints.of_run(failed.id)
    assert row.attempt == 2


async def test_renewed_checkpoints_live_on_together(
    store: Store, raw: Raw, failed: DiscoveryRun
) -> None:
    await store.checkpoints_of(failed).area(area())
    names = ("discovery_checkpoints", "discovery_analysis_checkpoints")
    old = datetime.now(UTC) - timedelta(hours=47)
    for name in names:
        await raw(name).update_all({}, {"$set": {"created_at": old}})
    await store.checkpoints_of(failed).renew()
    for name in names:
        rows = await raw(name).find({})
        assert rows
        assert all(row["created_at"] > old + timedelta(hours=46) for row in rows)


@pytest.mark.parametrize("end", ["delete", "cancel"])
async def test_checkpoints_of_steps_and_areas_go_together(
    store: Store, failed: DiscoveryRun, end: str
) -> None:
    await store.checkpoints_of(failed).area(area())
    await store.begin_resume(failed.id)
    if end == "cancel":
        assert await store.cancel_run(failed.id)
    else:
        await store.delete_checkpoints(failed.id)
    assert await store.checkpoints.rows(failed.id) == []
    assert await store.area_checkpoints.of_run(failed.id) == []


async def test_area_checkpoints_have_their_own_retention(raw: Raw, store: Store) -> None:
    found = await raw("discovery_analysis_checkpoints").indexes()
    assert found["uq_run_area"]["unique"]
    assert found["ttl_analysis_checkpoint"]["expireAfterSeconds"] == 48 * 3600


async def test_a_retired_discovery_takes_everything_derived_from_it_along(
    store: Store, new_discovery: NewDiscovery, new_step: NewStep, now: datetime
) -> None:
    for number, discovery_id in enumerate(("d1", "d2"), 1):
        await store.save_discovery(
            new_discovery(discovery_id, attempt=number),
            exploration=[new_step(1)],
            analysis=[area().step],
            validation=[ValidationResult(insight_id="i")],
            recommendation=None,
        )
        docs = [
            StandaloneDoc(id=f"{kind}-{discovery_id}", kind=kind, discovery_id=discovery_id,
                          project_id="p1", created_at=now)
            for kind in ("insight", "recommendation")
        ]  # fmt: skip
        await store.save_standalone(docs)
    assert await store.discoveries_of("r1") == {"d1": 1, "d2": 2}
    await store.delete_discovery("d1")
    await store.delete_discovery("d1")
    assert await store.discoveries_of("r1") == {"d2": 2}
    for rows in (store.exploration_steps, store.analysis_steps, store.validation_results):
        assert await rows.of("d1") == []
        assert len(await rows.of("d2")) == 1
    for shelf in (store.insights, store.recommendations):
        assert [doc.discovery_id for doc in await shelf.of_project("p1")] == ["d2"]
