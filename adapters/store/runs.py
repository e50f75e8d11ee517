"""Runs, and the fence that keeps a superseded attempt from writing.

A write names the attempt that makes it. It reaches the run only while that attempt owns it:
``attempt`` on the run is the same (a run without one is on its first) and nobody cancelled it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from adapters.store.documents import Document, all_from, from_document, to_document
from adapters.store.indexes import ACTIVE
from pipeline.errors import Conflict, NotFound, RunSuperseded
from pipeline.records import DiscoveryRun, LifecycleEvent, RunPhase, RunStatus

if TYPE_CHECKING:
    from adapters.store.client import Collection

COUNTERS = frozenset(
    name
    for name, field in DiscoveryRun.model_fields.items()
    if field.annotation is int
    and name not in {"attempt", "progress", "active_ms", "last_checkpoint_step"}
)
NOT_CANCELLED = {"status": {"$ne": RunStatus.CANCELLED.value}}
IS_ACTIVE = {"status": {"$in": list(ACTIVE)}}
FIRST_ATTEMPT = (1, None)
"""A stored attempt that is missing reads as None, and means the first."""

LEFT_BEHIND = (
    "error",
    "completed_at",
    "completion_hooks_fired_at",
    "discovery_id",
    "owner",
    "heartbeat_at",
    "job_id",
)
"""Fields of a failed run that say how its last attempt was driven and ended."""


class Ownership(StrEnum):
    MINE = "mine"
    TAKEN_OVER = "taken_over"
    CANCELLED = "cancelled"


def attempt_filter(attempt: int) -> Document:
    """Documents of one attempt: 1 includes those without one; 0 or less matches any."""
    if attempt <= 0:
        return {}
    return {"attempt": {"$in": list(FIRST_ATTEMPT)} if attempt == 1 else attempt}


class RunRepository:
    """Collection ``discovery_runs``."""

    def __init__(self, collection: Collection) -> None:
        self._runs = collection

    # ------------------------------------------------------------ reading

    async def find(self, run_id: str) -> DiscoveryRun | None:
        document = await self._runs.find_one({"_id": run_id})
        return None if document is None else _read(document)

    async def get(self, run_id: str) -> DiscoveryRun:
        """Raises ``NotFound``."""
        run = await self.find(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id!r}; list the project's runs to see which are")
        return run

    async def recent(self, project_id: str = "", limit: int = 50) -> list[DiscoveryRun]:
        """Newest first; of one project, or of all when no project is named."""
        where = {"project_id": project_id} if project_id else {}
        found = await self._runs.find(where, [("started_at", -1)], limit)
        return [_read(document) for document in found]

    async def active(self, project_id: str, besides: str = "") -> DiscoveryRun | None:
        """The project's pending or running run, other than the run ``besides``."""
        other = {"_id": {"$ne": besides}} if besides else {}
        document = await self._runs.find_one({"project_id": project_id, **IS_ACTIVE, **other})
        return None if document is None else _read(document)

    async def all_active(self) -> list[DiscoveryRun]:
        """Every pending or running run, oldest first."""
        return all_from(DiscoveryRun, await self._runs.find(IS_ACTIVE, [("started_at", 1)]))

    async def ownership(self, run_id: str, attempt: int) -> Ownership:
        """Whose run it is. Cancelled comes first; a run that is gone counts as cancelled."""
        document = await self._runs.find_one({"_id": run_id})
        if document is None or document.get("status") == RunStatus.CANCELLED:
            return Ownership.CANCELLED
        owner = document.get("attempt") or 1
        return Ownership.MINE if attempt <= 0 or owner == attempt else Ownership.TAKEN_OVER

    async def check_owned(self, run_id: str, attempt: int) -> None:
        """Raises ``RunSuperseded`` unless the run is this attempt's."""
        match await self.ownership(run_id, attempt):
            case Ownership.MINE:
                return
            case Ownership.CANCELLED:
                raise RunSuperseded(f"run {run_id} was cancelled")
            case Ownership.TAKEN_OVER:
                raise RunSuperseded(
                    f"run {run_id} was taken over by a newer attempt than attempt {attempt}"
                )

    # ------------------------------------------------------------ starting

    async def create(self, run: DiscoveryRun) -> DiscoveryRun:
        """Store a new run, if its project has no active one. Raises ``Conflict`` naming that."""
        from adapters.store.client import DuplicateKey

        run = run.model_copy(update={"updated_at": run.updated_at or run.started_at})
        if not run.lifecycle:
            event = LifecycleEvent(status=run.status, at=run.started_at, attempt=run.attempt)
            run = run.model_copy(update={"lifecycle": [event]})
        for last_try in (False, True):
            try:
                await self._runs.insert(to_document(run))
            except DuplicateKey as error:
                if await self.find(run.id):
                    raise Conflict(f"run {run.id} exists already") from error
                active = await self.active(run.project_id)
                if active is None and not last_try:
                    continue  # the other run ended in between
                name = active.id if active else "another run"
                raise Conflict(occupied(name, run.project_id)) from error
            break
        return run

    async def start(
        self,
        run_id: str,
        attempt: int,
        *,
        owner: str = "",
        llm_provider: str = "",
        llm_model: str = "",
    ) -> None:
        """Mark a pending run as running. Raises ``RunSuperseded`` when it is not ours to start."""
        event = _event(RunStatus.RUNNING, attempt, "", llm_provider, llm_model)
        change = {
            "$set": {
                "status": RunStatus.RUNNING.value,
                "updated_at": event.at,
                "heartbeat_at": event.at,
                "owner": owner,
            },
            "$push": {"lifecycle": to_document(event)},
        }
        where = {"_id": run_id, **attempt_filter(attempt), **IS_ACTIVE}
        if not await self._runs.update(where, change):
            await self.check_owned(run_id, attempt)
            raise RunSuperseded(f"run {run_id} has ended already")

    async def begin_resume(self, run: DiscoveryRun, detail: str) -> DiscoveryRun:
        """Make a failed run, as it was read, active again under the next attempt, and return it.

        One write decides who of many wins. Raises ``Conflict`` when the run is no longer as it was
        read, or another run of its project is active.
        """
        from adapters.store.client import DuplicateKey

        attempt = max(2, run.attempt + 1)
        event = _event(RunStatus.RUNNING, attempt, detail)
        change: Document = {
            "$set": {
                "status": RunStatus.RUNNING.value,
                "phase": RunPhase.INIT.value,
                "phase_detail": detail,
                "attempt": attempt,
                "last_resumed_at": event.at,
                "updated_at": event.at,
            },
            "$unset": dict.fromkeys(LEFT_BEHIND, ""),
            "$push": {"lifecycle": to_document(event)},
        }
        unnumbered = {"attempt": {"$in": [*FIRST_ATTEMPT, 0]}}
        same = unnumbered if run.attempt <= 1 else attempt_filter(run.attempt)
        where = {"_id": run.id, "status": RunStatus.FAILED.value, **same}
        try:
            document = await self._runs.change(where, change)
        except DuplicateKey as error:
            raise Conflict(await self._occupied(run)) from error
        if document is None:
            raise Conflict(f"run {run.id} was resumed or changed by somebody else just now")
        return _read(document)

    async def _occupied(self, run: DiscoveryRun) -> str:
        active = await self.active(run.project_id, besides=run.id)
        return occupied(active.id if active else "another run", run.project_id)

    # ------------------------------------------------------------ working

    async def progress(
        self, run_id: str, attempt: int, phase: RunPhase, progress: int, detail: str = ""
    ) -> None:
        """Say where the run stands (``progress`` in per cent). Raises ``RunSuperseded``."""
        stands = {"phase": phase.value, "progress": progress, "phase_detail": detail}
        await self._fenced(run_id, attempt, {"$set": {**stands, "updated_at": _now()}})

    async def set_job(self, run_id: str, attempt: int, job_id: str) -> None:
        """Name the job that drives the run. Raises ``RunSuperseded``."""
        await self._fenced(run_id, attempt, {"$set": {"job_id": job_id}})

    async def heartbeat(self, run_id: str, attempt: int) -> None:
        """Say that the run's driver lives. Raises ``RunSuperseded``."""
        await self._fenced(run_id, attempt, {"$set": {"heartbeat_at": _now()}})

    async def count(self, run_id: str, attempt: int, counters: Mapping[str, int]) -> None:
        """Set counters. Raises ``RunSuperseded``, or ``ValueError`` for what is no counter."""
        unknown = sorted(counters.keys() - COUNTERS)
        if unknown:
            raise ValueError(f"a run has no counter {', '.join(unknown)}")
        await self._fenced(run_id, attempt, {"$set": {**counters, "updated_at": _now()}})

    async def mark_checkpoint(self, run_id: str, attempt: int, step: int) -> None:
        """Raise the number of the last step that can be replayed. Raises ``RunSuperseded``."""
        change = {"$max": {"last_checkpoint_step": step}, "$set": {"updated_at": _now()}}
        await self._fenced(run_id, attempt, change)

    async def _fenced(self, run_id: str, attempt: int, change: Document) -> None:
        where = {"_id": run_id, **attempt_filter(attempt), **NOT_CANCELLED}
        if not await self._runs.update(where, change):
            await self.check_owned(run_id, attempt)
            raise RunSuperseded(f"run {run_id} changed hands")

    # ------------------------------------------------------------ ending

    async def complete(
        self,
        run_id: str,
        attempt: int,
        *,
        discovery_id: str,
        active_ms: int = 0,
        llm_provider: str = "",
        llm_model: str = "",
    ) -> None:
        """End the run well; ``active_ms`` of this attempt is added to the run's.

        A run that a sweep marked failed during this attempt becomes completed all the same, a
        cancelled one never. Saying it twice changes nothing. Raises ``RunSuperseded``.
        """
        event = _event(RunStatus.COMPLETED, attempt, "", llm_provider, llm_model)
        change = _ending(event, active_ms)
        change["$set"] |= {
            "phase": RunPhase.COMPLETE.value,
            "phase_detail": "",
            "progress": 100,
            "error": "",
            "discovery_id": discovery_id,
            "last_checkpoint_step": 0,
        }
        open_or_failed = {"status": {"$in": [*ACTIVE, RunStatus.FAILED.value]}}
        where = {"_id": run_id, **attempt_filter(attempt), **open_or_failed}
        if await self._runs.update(where, change):
            return
        await self.check_owned(run_id, attempt)
        run = await self.get(run_id)
        if run.status is RunStatus.COMPLETED and run.discovery_id != discovery_id:
            raise RunSuperseded(f"run {run_id} is complete with discovery {run.discovery_id}")

    async def fail(
        self,
        run_id: str,
        attempt: int,
        reason: str,
        *,
        discovery_id: str = "",
        active_ms: int = 0,
        llm_provider: str = "",
        llm_model: str = "",
    ) -> bool:
        """End an active run with its reason; False when it had ended, or is not this attempt's.

        ``discovery_id`` names a partial result, if one was saved.

        ``attempt`` 0 means whichever attempt it is on.
        """
        run = await self.find(run_id)
        if run is None:
            return False
        mine = attempt if attempt > 0 else run.attempt
        event = _event(RunStatus.FAILED, mine, reason, llm_provider, llm_model)
        change = _ending(event, active_ms)
        change["$set"] |= {"error": reason, "discovery_id": discovery_id}
        return await self._runs.update(
            {"_id": run_id, **attempt_filter(attempt), **IS_ACTIVE}, change
        )

    async def cancel(self, run_id: str, reason: str = "cancelled on request") -> bool:
        """End an active run for good; False when it had ended. Its attempt stays as it is."""
        run = await self.find(run_id)
        if run is None:
            return False
        change = _ending(_event(RunStatus.CANCELLED, run.attempt, reason), 0)
        change["$set"] |= {"error": reason, "last_checkpoint_step": 0}
        return await self._runs.update({"_id": run_id, **IS_ACTIVE}, change)


def occupied(name: str, project_id: str) -> str:
    """Why no run of the project can become active now."""
    return f"run {name} of project {project_id} is active already; wait until it ends, or cancel it"


def _read(document: Mapping[str, Any]) -> DiscoveryRun:
    return from_document(DiscoveryRun, {**document, "attempt": document.get("attempt") or 1})


def _event(
    status: RunStatus, attempt: int, reason: str, provider: str = "", model: str = ""
) -> LifecycleEvent:
    return LifecycleEvent(
        status=status,
        at=_now(),
        reason=reason,
        attempt=max(attempt, 1),
        llm_provider=provider,
        llm_model=model,
    )


def _ending(event: LifecycleEvent, active_ms: int) -> dict[str, Document]:
    return {
        "$set": {"status": event.status.value, "completed_at": event.at, "updated_at": event.at},
        "$inc": {"active_ms": active_ms},
        "$push": {"lifecycle": to_document(event)},
    }


def _now() -> datetime:
    return datetime.now(UTC)
