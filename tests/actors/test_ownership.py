"""When a run counts as abandoned."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from actors.ownership import JOB_START, SILENCE, is_abandoned, is_alive, me
from pipeline.records import DiscoveryRun, RunStatus

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ELSEWHERE = "another-host:17:400"


def run(
    owner: str,
    *,
    silent: timedelta | None = None,
    begun: timedelta = timedelta(),
    resumed: timedelta | None = None,
    job_id: str = "",
) -> DiscoveryRun:
    return DiscoveryRun(
        id="r",
        project_id="p",
        started_at=NOW - begun,
        owner=owner,
        heartbeat_at=None if silent is None else NOW - silent,
        status=RunStatus.PENDING if resumed is None else RunStatus.RUNNING,
        last_resumed_at=None if resumed is None else NOW - resumed,
        job_id=job_id,
    )


def dead_owner() -> str:
    """The name of a process that has ended."""
    code = "from actors.ownership import me; print(me())"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_this_process_is_alive() -> None:
    assert is_alive(me())


def test_a_process_that_ended_is_not_alive() -> None:
    assert not is_alive(dead_owner())


def test_a_process_that_got_the_pid_of_another_is_not_that_one() -> None:
    host, pid, started = me().rsplit(":", 2)
    assert int(pid) == os.getpid()
    assert not is_alive(f"{host}:{pid}:{int(started) + 1}")


@pytest.mark.parametrize("owner", ["", "nonsense", "a:b", "a:b:c", ":::"])
def test_a_name_that_is_no_process_is_not_alive(owner: str) -> None:
    assert not is_alive(owner)


@pytest.mark.parametrize(
    ("case", "abandoned"),
    [
        (run(me(), silent=timedelta(hours=1)), False),
        (run(dead_owner(), silent=timedelta()), True),
        (run(ELSEWHERE, silent=SILENCE / 2), False),
        (run(ELSEWHERE, silent=SILENCE * 2), True),
        (run("", begun=SILENCE / 2), False),
        (run("", begun=SILENCE * 2), True),
        (run("", begun=SILENCE * 9, resumed=SILENCE / 2), False),
        (run("", begun=SILENCE * 9, resumed=SILENCE * 2), True),
        (run("", begun=JOB_START * 9, resumed=SILENCE * 2, job_id="j"), False),
        (run("", begun=JOB_START * 9, resumed=JOB_START * 2, job_id="j"), True),
    ],
    ids=[
        "its driver lives here, however silent",
        "its driver here has ended",
        "a driver elsewhere that was heard of lately",
        "a driver elsewhere that has gone silent",
        "pending for a moment",
        "pending for too long",
        "resumed a moment ago",
        "resumed and never driven",
        "resumed, and its job has not begun yet",
        "resumed, and its job never began",
    ],
)
def test_a_run_is_abandoned_when_nobody_can_be_driving_it(
    case: DiscoveryRun, abandoned: bool
) -> None:
    assert is_abandoned(case, NOW) is abandoned
