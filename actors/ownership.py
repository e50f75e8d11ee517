"""Whether the process that drives a run still lives."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta
from pathlib import Path

from pipeline.records import DiscoveryRun

HEARTBEAT = timedelta(seconds=10)
SILENCE = timedelta(seconds=90)
"""A driver on another machine that has been silent for so long counts as dead."""
JOB_START = timedelta(minutes=10)
"""A job that has not begun by then never will; its cluster may be gone."""


def _started(pid: int) -> str:
    """When the kernel started that process, in clock ticks; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    state_and_rest = stat.rsplit(")", 1)[1].split()
    return "" if state_and_rest[0] == "Z" else state_and_rest[19]


def me() -> str:
    """This process, in the form of ``DiscoveryRun.owner``."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Whether a process of this machine, named as by ``me``, still runs."""
    host, _, rest = owner.partition(":")
    pid, _, started = rest.partition(":")
    return host == socket.gethostname() and pid.isdigit() and _started(int(pid)) == started != ""


def is_abandoned(run: DiscoveryRun, now: datetime) -> bool:
    """True when nobody can be driving the run any more."""
    if run.owner.startswith(f"{socket.gethostname()}:"):
        return not is_alive(run.owner)
    last_sign = run.heartbeat_at or run.last_resumed_at or run.started_at
    waits_for_its_job = run.job_id and not run.owner
    return now - last_sign > (JOB_START if waits_for_its_job else SILENCE)
