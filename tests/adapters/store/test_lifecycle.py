"""The embedded server's life: shared by commands, gone with the last, replaced after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

import adapters
from adapters.store import client, connect, embedded, keeper, settled
from adapters.store.embedded import Lease
from adapters.store.keeper import ServerFile
from pipeline.errors import StoreUnavailable
from pipeline.settings import StoreSettings

Eventually = Callable[[Callable[[], bool]], None]
ROOT = Path(adapters.__file__).parents[1]
SETTINGS = StoreSettings(MONGODB_URI="", MONGODB_DB="life")
USER = """
import pathlib, subprocess, sys
from adapters.store import embedded
lease = embedded.acquire(pathlib.Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL)
print(lease.server.pid, lease.server.keeper_pid, child.pid, flush=True)
sys.stdin.read()
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ended(server: ServerFile) -> bool:
    return not (alive(server.pid) or alive(server.keeper_pid))


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    """A home of its own, and no server of it afterwards."""
    yield tmp_path / "home"
    assert settled(tmp_path / "home", timeout=60)
    assert ServerFile.read(embedded.folder_of(tmp_path / "home")) is None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on a dead server after a second."""
    monkeypatch.setitem(client.OPTIONS, "serverSelectionTimeoutMS", 1_000)


class User:
    """Another process that uses the store of a home."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(home)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hears(self) -> tuple[int, int, int]:
        """Pids of server, keeper and the user's own child."""
        assert self.process.stdout is not None
        server, watcher, child = map(int, self.process.stdout.readline().split())
        return server, watcher, child

    def killed(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_two_commands_at_once_share_one_server_that_goes_with_the_last_of_them(
    home: Path, eventually: Eventually
) -> None:
    users = [User(home), User(home)]
    heard = [user.hears() for user in users]
    server = ServerFile.read(embedded.folder_of(home))
    try:
        assert server is not None
        assert {(pid, watcher) for pid, watcher, _ in heard} == {(server.pid, server.keeper_pid)}
        users[0].killed()
        assert not settled(home)
        assert alive(server.pid)
        users[1].killed()
        eventually(lambda: ended(server))
        assert ServerFile.read(embedded.folder_of(home)) is None
        assert all(alive(child) for _, _, child in heard)  # they do not hold it
    finally:
        for user in users:
            user.killed()
        for _, _, child in heard:
            os.kill(child, signal.SIGKILL)


def test_a_user_who_comes_in_time_keeps_the_server_and_one_who_comes_late_gets_the_next(
    home: Path, eventually: Eventually
) -> None:
    with embedded.acquire(home) as first:
        os.kill(first.server.keeper_pid, signal.SIGSTOP)  # however slow the next one is
    with embedded.acquire(home) as in_time, embedded.acquire(home) as at_once:
        os.kill(first.server.keeper_pid, signal.SIGCONT)
        assert first.server == in_time.server == at_once.server
    eventually(lambda: not (embedded.folder_of(home) / keeper.SERVER_FILE).exists())
    with embedded.acquire(home) as late:  # the server is still stopping
        assert late.server.pid != first.server.pid
        assert ended(first.server)
        assert keeper.listening(late.server.port)


async def test_everything_acknowledged_survives_kill_9_of_the_server_and_it_is_replaced(
    home: Path, impatient: None, new_run: Callable[..., Any]
) -> None:
    acknowledged: list[str] = []
    enough = asyncio.Event()
    async with await connect(SETTINGS, home) as store:
        server = ServerFile.read(embedded.folder_of(home))
        assert server is not None

        async def write() -> None:
            for number in range(10_000):
                run = await store.runs.create(new_run(f"p{number}"))
                acknowledged.append(run.id)
                if number == 40:
                    enough.set()

        writing = asyncio.create_task(write())
        await enough.wait()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(StoreUnavailable, match="stopped answering; run the command again"):
            await writing

        async with await connect(SETTINGS, home) as again:
            kept = {run.id for run in await again.runs.all_active()}
            assert set(acknowledged) <= kept
            assert len(kept) <= len(acknowledged) + 1
            replaced = ServerFile.read(embedded.folder_of(home))
            assert replaced is not None
            assert replaced.pid != server.pid


def test_a_killed_keeper_takes_its_server_along_and_is_replaced(
    home: Path, eventually: Eventually
) -> None:
    with embedded.acquire(home) as first:
        os.kill(first.server.keeper_pid, signal.SIGKILL)
        eventually(lambda: ended(first.server))
        assert (embedded.folder_of(home) / keeper.SERVER_FILE).exists()
        with embedded.acquire(home) as second:
            assert second.server.pid != first.server.pid


async def test_a_server_left_over_without_a_keeper_is_replaced(
    home: Path, new_run: Callable[..., Any]
) -> None:
    folder = embedded.folder_of(home)
    folder.mkdir(parents=True)
    orphan = keeper.Keeper(folder, folder / "orphan.log", embedded.command(folder))
    await asyncio.to_thread(orphan.start)  # holds no lock, as after a crash
    assert orphan.server is not None
    async with await connect(SETTINGS, home) as store:
        server = ServerFile.read(folder)
        assert server is not None
        assert server.pid != orphan.server.pid
        assert not alive(orphan.server.pid)
        await asyncio.to_thread(orphan.server.wait)
        await store.runs.create(new_run())


async def test_an_address_that_another_server_has_by_now_is_not_used(
    shared_home: Path, settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = embedded.lease, 0

    async def stale_once(home: Path) -> Lease:
        nonlocal asked
        asked += 1
        lease = await real(home)
        if asked == 1:
            stale = ServerFile(os.getpid(), lease.server.port, lease.server.keeper_pid, 0)
            lease.server = stale
        return lease

    monkeypatch.setattr(embedded, "lease", stale_once)
    async with await connect(settings, shared_home) as store:
        await store.ping()
    assert asked == 2


async def test_a_cancelled_connect_leaves_nothing(home: Path, eventually: Eventually) -> None:
    connecting = asyncio.create_task(connect(SETTINGS, home))
    lock = embedded.folder_of(home) / keeper.KEEPER_LOCK
    await asyncio.to_thread(eventually, lock.exists)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


def test_a_server_that_cannot_open_its_data_is_quoted_and_nothing_is_left(home: Path) -> None:
    data = embedded.folder_of(home) / "data"
    data.mkdir(parents=True)
    for name in ("WiredTiger", "WiredTiger.wt", "WiredTiger.turtle"):
        (data / name).write_text("not a database")
    with pytest.raises(StoreUnavailable) as caught:
        embedded.acquire(home)
    assert "the embedded document store cannot be started" in str(caught.value)
    assert str(embedded.log_of(home)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_home_that_never_had_a_server_is_settled(tmp_path: Path) -> None:
    assert settled(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_long_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "store.log"
    log.write_text("short")
    embedded.rotate(log)
    assert log.exists()
    monkeypatch.setattr(embedded, "LOG_MAX_BYTES", 3)
    embedded.rotate(log)
    assert not log.exists()
    assert (tmp_path / "store.log.1").read_text() == "short"
