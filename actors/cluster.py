"""Which Ray cluster a command works on: the one that is named, the one that is up, or its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors.janitor import MARK_VARIABLE
from actors.remote import leave, reread_authentication
from pipeline.errors import ClusterUnavailable

NAMESPACE = "veridical"
START_TRIES = 2
START_S, DASHBOARD_S, END_S = 150.0, 90.0, 10.0
POLL_S = 0.1
CONNECT_S = 5.0
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Half a minute is what Ray allows itself, which a machine that is busy can exceed.
    "RAY_raylet_start_wait_time_s": "120",
}


class Cluster:
    """A cluster that this process is connected to."""

    def __init__(self, address: str, *, dashboard_url: str = "", head: Head | None = None) -> None:
        """``head`` is given for a cluster that this process started, which ends with it."""
        self.address = address
        """What ``RAY_ADDRESS`` takes."""
        self._url, self._head = dashboard_url, head
        self._asking = threading.Lock()

    @property
    def owned(self) -> bool:
        """True when this process started it."""
        return self._head is not None

    def start_dashboard(self) -> None:
        """Have the dashboard come up in the background, if it has not been asked for yet."""
        if self._head is not None:
            self._head.ask_for_dashboard()

    @property
    def dashboard_url(self) -> str:
        """Where the dashboard and the job server answer; empty when the cluster has none. Waits for
        them to come up. Raises ``ClusterUnavailable``."""
        with self._asking:
            if self._head is not None and not self._url:
                self._head.ask_for_dashboard()
                self._url = self._head.hear("dashboard_url", DASHBOARD_S)
        return self._url


def token_path(home: Path) -> Path:
    """Where the authentication token of clusters started from this home lies."""
    return home / "ray" / "token"


def client_environment(home: Path) -> dict[str, str]:
    """The variables with which a Ray client gets into a cluster started from this home."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_path(home))}


def _ensure_token(home: Path) -> None:
    path = token_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        fresh = path.with_name(f"token.{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()


class Head:
    """The process that holds a local cluster (``actors.head``), as its owner sees it."""

    def __init__(self, folder: Path, home: Path) -> None:
        log = _log(home)
        log.parent.mkdir(parents=True, exist_ok=True)
        # So that `python` means this one in a job's command line.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "actors.head", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                bufsize=0,
                env={**os.environ, "PATH": path, "VERIDICAL_HOME": str(home)},
                start_new_session=True,
            )
        self._asked = threading.Lock()

    def ask_for_dashboard(self) -> None:
        if self._asked.acquire(blocking=False):
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it ended; whoever listens will notice
                self._process.stdin.write(b"dashboard\n")

    def hear(self, word: str, limit_s: float, given_up: threading.Event | None = None) -> str:
        """What the process says for ``word``. Raises ``ClusterUnavailable``: it failed, ended, was
        given up on, or said nothing for too long."""
        assert self._process.stdout is not None
        out, deadline = self._process.stdout, time.monotonic() + limit_s
        while time.monotonic() < deadline and not (given_up and given_up.is_set()):
            if not select.select([out], [], [], POLL_S)[0]:
                continue
            line = out.readline()
            if not line:
                raise ClusterUnavailable("its head process ended")
            with contextlib.suppress(ValueError):  # a line of Ray's own
                said: dict[str, str] = json.loads(line)
                if word in said:
                    return said[word]
                raise ClusterUnavailable(said.get("error", "its head process is confused"))
        raise ClusterUnavailable(f"no answer within {limit_s:.0f} s")

    def end(self) -> None:
        """End the cluster in good order. Blocking."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    def kill(self) -> None:
        """End the process now. Ray's processes go with it, or are swept up."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def connected(
    home: Path, address: str = "", given_up: threading.Event | None = None
) -> Generator[Cluster]:
    """Connect to ``address`` if given, else start a local cluster and end it again.

    Raises ``ClusterUnavailable``. Blocking: call it off the event loop, and set ``given_up`` to
    make it stop waiting for a local cluster to start.
    """
    if address:
        _check_answers(address)
        known = token_path(home).exists() and "RAY_AUTH_MODE" not in os.environ
        with _environment(client_environment(home) if known else {}):
            yield from _session(address)
        return
    _ensure_token(home)
    with _environment(client_environment(home)), contextlib.ExitStack() as stack:
        head, at = _started(stack, home, given_up or threading.Event())
        yield from _session(at, head)


def _started(
    stack: contextlib.ExitStack, home: Path, given_up: threading.Event
) -> tuple[Head, str]:
    """A head process that the stack will end, and its cluster's address. Ray's start fails now and
    then on a busy machine, so it is tried again."""
    for left in reversed(range(START_TRIES)):
        try:
            with contextlib.ExitStack() as attempt:
                head = attempt.enter_context(_head(home))
                import_ray()
                address = head.hear("address", START_S, given_up)
                stack.push(attempt.pop_all())
                return head, address
        except ClusterUnavailable as error:
            if not left or given_up.is_set():
                raise ClusterUnavailable(
                    f"a local Ray could not be started ({error}); see {_log(home)}"
                ) from error
    raise AssertionError("unreachable: the last try returns or raises")


@contextlib.contextmanager
def _head(home: Path) -> Generator[Head]:
    with _swept_folder() as folder:
        head = Head(folder, home)
        try:
            yield head
        except BaseException:
            head.kill()
            raise
        head.end()


def _log(home: Path) -> Path:
    return home / "logs" / "ray.log"


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Generator[None]:
    """Variables that Ray and all that it starts should see, for as long as the context lasts."""
    variables = {**QUIET, **variables}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    reread_authentication()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _swept_folder() -> Generator[Path]:
    """A short folder (Ray keeps sockets in it) and a janitor that outlives this process."""
    mark = secrets.token_hex(8)
    folder = Path(tempfile.mkdtemp(prefix="veridical-ray-"))
    janitor = subprocess.Popen(
        [sys.executable, "-m", "actors.janitor", str(folder), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    try:
        with _environment({MARK_VARIABLE: mark}):
            yield folder
    finally:
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait()


def _check_answers(address: str) -> None:
    """Refuse at once what Ray would try for minutes. Raises ``ClusterUnavailable``."""
    where = urlsplit(address if "://" in address else f"//{address}")
    if where.scheme in ("http", "https"):
        raise ClusterUnavailable(
            f"{address} is the address of a dashboard; RAY_ADDRESS takes the cluster's own "
            "(host:port), and RAY_API_SERVER_ADDRESS the dashboard's"
        )
    try:
        if where.hostname and where.port:
            socket.create_connection((where.hostname, where.port), CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(_nobody_at(address, error)) from error


def _nobody_at(address: str, error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return (
        f"no Ray cluster answers at {address} ({first}); check RAY_ADDRESS and "
        "RAY_AUTH_TOKEN_PATH, or unset RAY_ADDRESS to start a local one"
    )


def import_ray() -> Any:
    """Ray, whose import takes as long as the rest of a command line tool together."""
    import ray

    return ray


def _session(address: str, head: Head | None = None) -> Generator[Cluster]:
    """This process as a driver of the cluster."""
    try:
        context = import_ray().init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="error",
            configure_logging=True,
        )
    except (ConnectionError, OSError, RuntimeError, ValueError, TimeoutError) as error:
        leave()
        raise ClusterUnavailable(_nobody_at(address, error)) from error
    url = str(context.dashboard_url or "")
    try:
        yield Cluster(
            str(context.address_info["address"]),
            dashboard_url=f"http://{url}" if url and "://" not in url else url,
            head=head,
        )
    finally:
        leave()
