"""The command line over doubles of everything outside it: no Ray, no store, no warehouse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pipeline.errors import Conflict, EmptyWarehouse, WarehouseUnavailable
from pipeline.ports import VectorHit
from pipeline.records import (
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    LlmConfig,
    Project,
    RunStatus,
    RunStep,
    RunStepType,
    WarehouseConfig,
)
from pipeline.settings import Settings
from serve.cli import main, outside

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
Invoke = Callable[..., Result]


def _tables(path: Path) -> int:
    if not path.exists():
        raise WarehouseUnavailable(f"there is no file {path}; check the path")
    if path.stat().st_size == 0:
        raise EmptyWarehouse(f"{path} has no table; load some data")
    return 5


class World:
    """What lies outside the command line, and what the commands did to it."""

    def __init__(self, store: Any, result: DiscoveryResult, steps: list[ExplorationStep]) -> None:
        self.store, self.result = store, result
        one_row = [s.model_copy(update={"query_result": s.query_result[:1]}) for s in steps]
        self.steps = one_row  # nothing to draw: pictures have tests of their own
        self.failure = ""
        """Why the next run fails; empty: it completes."""
        self.interrupt = ""
        """Where Ctrl-C comes: ``run`` or ``serving``."""
        self.store_error: Exception | None = None
        self.broken: dict[str, Exception] = {}
        self.ports: list[int] = []
        self.dashboard = False
        self.started: list[DiscoveryRun] = []
        self.host: Any = None
        self.hits: list[VectorHit] = []
        self.dead: list[str] = []
        """Runs whose driver has died."""
        self.open = 0

    # ------------------------------------------------------------ doors

    @asynccontextmanager
    async def _store(self) -> AsyncGenerator[Any]:
        if self.store_error:
            raise self.store_error
        self.open += 1
        try:
            yield self.store
        finally:
            self.open -= 1

    def open_store(self, settings: Settings) -> AbstractAsyncContextManager[Any]:
        return self._store()

    @asynccontextmanager
    async def _runtime(
        self,
        settings: Settings,
        progress: Callable[[str], None],
        beside: Callable[[], object] | None,
    ) -> AsyncGenerator[Any]:
        progress("starting a local Ray")
        if beside:
            beside()
        async with self._store():
            yield FakeRuntime(self, settings)

    def open_runtime(
        self,
        settings: Settings,
        *,
        progress: Callable[[str], None],
        beside: Callable[[], object] | None = None,
    ) -> AbstractAsyncContextManager[Any]:
        return self._runtime(settings, progress, beside)

    def build_demo_warehouse(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    async def count_tables(self, config: WarehouseConfig, settings: Settings) -> int:
        if config.provider == "cube":
            return 2
        return _tables(Path(str(config.config["path"])))

    async def search_findings(
        self, settings: Settings, project: Project, text: str, limit: int, kind: str
    ) -> list[VectorHit]:
        return [h for h in self.hits if kind in ("", h.payload["type"])][:limit]

    async def check_resumable(self, store: Any, run_id: str) -> DiscoveryRun:
        run = await store.runs.get(run_id)
        if not run.resumable:
            raise Conflict(f"run {run_id} has no checkpoint to resume from")
        return run

    async def note_deaths(self, store: Any) -> None:
        for id_ in self.dead:
            change = {"status": RunStatus.FAILED, "error": "its process ended"}
            store.runs.kept[id_] = store.runs.kept[id_].model_copy(update=change)

    def host_up(self, settings: Settings, port: int) -> Any:
        if self.host:
            raise Conflict("Veridical is up already")
        from serve.host import HostStatus

        self.host = HostStatus(
            pid=7,
            owner="me",
            api_url=f"http://127.0.0.1:{port}",
            dashboard_url="http://127.0.0.1:8265",
            ray_address="127.0.0.1:6379",
            started_at=AT,
        )
        return self.host

    def host_down(self, settings: Settings) -> bool:
        was, self.host = self.host, None
        return was is not None

    def host_status(self, settings: Settings) -> Any:
        return self.host

    async def probe_vectors(self, settings: Settings, embedding: LlmConfig) -> str:
        return self._probe("vectors")

    async def probe_model(self, settings: Settings, llm: LlmConfig) -> str:
        return self._probe("model")

    async def probe_ray(self, address: str) -> str:
        return self._probe("ray")

    def _probe(self, name: str) -> str:
        if name in self.broken:
            raise self.broken[name]
        return f"{name} answers"


class FakeRuntime:
    """Plays a discovery whose result is given."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world, self.settings, self.store = world, settings, world.store

    def start_dashboard(self) -> None:
        self._world.dashboard = True

    async def dashboard_url(self) -> str:
        return "http://127.0.0.1:8265"

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncGenerator[str]:
        self._world.ports.append(port)
        yield f"http://127.0.0.1:{port}"

    async def start_run(self, planned: DiscoveryRun) -> DiscoveryRun:
        number = len(self._world.started) + 1
        run = planned.model_copy(update={"id": f"run-{number}"})
        await self.store.runs.create(run)
        self._world.started.append(run)
        return run

    async def resume_run(self, run_id: str) -> DiscoveryRun:
        resumed = await self.store.begin_resume(run_id)
        self._world.started.append(resumed)
        return resumed

    async def run(self, run: DiscoveryRun) -> DiscoveryRun:
        world = self._world
        for number in (1, 2):
            self._feed(run, number, RunStepType.QUERY, message="How many flights?",
                       query="SELECT COUNT(*) FROM flights", row_count=1, query_time_ms=8,
                       step_num=number, step_total=run.max_steps)  # fmt: skip
        if world.interrupt == "run":
            raise KeyboardInterrupt
        self._feed(run, 3, RunStepType.INSIGHT, insight_name="F9 is late", insight_severity="high")
        self._feed(run, 4, RunStepType.VALIDATION, insight_name="F9 is late", combined="confirmed")
        change: dict[str, Any] = {"status": RunStatus.FAILED, "error": world.failure}
        if not world.failure:
            name = f"discovery-{run.id}"
            ids = {"id": name, "project_id": run.project_id, "run_id": run.id}
            self.store.discoveries.kept[name] = world.result.model_copy(update=ids)
            self.store.exploration_steps.kept[name] = world.steps
            change = {"status": RunStatus.COMPLETED, "discovery_id": name}
        self.store.runs.kept[run.id] = run.model_copy(update=change)
        return self.store.runs.kept[run.id]

    def _feed(self, run: DiscoveryRun, number: int, kind: RunStepType, **more: Any) -> None:
        row = RunStep(
            id=f"{number:03}", run_id=run.id, attempt=run.attempt, timestamp=AT, type=kind, **more
        )
        self.store.run_steps.kept.append(row)

    async def wait_closed(self) -> None:
        if self._world.interrupt == "serving":
            raise KeyboardInterrupt
        await asyncio.Event().wait()


@pytest.fixture
def world(
    store: Any,
    result: DiscoveryResult,
    steps: list[ExplorationStep],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    """Doubles at every door of the command line."""
    world = World(store, result, steps)
    for name in (
        "open_store", "open_runtime", "build_demo_warehouse", "count_tables", "search_findings",
        "host_up", "host_down", "host_status", "probe_vectors", "probe_model", "probe_ray",
        "check_resumable", "note_deaths",
    ):  # fmt: skip
        monkeypatch.setattr(outside, name, getattr(world, name))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    return world


@pytest.fixture
def veridical(world: World) -> Invoke:
    """Runs a command line; stdout, stderr and the exit status are on the result."""
    runner = CliRunner()
    return lambda *words: runner.invoke(main, [str(word) for word in words])
