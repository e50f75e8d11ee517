"""The process behind ``veridical up``: a cluster, the store and the API until told to end."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from actors.cluster import client_environment
from actors.ownership import is_alive, me
from pipeline.errors import ClusterUnavailable, Conflict, VeridicalError
from pipeline.settings import Settings

if TYPE_CHECKING:
    from adapters.store.store import Store
    from serve.jobs import RunJobs

START_S, STOP_S = 240.0, 60.0
POLL_S = 0.1
REAP_S = 15.0
OWN = "veridical: "


class HostStatus(BaseModel):
    """What ``<home>/host.json`` says while the host is up."""

    pid: int
    owner: str
    """The process, in the form of ``DiscoveryRun.owner``."""
    api_url: str
    dashboard_url: str
    ray_address: str
    started_at: datetime


def _file(settings: Settings) -> Path:
    return settings.home.path / "host.json"


def status(settings: Settings) -> HostStatus | None:
    """The host of this home, or None when it is not up."""
    try:
        found = HostStatus.model_validate_json(_file(settings).read_bytes())
    except (OSError, ValidationError):
        return None
    return found if is_alive(found.owner) else None


def client_variables(settings: Settings, host: HostStatus) -> dict[str, str]:
    """What the environment of a Ray client must hold to use the host's cluster: ``ray.init`` reads
    RAY_ADDRESS, the commands of ``ray job`` prefer RAY_API_SERVER_ADDRESS."""
    return {
        "RAY_ADDRESS": host.ray_address,
        "RAY_API_SERVER_ADDRESS": host.dashboard_url,
        **client_environment(settings.home.path),
        "VERIDICAL_HOME": str(settings.home.path),
    }


def up(settings: Settings, port: int) -> HostStatus:
    """Start the host in the background and wait until it serves. Raises ``Conflict`` when it is up
    already, or the reason for which it could not start."""
    log = settings.home.path / "logs" / "host.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with _starting(settings):
        if running := status(settings):
            raise Conflict(f"Veridical is up already at {running.api_url} (pid {running.pid})")
        with log.open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", "serve.host", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, "VERIDICAL_HOME": str(settings.home.path)},
                start_new_session=True,
            )
        try:
            return _wait_until_up(settings, child, log)
        except BaseException:  # an interruption too
            child.terminate()
            child.wait(STOP_S)
            raise


def _wait_until_up(settings: Settings, child: subprocess.Popen[bytes], log: Path) -> HostStatus:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise ClusterUnavailable(_reason(log))
        found = status(settings)
        if found is not None and found.pid == child.pid:
            return found
        time.sleep(POLL_S)
    raise ClusterUnavailable(f"Veridical did not come up within {START_S:.0f} s; see {log}")


def down(settings: Settings) -> bool:
    """End the host and wait until it is gone. False when it was not up."""
    running = status(settings)
    if running is None:
        return False
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, sign)
        deadline = time.monotonic() + STOP_S
        while time.monotonic() < deadline:
            if not is_alive(running.owner):
                _file(settings).unlink(missing_ok=True)
                return True
            time.sleep(POLL_S)
    raise ClusterUnavailable(f"the host (pid {running.pid}) does not end; see `ps {running.pid}`")


@contextlib.contextmanager
def _starting(settings: Settings) -> Generator[None]:
    """One start at a time in a home."""
    with (settings.home.path / "host.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _reason(log: Path) -> str:
    """Why the host ended: its own last sentence in the log, to which others write as well."""
    lines = log.read_text(errors="replace").splitlines()
    own = [line.removeprefix(OWN) for line in lines if line.startswith(OWN)]
    return own[-1] if own else f"Veridical ended while it started; see {log}"


async def serve_until_stopped(settings: Settings, port: int) -> None:
    """Keep everything up until SIGTERM or SIGINT, reaping runs whose driver has died."""
    from serve.deployment import check_port
    from serve.jobs import RunJobs
    from serve.runtime import open_runtime

    check_port(port)  # now, not after Ray has started
    async with open_runtime(settings) as runtime, runtime.serving(port) as api_url:
        found = HostStatus(
            pid=os.getpid(),
            owner=me(),
            api_url=api_url,
            dashboard_url=await runtime.dashboard_url(),
            ray_address=runtime.cluster.address,
            started_at=datetime.now(UTC),
        )
        fresh = _file(settings).with_suffix(".new")
        fresh.write_text(found.model_dump_json())
        fresh.replace(_file(settings))
        try:
            await _reap_for_ever(runtime.store, RunJobs(found.dashboard_url, settings.home.path))
        finally:
            _file(settings).unlink(missing_ok=True)


async def _reap_for_ever(store: Store, jobs: RunJobs) -> None:
    """Mark runs as failed whose driver has died."""
    from actors.runs import reap

    while True:
        try:
            await reap(store)
            await jobs.reap(store)
        except VeridicalError as error:
            _say(str(error))
        await asyncio.sleep(REAP_S)


def _say(sentence: str) -> None:
    print(f"{OWN}{' '.join(sentence.split())}", file=sys.stderr, flush=True)


def main() -> int:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    try:
        asyncio.run(serve_until_stopped(Settings.load(), port))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 0
    except VeridicalError as error:
        _say(str(error))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
