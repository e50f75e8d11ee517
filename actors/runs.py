"""How a planned run enters the store, and how one whose driver has died is found."""

from __future__ import annotations

from datetime import UTC, datetime

from actors.ownership import is_abandoned
from adapters.store.store import Store
from pipeline.records import DiscoveryRun

ABANDONED = "the process that drove this run ended without a word; its finished steps are kept"


async def create_run(store: Store, run: DiscoveryRun) -> DiscoveryRun:
    """Store a planned run. Raises ``Conflict`` while another run of the project is active; one that
    is active in name only is marked failed first."""
    await reap(store)
    return await store.runs.create(run)


async def check_resumable(store: Store, run_id: str) -> DiscoveryRun:
    """The failed run that could be resumed. One that is active in name only is marked failed first.
    Raises ``NotFound``, or ``Conflict`` with the reason why it cannot be."""
    await reap(store)
    run, _ = await store.resumption.check(run_id)
    return run


async def resume_run(store: Store, run_id: str) -> DiscoveryRun:
    """Make a failed run active under its next attempt; raises as ``check_resumable`` does."""
    await reap(store)
    return await store.begin_resume(run_id)


async def reap(store: Store) -> list[str]:
    """Mark every active run whose driver is dead as failed. Returns their ids."""
    now = datetime.now(UTC)
    abandoned = [run for run in await store.runs.all_active() if is_abandoned(run, now)]
    return [run.id for run in abandoned if await store.runs.fail(run.id, run.attempt, ABANDONED)]
