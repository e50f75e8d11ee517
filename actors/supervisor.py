"""RunSupervisor: opens everything that a run needs, drives its phases, and writes how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

from actors.calls import call
from actors.ending import conclude, discard
from actors.leased import release
from actors.llm import ModelClient, keep_window, start_llm
from actors.ownership import HEARTBEAT, me
from actors.remote import actor, cancel, kill
from actors.schema_cache import start_schema_cache
from actors.step_index import start_step_index
from actors.validators import AgentPool, agent_maker
from actors.vectors import FindingsClient, start_vectors
from actors.warehouse import WarehouseClient, start_warehouse
from adapters.llm import choose
from adapters.store import connect
from adapters.store.store import Store
from adapters.warehouses import fingerprints
from pipeline.discovery import DiscoveryDeps, discover
from pipeline.errors import (
    BadRequest,
    ClusterUnavailable,
    ForOperator,
    RunSuperseded,
    VeridicalError,
)
from pipeline.ports import ModelInfo
from pipeline.records import DiscoveryRun, Project
from pipeline.settings import Settings
from pipeline.validation.policy import policy_for

log = logging.getLogger(__name__)

STOPPED = "the run was interrupted; its finished steps are kept"
STOP_S = 10.0
"""How long an interrupted supervisor may take to let go of what it holds."""


class RunSupervisorShell:
    """One run. Its warehouses, caches and agents are its children and end with it."""

    def __init__(self, settings: Settings, run_id: str, owner: str) -> None:
        self._settings, self._run_id, self._owner = settings, run_id, owner

    async def run(self) -> DiscoveryRun:
        """Drive the run to a terminal status and return its record. A run that fails is recorded,
        not raised; ``StoreUnavailable`` is raised when not even that can be written."""
        async with await connect(self._settings.store, self._settings.home.path) as store:
            return await _Attempt(self._settings, store, self._owner).drive(self._run_id)

    def __repr__(self) -> str:
        return f"RunSupervisor({self._run_id})"


class _Attempt:
    """One attempt at a run, from ``pending`` to its terminal status."""

    def __init__(self, settings: Settings, store: Store, owner: str) -> None:
        self._settings, self._store, self._owner = settings, store, owner
        self._started = time.monotonic()
        self._model = ModelInfo(provider="", model="")
        self._left_out: dict[str, str] = {}

    async def drive(self, run_id: str) -> DiscoveryRun:
        run = await self._store.runs.get(run_id)
        await self._name_model(run)
        await self._store.runs.start(
            run.id,
            run.attempt,
            owner=self._owner,
            llm_provider=self._model.provider,
            llm_model=self._model.model,
        )
        beating = asyncio.create_task(self._beat(run))
        try:
            await self._to_its_end(run)
        finally:
            beating.cancel()
        return await self._store.runs.get(run_id)

    async def _name_model(self, run: DiscoveryRun) -> None:
        """Which model will serve the attempt: its first lifecycle event says so, for an attempt
        that is killed writes no other."""
        try:
            project = await self._store.projects.get(run.project_id)
            chosen = choose(project.llm, self._settings.model)
        except VeridicalError:
            return  # it ends the run soon, and is told as the reason then
        self._model = ModelInfo(provider=chosen.provider, model=chosen.model)

    async def _beat(self, run: DiscoveryRun) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT.total_seconds())
            try:
                await self._store.runs.heartbeat(run.id, run.attempt)
            except VeridicalError as error:
                log.warning("the heartbeat of run %s was not written: %s", run.id, error)

    async def _to_its_end(self, run: DiscoveryRun) -> None:
        try:
            project = await self._store.projects.get(run.project_id)
            async with self._dependencies(project, run) as (deps, findings):
                try:
                    result = await discover(run, project, deps)
                    await conclude(self._store, run, result, findings, **self._spent())
                except RunSuperseded:
                    await discard(self._store, run, findings)
                    raise
        except RunSuperseded as error:
            log.warning("run %s: %s", run.id, error)
        except VeridicalError as error:
            await self._fail(run, str(error))
        except Exception as error:
            log.exception("run %s failed", run.id)
            await self._fail(run, f"internal error: {type(error).__name__}: {error}")

    async def _fail(self, run: DiscoveryRun, reason: str) -> None:
        await self._store.runs.fail(run.id, run.attempt, reason, **self._spent())

    def _spent(self) -> dict[str, Any]:
        return {
            "active_ms": int((time.monotonic() - self._started) * 1000),
            "llm_provider": self._model.provider,
            "llm_model": self._model.model,
        }

    # ------------------------------------------------------------ what the phases work with

    @contextlib.asynccontextmanager
    async def _dependencies(
        self, project: Project, run: DiscoveryRun
    ) -> AsyncGenerator[tuple[DiscoveryDeps, FindingsClient]]:
        settings, shared = self._settings, list[Any]()
        windows, opened = self._store.model_windows, list[ModelClient]()
        warming: asyncio.Task[None] | None = None
        try:
            warehouses, model, (embedder, findings) = await asyncio.gather(
                self._warehouses(project),
                start_llm(project.llm, settings.model, run.id, windows),
                start_vectors(project.embedding, settings.vectors, settings.home.path, run.id),
            )
            shared += [model.handle, findings.handle]
            opened.append(model)
            self._model = model.info
            catalog = start_schema_cache(
                settings, project, warehouses, embedder, skip_cache=run.skip_cache
            )
            prints = await fingerprints(project.datasources())
            deps = DiscoveryDeps(
                settings=settings,
                model=model,
                warehouses=warehouses,
                left_out=self._left_out,
                pairs=self._store.key_pairs.of_project(project.id, prints),
                catalog=catalog,
                index=start_step_index(embedder),
                findings=findings,
                journal=self._store.journal(run),
                checkpoints=self._store.checkpoints_of(run),
                memory=self._store,
                archive=self._store,
                policy=policy_for(settings.validation.VALIDATION_CONCURRENCY),
            )
            make = agent_maker(model, warehouses, catalog, settings.validation)
            slots = settings.validation.VALIDATION_CONCURRENCY
            pool = AgentPool(make, slots, deps.results, deps.steps)
            deps.agents = pool
            if project.validation_enabled:
                warming = asyncio.create_task(pool.warm_up())
            yield deps, findings
        finally:
            if warming is not None:
                warming.cancel()
            for client in opened:
                await keep_window(project.llm, settings.model, client, windows)
            for handle in shared:
                await release(handle, run.id)

    async def _warehouses(self, project: Project) -> dict[str, WarehouseClient]:
        """Every datasource that opens, the primary first. A broken secondary is skipped with a
        warning; a broken primary fails the run."""
        configs = project.datasources()
        if not configs:
            raise BadRequest(
                f"the project {project.name} has no warehouse; create it again with --warehouse"
            )
        found = await asyncio.gather(
            *(start_warehouse(config, self._settings.warehouse) for config in configs),
            return_exceptions=True,
        )
        opened: dict[str, WarehouseClient] = {}
        for config, client in zip(configs, found, strict=True):
            if isinstance(client, WarehouseClient):
                opened[config.id] = client
            elif config is configs[0] or not isinstance(client, ForOperator):
                raise client
            else:
                self._left_out[config.id] = str(client)
        return opened


def actor_name(run: DiscoveryRun) -> str:
    """The supervisor's name. An earlier attempt's may still be there, so resumed ones are told."""
    return f"run:{run.id}" if run.attempt <= 1 else f"run:{run.id}:{run.attempt}"


async def supervise(settings: Settings, store: Store, run: DiscoveryRun) -> DiscoveryRun:
    """Run the supervisor actor of a pending or resumed run to its end, and return the run as it
    ended.

    When the actor dies, or this call is cancelled, the run is marked failed with the reason; its
    finished steps are kept.
    """
    supervisor: Any = (
        actor(RunSupervisorShell).options(name=actor_name(run)).remote(settings, run.id, me())
    )
    driving = supervisor.run.remote()
    try:
        return await call(driving, lambda why: ClusterUnavailable(f"the supervisor died: {why}"))
    except asyncio.CancelledError:
        await asyncio.shield(_stop(store, run, driving))
        raise
    except ClusterUnavailable as error:
        await store.runs.fail(run.id, run.attempt, f"{error}; its finished steps are kept")
        return await store.runs.get(run.id)
    finally:
        kill(supervisor)


async def _stop(store: Store, run: DiscoveryRun, driving: Any) -> None:
    """Record the interruption first: whoever interrupted may not wait for the rest."""
    await store.runs.fail(run.id, run.attempt, STOPPED)
    cancel(driving)
    ending: asyncio.Future[Any] = driving.as_future()
    ending.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([ending], timeout=STOP_S)
