"""How attempts end, and what becomes of their results (reference K.2 and K.5)."""

import uuid
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actors.ending import conclude, discard
from adapters.store import connect
from adapters.store.store import Store
from pipeline.errors import RunSuperseded, VectorsUnavailable
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    RunStatus,
    StepAction,
)
from pipeline.records.checkpoint import AreaCheckpoint
from pipeline.settings import StoreSettings

NOW = datetime(2026, 11, 30, tzinfo=UTC)


class Vectors:
    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.broken = False

    async def forget(self, *, discovery_id: str) -> None:
        if self.broken:
            raise VectorsUnavailable("locked")
        self.forgotten.append(discovery_id)


@pytest.fixture
async def store(shared_home: Path) -> AsyncGenerator[Store]:
    settings = StoreSettings(MONGODB_DB=f"test_{uuid.uuid4().hex[:12]}")
    async with await connect(settings, shared_home) as store:
        yield store


@pytest.fixture
def vectors() -> Vectors:
    return Vectors()


def result_of(run: DiscoveryRun, failure: str = "") -> DiscoveryResult:
    return DiscoveryResult(
        id=f"d{run.attempt}",
        project_id=run.project_id,
        run_id=run.id,
        attempt=run.attempt,
        discovery_date=NOW,
        failure=failure,
    )


async def save(store: Store, result: DiscoveryResult) -> DiscoveryResult:
    await store.save_discovery(
        result, exploration=[], analysis=[], validation=[], recommendation=None
    )
    return result


@pytest.fixture
async def second(store: Store, vectors: Vectors) -> DiscoveryRun:
    """The second attempt of a run whose first one left a partial result and checkpoints."""
    first = await store.runs.create(DiscoveryRun(id="r", project_id="p", started_at=NOW))
    step = ExplorationStep(step=1, timestamp=NOW, action=StepAction.QUERY_DATA)
    await store.journal(first).step(step)
    area = AreaCheckpoint(area_id="trends", step=AnalysisStep(area_id="trends", run_at=NOW))
    await store.checkpoints_of(first).area(area)
    partial = await save(store, result_of(first, "out of time"))
    await conclude(store, first, partial, vectors, active_ms=5)
    return await store.begin_resume("r")


async def left(store: Store) -> tuple[list[str], int, int]:
    """Discoveries, step checkpoints and area checkpoints of the run."""
    rows, areas = await store.checkpoints.rows("r"), await store.area_checkpoints.of_run("r")
    return sorted(await store.discoveries_of("r")), len(rows), len(areas)


async def test_a_partial_result_is_kept_and_named_by_its_failed_run(
    store: Store, second: DiscoveryRun
) -> None:
    failed = second.lifecycle[1]
    assert (failed.status, failed.reason, failed.attempt) == (RunStatus.FAILED, "out of time", 1)
    assert second.active_ms == 5
    assert await left(store) == (["d1"], 1, 1)


async def test_a_durable_result_retires_the_earlier_one_and_the_checkpoints_together(
    store: Store, second: DiscoveryRun, vectors: Vectors
) -> None:
    await conclude(store, second, await save(store, result_of(second)), vectors, active_ms=7)
    run = await store.runs.get("r")
    assert (run.status, run.discovery_id, run.active_ms) == ("completed", "d2", 12)
    assert await left(store) == (["d2"], 0, 0)
    assert vectors.forgotten == ["d1"]


async def test_a_failed_attempt_keeps_the_checkpoints_and_retires_nothing(
    store: Store, second: DiscoveryRun, vectors: Vectors
) -> None:
    await conclude(store, second, await save(store, result_of(second, "again")), vectors)
    assert (await store.runs.get("r")).resumable
    assert await left(store) == (["d1", "d2"], 1, 1)
    assert vectors.forgotten == []


async def test_where_the_vectors_stay_both_results_stay(
    store: Store, second: DiscoveryRun, vectors: Vectors
) -> None:
    vectors.broken = True
    await conclude(store, second, await save(store, result_of(second)), vectors)
    assert (await store.runs.get("r")).status is RunStatus.COMPLETED
    assert await left(store) == (["d1", "d2"], 0, 0)


@pytest.mark.parametrize("happens", ["taken over", "cancelled"])
@pytest.mark.parametrize("failure", ["", "again"])
async def test_a_lost_attempt_s_result_goes_and_is_not_remembered(
    store: Store, second: DiscoveryRun, vectors: Vectors, happens: str, failure: str
) -> None:
    result = await save(store, result_of(second, failure))
    before = await store.context("p")
    if happens == "cancelled":
        await store.cancel_run("r")
    else:
        await store.runs.fail("r", 2, "swept")
        await store.begin_resume("r")
    with pytest.raises(RunSuperseded):
        await conclude(store, second, result, vectors)
    await discard(store, second, vectors)
    assert (await left(store))[0] == ["d1"]
    assert vectors.forgotten == ["d2"]
    assert await store.context("p") == before


async def test_the_result_of_an_attempt_that_a_sweep_marked_failed_survives(
    store: Store, second: DiscoveryRun, vectors: Vectors
) -> None:
    before = await store.context("p")
    await store.runs.fail("r", 2, "swept")
    await conclude(store, second, await save(store, result_of(second, "again")), vectors)
    assert (await left(store))[0] == ["d1", "d2"]
    context = await store.context("p")
    assert context is not None
    assert context != before
    assert (context.discoveries, context.run_ids) == (1, ["r"]), "two results of one run"
