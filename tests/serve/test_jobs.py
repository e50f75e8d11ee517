"""How the API hands runs over to jobs, against a job server that takes its time or refuses."""

from __future__ import annotations

import asyncio
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ClusterUnavailable
from pipeline.records import DiscoveryRun, Project
from serve import jobs
from serve.jobs import HandOver, RunJobs, entrypoint, job_id

AT = datetime(2026, 11, 30, tzinfo=UTC)


class Store:
    """What is written about runs."""

    def __init__(self) -> None:
        self.runs, self.written = self, list[tuple[str, ...]]()
        self.failed = asyncio.Event()

    async def set_job(self, run_id: str, attempt: int, job: str) -> None:
        self.written.append(("job", run_id, job))

    async def fail(self, run_id: str, attempt: int, reason: str) -> bool:
        self.written.append(("failed", run_id, reason))
        self.failed.set()
        return True


class Server(RunJobs):
    """Answers when it is told to, with ``refusal`` if there is one."""

    def __init__(self, *, refusal: str = "") -> None:
        super().__init__("http://nowhere", Path("/home"))
        self.answers, self.refusal = asyncio.Event(), refusal

    async def submit(self, run: DiscoveryRun) -> str:
        await self.answers.wait()
        if self.refusal:
            raise ClusterUnavailable(self.refusal)
        return job_id(run)


@pytest.fixture
def pending(project: Project) -> DiscoveryRun:
    return DiscoveryRun(id="r-7", project_id=project.id, started_at=AT)


def hand_over(server: Server, written: Store) -> HandOver:
    store: Any = written
    return HandOver(server, store)


def test_one_job_an_attempt_and_the_interpreter_that_runs_this(pending: DiscoveryRun) -> None:
    assert job_id(pending) == "run-r-7-a1"
    assert job_id(pending.model_copy(update={"attempt": 2})) == "run-r-7-a2"
    hostile = pending.model_copy(update={"project_id": "p; rm -rf $HOME"})
    assert shlex.split(entrypoint(hostile)) == [
        *(sys.executable, "-m", "actors.job"),
        *("--project-id", "p; rm -rf $HOME", "--run-id", "r-7"),
    ]


async def test_a_job_that_is_taken_is_named_on_the_run(
    project: Project, pending: DiscoveryRun
) -> None:
    server, store = Server(), Store()
    server.answers.set()
    assert await hand_over(server, store).start_run(project, pending) == "run-r-7-a1"
    assert store.written == [("job", "r-7", "run-r-7-a1")]


async def test_a_refusal_in_time_is_the_callers(project: Project, pending: DiscoveryRun) -> None:
    server = Server(refusal="it is full")
    server.answers.set()
    with pytest.raises(ClusterUnavailable, match="it is full"):
        await hand_over(server, Store()).start_run(project, pending)


async def test_a_slow_cluster_does_not_hold_up_the_request_and_a_late_refusal_fails_the_run(
    project: Project, pending: DiscoveryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "HAND_OVER_S", 0.01)
    server, store = Server(refusal="it is full"), Store()
    desk = hand_over(server, store)
    assert await desk.start_run(project, pending) == "run-r-7-a1"
    server.answers.set()
    await asyncio.wait_for(store.failed.wait(), 5)
    assert store.written[1] == ("failed", "r-7", "the run could not be started: it is full")
    await desk.close()


async def test_what_is_not_taken_when_the_api_ends_is_failed(
    project: Project, pending: DiscoveryRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "HAND_OVER_S", 0.01)
    store = Store()
    desk = hand_over(Server(), store)
    await desk.start_run(project, pending)
    await desk.close()
    assert store.written[1][:2] == ("failed", "r-7")
    assert "the API ended" in store.written[1][2]


async def test_a_cluster_without_a_dashboard_takes_no_jobs(pending: DiscoveryRun) -> None:
    with pytest.raises(ClusterUnavailable, match="dashboard"):
        await RunJobs("", Path("/home")).submit(pending)
