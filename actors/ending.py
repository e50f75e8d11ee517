"""How an attempt ends: the terminal status first, then what it supersedes goes."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from adapters.store.store import Store
from pipeline.context import remember
from pipeline.errors import StoreUnavailable
from pipeline.publishing import Forgetful, retire
from pipeline.records import DiscoveryResult, DiscoveryRun

log = logging.getLogger(__name__)


async def conclude(
    store: Store, run: DiscoveryRun, result: DiscoveryResult, findings: Forgetful, **spent: Any
) -> None:
    """Write how the run ended and, once its result is durable, remove what earlier attempts left.

    A failed run keeps its checkpoints, which are what it can be resumed from. The project remembers
    a result only when it is kept, since nothing retracts that. Raises ``RunSuperseded`` when the
    attempt has lost the run; ``spent`` goes to ``RunRepository.complete`` or ``fail``.
    """
    if not result.failure:
        await store.runs.complete(run.id, run.attempt, discovery_id=result.id, **spent)
        await _tidy(store, run, result, findings)
    elif not await store.runs.fail(
        run.id, run.attempt, result.failure, discovery_id=result.id, **spent
    ):
        await store.runs.check_owned(run.id, run.attempt)
    await remember(store, result, now=datetime.now(UTC))


async def _tidy(
    store: Store, run: DiscoveryRun, result: DiscoveryResult, findings: Forgetful
) -> None:
    try:
        made = await store.discoveries_of(run.id)
        await retire(findings, store, made.keys() - {result.id})
        await store.delete_checkpoints(run.id)
    except StoreUnavailable as error:
        log.warning("run %s: what earlier attempts left is still there: %s", run.id, error)


async def discard(store: Store, run: DiscoveryRun, findings: Forgetful) -> None:
    """Remove the result of an attempt that was cancelled or superseded, if it had saved one."""
    try:
        made = await store.discoveries_of(run.id)
        await retire(findings, store, [id_ for id_, by in made.items() if by == run.attempt])
    except StoreUnavailable as error:
        log.warning("run %s: the result of a lost attempt is still there: %s", run.id, error)
