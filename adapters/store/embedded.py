"""A lease on the embedded server of a home: start it, share it, let go of it.

All of it is blocking file and process work; ``lease`` runs it in a thread. The rules of the game
are told in ``keeper.py``. A lease is an open, locked file: it ends with its process, however that
dies, and is not handed on to child processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import importlib.util
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from adapters.store import keeper
from adapters.store.keeper import KEEPER_LOCK, USERS_LOCK, ServerFile, listening, try_lock
from pipeline.errors import StoreUnavailable

PACKAGE = "secantus"
CACHE_SIZE = "512M"
"""At most; memory is taken as writes need it. A fifth of it may be unwritten pages before everybody
waits for them to be written, which never happens while an old snapshot holds them: with 64 MB two
documents of 10 MB and the server's second copy of them stopped it for good."""
OPLOG_ENTRIES, OPLOG_SECONDS = 2_000, 60
"""The server keeps a second copy of recent writes for change streams, which nobody reads here."""
ACQUIRE_S = 90.0
POLL_S = 0.03
SURELY_USED_S = 0.5
"""A lock that is held for longer is a user's, not another one's look at it."""
LOG_MAX_BYTES = 5_000_000
FULL_BELOW_BYTES = 16 * 1024 * 1024
MISSING = (
    "the embedded document store is not installed; run: pip install 'veridical[embedded]', "
    "or set MONGODB_URI to a MongoDB server"
)


@dataclass(slots=True)
class Lease:
    """The right to use the server at ``port``; release it once."""

    fd: int
    server: ServerFile

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.server.port}"

    def release(self) -> None:
        """Let go; the server stops soon after the last user did. Safe to call twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def folder_of(home: Path) -> Path:
    """Where the locks, the server's address and its data live."""
    return home / "store"


def log_of(home: Path) -> Path:
    return home / "logs" / "store.log"


def advice(home: Path) -> str:
    """One sentence for a server that stopped answering."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(home).free < FULL_BELOW_BYTES:
            return f"the disk of {home} is full; free some space and run the command again"
    return (
        f"the embedded document store stopped answering; run the command again "
        f"(what happened is in {log_of(home)})"
    )


async def lease(home: Path) -> Lease:
    """Share or start the server of ``home``. Raises ``StoreUnavailable``.

    Cancelling is safe: a lease that arrives too late is released.
    """
    given_up = threading.Event()

    def take() -> Lease:
        taken = acquire(home, given_up)
        if given_up.is_set():  # here, because the event loop may be closed by now
            taken.release()
        return taken

    job = asyncio.ensure_future(asyncio.to_thread(take))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        given_up.set()
        job.add_done_callback(_release_late)
        raise


def _release_late(job: asyncio.Future[Lease]) -> None:
    if not job.cancelled() and job.exception() is None:
        job.result().release()


def acquire(home: Path, given_up: threading.Event | None = None) -> Lease:
    """Like ``lease``, blocking; ``given_up`` makes it stop trying."""
    home = home.absolute()
    if importlib.util.find_spec(PACKAGE) is None:
        raise StoreUnavailable(MISSING)
    with _told_plainly(home):
        folder = folder_of(home)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        log_of(home).parent.mkdir(parents=True, exist_ok=True)
        users = os.open(folder / USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            return Lease(users, _server(home, users, given_up or threading.Event()))
        except BaseException:
            os.close(users)
            raise


def _server(home: Path, users: int, given_up: threading.Event) -> ServerFile:
    """Hold ``users`` shared, then find the running server or start one."""
    folder, counted, deadline = folder_of(home), False, time.monotonic() + ACQUIRE_S
    while time.monotonic() < deadline and not given_up.is_set():
        counted = counted or try_lock(users, fcntl.LOCK_SH)
        if counted:
            with _keeper_lock(folder) as lock:
                if lock is not None:
                    _replace_leftover(folder)
                    _start_keeper(home, lock)
            found = ServerFile.read(folder)
            if found is not None and listening(found.port):
                return found
        time.sleep(POLL_S)
    raise StoreUnavailable(
        f"the embedded document store did not start within {ACQUIRE_S:.0f} s; "
        f"see {log_of(home)}, then run the command again"
    )


@contextlib.contextmanager
def _keeper_lock(folder: Path) -> Generator[int | None]:
    """The keeper's lock as an open file, or None while a keeper lives."""
    fd = os.open(folder / KEEPER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield fd if try_lock(fd, fcntl.LOCK_EX) else None
    finally:
        os.close(fd)  # a keeper that was started holds its own copy of the file, and so the lock


def _start_keeper(home: Path, lock: int) -> None:
    """Start a keeper that owns ``lock`` and wait for its word. Raises ``StoreUnavailable``."""
    rotate(log_of(home))
    hear, say = os.pipe()
    try:
        starter = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", keeper.__file__),
                *(str(folder_of(home)), str(log_of(home)), str(lock), str(say)),
                *command(folder_of(home)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock, say),
            start_new_session=True,
            cwd=folder_of(home),
        )
        os.close(say)
        say = -1
        starter.wait()  # it forks at once, and the child carries on
        word = _hear(hear)
    finally:
        os.close(hear)
        if say >= 0:
            os.close(say)
    if word != "ready":
        raise StoreUnavailable(why(home, word))


def _hear(pipe: int) -> str:
    """Everything the keeper says before it closes its end, or what came in time."""
    said, deadline = b"", time.monotonic() + ACQUIRE_S
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        if not (part := os.read(pipe, 65_536)):
            break
        said += part
    return said.decode("utf-8", "replace")


def why(home: Path, words: str) -> str:
    """One sentence for a server that did not start; ``words`` are its own."""
    last = next((line for line in reversed(words.splitlines()) if line.strip()), "no reason given")
    if "no space left" in words.lower():
        return f"the disk of {home} is full; free some space and run the command again"
    if "resource busy" in words.lower():
        return (
            f"another program holds the document store's files in {folder_of(home)}; "
            f"stop it, or set VERIDICAL_HOME to another folder"
        )
    return (
        f"the embedded document store cannot be started: {last.strip()} "
        f"(see {log_of(home)}; MONGODB_URI can name a MongoDB server instead)"
    )


def command(folder: Path) -> list[str]:
    """How the server is started; ``keeper.PORT`` stands for its port."""
    # An explicit, empty configuration keeps one of the user's from being found and read.
    config = folder / "server.toml"
    config.write_text("", "utf-8")
    return [
        *(sys.executable, "-P", "-m", PACKAGE, "--config", str(config)),
        *("--host", "127.0.0.1", "--port", keeper.PORT),
        *("--storage-path", str(folder / "data"), "--sync-on-commit"),
        *("--cache-size", CACHE_SIZE, "--log-level", "INFO"),
        *("--oplog-max-entries", str(OPLOG_ENTRIES)),
        *("--oplog-retention-seconds", str(OPLOG_SECONDS)),
    ]


def rotate(log: Path) -> None:
    """Put a long log aside, in place of the one that was put aside before."""
    if log.exists() and log.stat().st_size > LOG_MAX_BYTES:
        log.replace(log.with_suffix(".log.1"))


def _replace_leftover(folder: Path) -> None:
    """End a server that outlived its keeper, recognised by its data folder; drop its address."""
    stale = ServerFile.read(folder)
    if stale is None:
        return
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(stale.pid)
        if str(folder / "data") in process.cmdline():
            process.kill()
            process.wait(keeper.STOP_S)
    (folder / keeper.SERVER_FILE).unlink(missing_ok=True)


def settled(home: Path, timeout: float = 20.0) -> bool:
    """Wait until the server of ``home`` has stopped: True. False when others still use it.

    For the end of a command that must leave nothing running. Blocking; release your leases first.
    """
    folder, now = folder_of(home.absolute()), time.monotonic()
    deadline, seen_free = now + timeout, now
    if not folder.is_dir():
        return True
    while (now := time.monotonic()) < deadline:
        with _keeper_lock(folder) as lock:
            if lock is not None:
                return True
        if not _used(folder):
            seen_free = now
        elif now - seen_free > SURELY_USED_S:
            return False
        time.sleep(POLL_S)
    return False


def _used(folder: Path) -> bool:
    """Whether somebody holds the server. A keeper that is stopping has taken its address down."""
    users = os.open(folder / USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return not try_lock(users, fcntl.LOCK_EX) and (folder / keeper.SERVER_FILE).exists()
    finally:
        os.close(users)


@contextlib.contextmanager
def _told_plainly(home: Path) -> Generator[None]:
    """Files that cannot be written become one sentence."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(_told(home, error)) from error


def _told(home: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {home} is full; free some space and run the command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{home} cannot be written; set VERIDICAL_HOME to a folder that you own"
    reason = error.strerror or str(error)
    return f"{home} cannot be used ({reason}); set VERIDICAL_HOME to another folder"
