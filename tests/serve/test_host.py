"""``veridical up`` and what it keeps up, for real; and that nothing outlives any way of ending."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import pytest

from actors.supervisor import STOPPED
from serve.host import HostStatus
from tests.serve.commands import PATIENCE_S, Commands, until

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
OK, USAGE, ENVIRONMENT = 0, 2, 3


@pytest.fixture(scope="module")
def home() -> Generator[Path]:
    """A home with a short path, since Ray keeps sockets below it."""
    folder = Path(tempfile.mkdtemp(prefix="vh-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def commands(home: Path) -> Generator[Commands]:
    commands = Commands(home)
    yield commands
    commands.run("down")
    commands.nothing_left()


@pytest.fixture(scope="module")
def host(commands: Commands) -> HostStatus:
    """The host, which the tests up to the one that kills it share."""
    answer = commands.json("up", "--port", str(free_port()))
    assert answer.pop("running") is True
    return HostStatus.model_validate({**answer, "owner": ""})


@pytest.fixture(scope="module")
def shop(home: Path) -> Path:
    path = home / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            """
            create table orders as
            select i as id, 'shop ' || (i % 10) % 4 as shop,
                   date '2025-01-01' + cast(i % 365 as integer) as ordered_on,
                   cast(5 + (i * 7919) % 4000 / 100.0 as decimal(10, 2)) as amount
            from range(3000) as t(i)
            """
        )
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def create(host: HostStatus, name: str, path: Path) -> str:
    body = {"name": name, "warehouse": {"provider": "duckdb", "config": {"path": str(path)}}}
    answer = httpx2.post(f"{host.api_url}/api/v1/projects", json=body)
    assert answer.status_code == 201
    return answer.json()["data"]["id"]


def discover(host: HostStatus, project: str, **body: Any) -> httpx2.Response:
    url = f"{host.api_url}/api/v1/projects/{project}/discover"
    return httpx2.post(url, json=body, timeout=60)


def get(host: HostStatus, path: str) -> Any:
    answer = httpx2.get(f"{host.api_url}{path}", timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


# ---------------------------------------------------------------- before anything is up


def test_a_port_in_use_is_one_sentence_with_status_3_and_nothing_starts(home: Path) -> None:
    commands = Commands(home)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = commands.run("up", "--port", str(taken.getsockname()[1]))
    assert done.returncode == ENVIRONMENT
    assert re.fullmatch(
        r"veridical: port \d+ on 127.0.0.1 is in use; choose another one with --port\n", done.stderr
    )
    assert commands.left() == []


def test_nothing_is_up_and_says_so(commands: Commands) -> None:
    assert commands.json("status") == {"running": False}
    asked = commands.run("status", "--env")
    assert asked.returncode == ENVIRONMENT
    assert "veridical up" in asked.stderr
    assert commands.json("down") == {"ended": False}


# ---------------------------------------------------------------- up


def test_what_is_up_answers_and_can_do_its_work(commands: Commands, host: HostStatus) -> None:
    shown = commands.json("status")
    assert (shown["running"], shown["api_url"]) == (True, host.api_url)
    assert get(host, "/health") == {"status": "ok"}
    assert get(host, "/health/ready")["checks"] == {"store": "ok", "ray": "ok"}
    dashboard = httpx2.get(host.dashboard_url)
    assert dashboard.status_code == 200
    assert "Ray Dashboard" in dashboard.text


def test_a_discovery_over_http_is_a_ray_job_from_202_to_its_insights(
    commands: Commands, host: HostStatus, shop: Path
) -> None:
    project = create(host, "Shop", shop)
    started = discover(host, project, max_steps=12)
    assert started.status_code == 202, started.text
    run_id = started.json()["data"]["run_id"]
    again = discover(host, project)
    assert (again.status_code, again.json()["run_id"]) == (409, run_id)

    feed: list[dict[str, Any]] = []

    def ended() -> bool:
        since = feed[-1]["id"] if feed else ""
        feed.extend(get(host, f"/api/v1/runs/{run_id}/steps?since_id={since}"))
        return get(host, f"/api/v1/runs/{run_id}")["status"] not in ("pending", "running")

    until(ended)
    run = get(host, f"/api/v1/runs/{run_id}")
    assert (run["status"], run["error"]) == ("completed", "")
    assert len({row["id"] for row in feed}) == len(feed)
    assert {"query", "insight", "validation"} <= {row["type"] for row in feed}

    found = get(host, f"/api/v1/discoveries/{run['discovery_id']}")["insights"]
    assert found
    for insight in found:
        assert insight["validation"]["combined"]
        assert insight["validation"]["verifier"]
        assert insight["validation"]["refuter"]

    (job,) = [job for job in jobs(commands) if job["submission_id"] == run["job_id"]]
    assert run["job_id"] == started.json()["data"]["job_id"]
    assert job["status"] == "SUCCEEDED"
    assert job["metadata"]["veridical_run"] == run_id


def jobs(commands: Commands) -> list[dict[str, Any]]:
    """What Ray's job server knows, asked with the variables of ``status --env``."""
    variables = dict(
        re.findall(r"^export (\w+)=(\S+)$", commands.run("status", "--env").stdout, re.MULTILINE)
    )
    assert variables["RAY_AUTH_MODE"] == "token"
    token = Path(variables["RAY_AUTH_TOKEN_PATH"]).read_text()
    url = f"{variables['RAY_API_SERVER_ADDRESS']}/api/jobs/"
    assert httpx2.get(url).status_code == 401, "not without the token"
    answer = httpx2.get(url, headers={"Authorization": f"Bearer {token}"})
    return json.loads(answer.text)


def test_a_second_up_says_that_it_is_up(commands: Commands, host: HostStatus) -> None:
    done = commands.run("up")
    assert done.returncode == USAGE
    assert host.api_url in done.stderr


def test_after_kill_9_of_the_host_nothing_is_left_and_nothing_is_up(
    commands: Commands, host: HostStatus
) -> None:
    os.kill(host.pid, signal.SIGKILL)
    commands.nothing_left()
    assert commands.json("status") == {"running": False}


def test_of_two_at_once_one_comes_up_and_down_ends_it_with_its_runs(
    commands: Commands, shop: Path
) -> None:
    both = [commands.start("up", "--port", str(free_port())) for _ in range(2)]
    statuses: list[int] = []
    for process in both:
        process.communicate(timeout=PATIENCE_S)
        statuses.append(process.returncode)
    assert sorted(statuses) == [OK, USAGE]
    commands.look()

    host = HostStatus.model_validate({**commands.json("status"), "owner": ""})
    started = discover(host, create(host, "Second shop", shop))
    assert started.status_code == 202, started.text
    done = commands.run("down")
    assert done.returncode == OK
    commands.nothing_left()
    with pytest.raises(httpx2.TransportError):
        httpx2.get(host.api_url)
    (run,) = commands.json("runs", "Second shop")["runs"]
    assert run["status"] == "failed"
    assert run["error"] == STOPPED or "stop" in run["error"] or "API ended" in run["error"]
