"""Keeps one embedded server alive for as long as any process of a home uses it.

Runs as a small process of its own, from this file alone (standard library, no package), because it
outlives the command that started it. Three things in ``<home>/store`` tie it to its users:

``users.lock``   each user holds it shared; the kernel lets go of it however the user dies. When the
                 keeper can take it exclusively, nobody is left, and the server stops.
``keeper.lock``  held exclusively for the keeper's whole life; whoever can take it knows that there
                 is no keeper. It arrives as an open file, so that no gap lies between the test and
                 the start.
``server.json``  where the server listens; written when it does, removed before it stops.

The server dies with its keeper (``PR_SET_PDEATHSIG``), so that a killed keeper leaves nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

USERS_LOCK, KEEPER_LOCK, SERVER_FILE = "users.lock", "keeper.lock", "server.json"
PORT = "{port}"
"""Stands for the port in the server's command line."""
POLL_S = 0.25
GRACE_S = 1.0
"""How long the server stays up without a user, so that a row of commands shares one."""
START_S, STOP_S, BUSY_S = 60.0, 10.0, 10.0
TAIL_BYTES = 2_000
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ServerFile:
    """What ``server.json`` says."""

    pid: int
    port: int
    keeper_pid: int
    started_at: float

    @classmethod
    def read(cls, folder: Path) -> ServerFile | None:
        """The file's content, or None when there is none or it is unreadable."""
        try:
            raw = json.loads((folder / SERVER_FILE).read_text("utf-8"))
            return cls(
                int(raw["pid"]), int(raw["port"]), int(raw["keeper_pid"]), float(raw["started_at"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Replace the file atomically; readers see the old or the new one, never a part."""
        handle, name = tempfile.mkstemp(dir=folder, prefix=SERVER_FILE)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({field: getattr(self, field) for field in self.__slots__}, file)
        Path(name).replace(folder / SERVER_FILE)


def try_lock(fd: int, kind: int) -> bool:
    """Take a lock (``fcntl.LOCK_SH`` or ``LOCK_EX``) without waiting; False when it is held."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def listening(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def tail(log: Path, start: int) -> str:
    """The end of what the log gained since byte ``start``."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, log.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


class ServerFailed(Exception):
    """The server could not be started; the text is its own last words."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with(parent: int) -> Callable[[], None]:
    """What the child does before it becomes the server: ask the kernel to end it with us."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _ask_to_stop(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM for the server's main thread, where Python runs signal handlers.

    Sent to the process, about one in eight reached another thread while the main one slept on a
    lock, and nothing happened (measured).
    """
    try:
        ctypes.CDLL(None).tgkill(server.pid, server.pid, signal.SIGTERM)
    except AttributeError:  # not Linux
        server.terminate()


class Keeper:
    """One server, from its start to its stop."""

    def __init__(self, folder: Path, log: Path, command: Sequence[str]) -> None:
        self.folder, self.log, self.command = folder, log, command
        self.server: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.told_to_stop = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM: stop the server in order, users or not."""
        self.told_to_stop = True

    def start(self) -> None:
        """Start the server on a free port and wait until it listens. Raises ``ServerFailed``.

        A port that somebody took in between is replaced; a data folder that a dying server still
        holds is waited for.
        """
        give_up, ports_tried = time.monotonic() + BUSY_S, 0
        while True:
            mark = self.log.stat().st_size if self.log.exists() else 0
            self._spawn()
            if self._listens():
                break
            words = tail(self.log, mark)
            lowered = words.lower()
            ports_tried += "address already in use" in lowered
            if "address already in use" in lowered and ports_tried < 5:
                continue
            if "resource busy" in lowered and time.monotonic() < give_up:
                time.sleep(POLL_S)
                continue
            raise ServerFailed(words or "it ended without a word")
        assert self.server is not None
        ServerFile(self.server.pid, self.port, os.getpid(), time.time()).write(self.folder)

    def _spawn(self) -> None:
        self.port = _free_port()
        command = [part.replace(PORT, str(self.port)) for part in self.command]
        with self.log.open("ab") as log:
            self.server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=_die_with(os.getpid()),  # safe: this process has one thread
            )

    def _listens(self) -> bool:
        assert self.server is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and not self.told_to_stop:
            if self.server.poll() is not None:
                return False
            if listening(self.port):
                return self.server.poll() is None
            time.sleep(0.03)
        self.server.kill()
        self.server.wait()
        return False

    def watch(self) -> int:
        """Serve until the last user is gone (0) or the server dies by itself (1)."""
        assert self.server is not None
        users = os.open(self.folder / USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        idle_since: float | None = None
        while not self.told_to_stop:
            time.sleep(POLL_S)
            if self.server.poll() is not None:
                return 1
            if not try_lock(users, fcntl.LOCK_EX):
                idle_since = None
                continue
            now = time.monotonic()
            idle_since = now if idle_since is None else idle_since
            if now - idle_since >= GRACE_S:
                return 0  # the lock stays taken: whoever comes now waits until we are gone
            fcntl.flock(users, fcntl.LOCK_UN)
        return 0

    def stop(self) -> None:
        """Take the sign down, then end the server: asked first, killed when it does not go."""
        with contextlib.suppress(OSError):
            (self.folder / SERVER_FILE).unlink()
        if self.server is None or self.server.poll() is not None:
            return
        _ask_to_stop(self.server)
        deadline = time.monotonic() + STOP_S
        while self.server.poll() is None:
            if time.monotonic() > deadline:
                self.server.kill()
                self.server.wait()
                return
            # A connection wakes the server's accept(), which would sleep on for two seconds.
            listening(self.port)
            time.sleep(0.03)


def _detach() -> None:
    """Leave the command that started us, so that it need not wait for us or bury us."""
    if os.fork():
        os._exit(0)


def _say(fd: int, words: str) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, words.encode("utf-8", "replace"))
    os.close(fd)


def main(arguments: Sequence[str]) -> int:
    """``keeper.py FOLDER LOG LOCK_FD SAY_FD COMMAND…``; says ``ready`` or what went wrong."""
    folder, log, lock_fd, say_fd = Path(arguments[0]), Path(arguments[1]), *map(int, arguments[2:4])
    _detach()
    for inherited in (lock_fd, say_fd):
        os.set_inheritable(inherited, False)
    keeper = Keeper(folder, log, arguments[4:])
    signal.signal(signal.SIGTERM, keeper.on_signal)
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    try:
        keeper.start()
    except (ServerFailed, OSError) as error:
        keeper.stop()
        _say(say_fd, str(error))
        return 1
    _say(say_fd, "ready")
    try:
        return keeper.watch()
    finally:
        keeper.stop()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
