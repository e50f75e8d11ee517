# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# Ray's functions are partly untyped.
"""A whole run on real parts (Ray, the embedded store, DuckDB, vectors), and how runs end."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import ray

from actors.cluster import Cluster, client_environment
from actors.llm import window_name
from actors.remote import kill
from actors.runs import create_run, resume_run
from actors.supervisor import STOPPED, supervise
from adapters.store import connect, settled
from adapters.store.store import Store
from pipeline.errors import Conflict
from pipeline.packs import load_pack, new_project
from pipeline.planning import plan_run
from pipeline.records import DiscoveryRun, LlmConfig, Project, RunStatus, Status, WarehouseConfig
from pipeline.settings import Settings
from tests.servers.analyst_server import AnalystServer, analyst_server
from tests.servers.model_server import Answer, ModelServer, Request, model_server, status

ROOT = Path(__file__).parents[2]
HANG = Answer(hang=True)


@pytest.fixture
def settings(
    ray_home: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Generator[Settings]:
    monkeypatch.setenv("VERIDICAL_HOME", str(ray_home))
    monkeypatch.setenv("LLM_RETRY_MAX_ATTEMPTS", "1")
    yield Settings.load()
    # An actor that was killed holds the store until the kernel has ended it.
    assert any(settled(ray_home) for _ in range(40))


@pytest.fixture
async def store(settings: Settings) -> AsyncGenerator[Store]:
    async with await connect(settings.store, settings.home.path) as store:
        yield store


@pytest.fixture
def models() -> Generator[ModelServer]:
    with model_server() as server:
        yield server


async def project_over(store: Store, warehouse: WarehouseConfig, **fields: Any) -> Project:
    return await store.projects.create(
        new_project("shop", load_pack("general"), warehouse, **fields)
    )


def model_at(server: ModelServer) -> LlmConfig:
    return LlmConfig(provider="openai", model="m", config={"base_url": server.openai_url})


async def pending(store: Store, project: Project, max_steps: int = 14) -> DiscoveryRun:
    planned = plan_run(project, now=datetime.now(UTC), max_steps=max_steps)
    return await create_run(store, planned)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - the server's log has no event to wait for
            await asyncio.sleep(0.05)


async def test_a_run_goes_through_all_phases_to_a_stored_discovery(
    store: Store, settings: Settings, shop: WarehouseConfig
) -> None:
    project = await project_over(store, shop)
    run = await supervise(settings, store, await pending(store, project))
    assert (run.status, run.error) == (RunStatus.COMPLETED, "")
    discovery = await store.discoveries.get(run.discovery_id)
    assert discovery.insights
    assert all(
        i.validation and i.validation.verifier and i.validation.refuter for i in discovery.insights
    )
    phases = [row.phase for row in await store.run_steps.since(run.id, limit=1000)]
    assert list(dict.fromkeys(phases)) == [
        "init",
        "schema_discovery",
        "exploration",
        "analysis",
        "validation",
        "recommendations",
        "saving",
        "embed_index",
    ]
    steps = await store.exploration_steps.of(run.discovery_id)
    path = str(shop.config["path"])
    with duckdb.connect(path, read_only=True) as db:
        for step in steps:
            if step.succeeded:
                assert len(db.execute(step.query).fetchall()) == step.row_count
    assert [(e.status, e.attempt, e.llm_provider, e.llm_model) for e in run.lifecycle] == [
        (RunStatus.PENDING, 1, "", ""),
        (RunStatus.RUNNING, 1, "offline", "offline-analyst"),
        (RunStatus.COMPLETED, 1, "offline", "offline-analyst"),
    ], "which model ran which attempt"
    assert run.active_ms > 0
    context = await store.context(project.id)
    assert context is not None
    assert context.discoveries == 1


async def test_runs_over_both_providers_protocols_end_alike(
    store: Store, settings: Settings, shop: WarehouseConfig
) -> None:
    found: list[list[tuple[str, Any]]] = []
    with analyst_server() as server:
        urls = {"openai": server.openai_url, "anthropic": server.anthropic_url}
        for provider, url in urls.items():
            llm = LlmConfig(provider=provider, model="m", config={"base_url": url})
            project = await project_over(store, shop, llm=llm)
            run = await supervise(settings, store, await pending(store, project, max_steps=8))
            assert (run.status, run.error) == (RunStatus.COMPLETED, "")
            assert run.lifecycle[-1].llm_provider == provider
            insights = (await store.discoveries.get(run.discovery_id)).insights
            found.append([(i.name, i.validation and i.validation.combined) for i in insights])
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("fault", ["missing", "empty"])
async def test_a_run_on_a_bad_warehouse_fails_with_its_reason(
    store: Store, settings: Settings, tmp_path: Path, fault: str
) -> None:
    path = tmp_path / "w.duckdb"
    if fault == "empty":
        duckdb.connect(str(path)).close()
    project = await project_over(store, WarehouseConfig(config={"path": str(path)}))
    run = await supervise(settings, store, await pending(store, project))
    assert run.status is RunStatus.FAILED
    assert {"missing": "w.duckdb", "empty": "no table"}[fault] in run.error
    assert "\n" not in run.error.strip()


async def test_a_model_that_refuses_the_connection_fails_the_run_with_its_address(
    store: Store, settings: Settings, shop: WarehouseConfig
) -> None:
    with model_server() as gone:
        config = model_at(gone)
    project = await project_over(store, shop, llm=config)
    run = await supervise(settings, store, await pending(store, project))
    assert run.status is RunStatus.FAILED
    assert config.config["base_url"].rsplit("/", 1)[0] in run.error


async def test_a_wrong_key_fails_the_run_at_once(
    store: Store, settings: Settings, shop: WarehouseConfig, models: ModelServer
) -> None:
    long = "maximum context length is 9000 tokens and your request has 100 input tokens"
    models.play(status(400, long), *[status(401)] * 5)
    llm = model_at(models)
    project = await project_over(store, shop, llm=llm)
    run = await supervise(settings, store, await pending(store, project))
    assert run.status is RunStatus.FAILED
    assert "key" in run.error.lower()
    assert len(models.chats) == 2, "once more after the overflow, never after the refused key"
    name = window_name(llm, settings.model)
    assert await store.model_windows.learnt(name) == 9000, "what was learnt is kept all the same"


async def test_a_supervisor_that_dies_leaves_a_failed_run_with_the_reason(
    store: Store, settings: Settings, shop: WarehouseConfig, models: ModelServer
) -> None:
    models.play(HANG)
    project = await project_over(store, shop, llm=model_at(models))
    run = await pending(store, project)
    driving = asyncio.ensure_future(supervise(settings, store, run))
    await until(lambda: bool(models.chats))
    with pytest.raises(Conflict, match=run.id):
        await pending(store, project)
    supervisor: Any = ray.get_actor(f"run:{run.id}")
    kill(supervisor)
    ended = await driving
    assert ended.status is RunStatus.FAILED
    assert "the supervisor died" in ended.error


async def test_an_interrupted_run_is_marked_failed_and_lets_go(
    store: Store, settings: Settings, shop: WarehouseConfig, models: ModelServer
) -> None:
    models.play(HANG)
    project = await project_over(store, shop, llm=model_at(models))
    run = await pending(store, project)
    driving = asyncio.ensure_future(supervise(settings, store, run))
    await until(lambda: bool(models.chats))
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    ended = await store.runs.get(run.id)
    assert (ended.status, ended.error) == (RunStatus.FAILED, STOPPED)


class HangingAnalyst(AnalystServer):
    """Stops answering after so many chats, until it is told to go on."""

    hang_after: int = 3

    def next_answer(self, request: Request) -> Answer:
        answer = super().next_answer(request)
        return HANG if len(self.chats) > self.hang_after else answer


async def test_a_run_stopped_by_its_time_limit_is_resumed_and_completes(
    store: Store, settings: Settings, shop: WarehouseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCOVERY_MAX_DURATION", "10")
    with closing(HangingAnalyst()) as server:
        project = await project_over(store, shop, llm=model_at(server))
        stopped = await supervise(Settings.load(), store, await pending(store, project, 8))
        assert (stopped.status, stopped.resumable) == (RunStatus.FAILED, True)
        assert "DISCOVERY_MAX_DURATION" in stopped.error
        partial = await store.discoveries.get(stopped.discovery_id)
        kept, asked = stopped.last_checkpoint_step, len(server.chats)
        assert partial.total_steps == kept > 0

        server.hang_after = 10**6
        run = await supervise(settings, store, await resume_run(store, stopped.id))
        assert (run.status, run.error, run.attempt) == (RunStatus.COMPLETED, "", 2)
        first = server.chats[asked].body["messages"]
    assert sum(turn["role"] == "assistant" for turn in first) == kept
    assert run.active_ms > stopped.active_ms
    steps = await store.exploration_steps.of(run.discovery_id)
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    assert [step.step for step in steps if not step.llm_response] == list(range(1, kept + 1))
    (discovery,) = await store.discoveries.by_run(run.id)
    assert discovery.id == run.discovery_id != partial.id, "the partial result is retired"
    assert discovery.insights
    verdicts = [i.validation and i.validation.combined for i in discovery.insights]
    assert Status.CONFIRMED in verdicts
    assert await store.exploration_steps.of(partial.id) == []
    assert (await store.checkpoints.rows(run.id), run.last_checkpoint_step) == ([], 0)
    assert await store.area_checkpoints.of_run(run.id) == []
    fed = await store.run_steps.since(run.id, attempt=2, limit=1000)
    explored = [row.step_num for row in fed if row.step_num and row.phase == "exploration"]
    assert explored == [step.step for step in steps]


# ---------------------------------------------------------------- as a Ray job


def job(cluster: Cluster, home: Path, *arguments: str) -> subprocess.Popen[str]:
    """The job's own process, as Ray's job manager starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "actors.job", *arguments],
        env={
            **os.environ,
            **client_environment(home),
            "RAY_ADDRESS": cluster.address,
            "VERIDICAL_HOME": str(home),
        },
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_ray_job_submit_runs_the_same_thing_and_succeeds(
    store: Store, settings: Settings, cluster: Cluster, shop: WarehouseConfig
) -> None:
    project = await project_over(store, shop)
    home = settings.home.path
    asked = ["--project-id", project.id, "--run-id", "by-job", "--max-steps", "6"]
    variables = json.dumps({"env_vars": {"VERIDICAL_HOME": str(home)}})
    ray_job_submit = [Path(sys.executable).with_name("ray"), "job", "submit", "--working-dir", "."]
    entrypoint = [sys.executable, "-m", "actors.job", *asked]
    submitted = await asyncio.to_thread(
        subprocess.run,
        [*ray_job_submit, "--runtime-env-json", variables, "--", *entrypoint],
        env={**os.environ, **client_environment(home), "RAY_ADDRESS": cluster.dashboard_url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    run = await store.runs.get("by-job")
    assert run.status is RunStatus.COMPLETED


async def test_a_job_that_cannot_run_exits_with_1_and_says_why(
    settings: Settings, cluster: Cluster
) -> None:
    process = job(cluster, settings.home.path, "--project-id", "nobody", "--run-id", "r")
    _, told = await asyncio.to_thread(process.communicate, timeout=100)
    assert process.returncode == 1
    assert "nobody" in told
    assert "Traceback" not in told


async def test_a_job_stops_cleanly_on_sigterm(
    store: Store, settings: Settings, cluster: Cluster, shop: WarehouseConfig, models: ModelServer
) -> None:
    models.play(HANG)
    project = await project_over(store, shop, llm=model_at(models))
    process = job(cluster, settings.home.path, "--project-id", project.id, "--run-id", "stopped")
    await until(lambda: bool(models.chats))
    process.send_signal(signal.SIGTERM)
    _, told = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in told
    ended = await store.runs.get("stopped")
    assert (ended.status, ended.error) == (RunStatus.FAILED, STOPPED)
    with contextlib.suppress(ValueError):
        ray.get_actor("run:stopped")
        pytest.fail("the supervisor of a stopped job is still there")
