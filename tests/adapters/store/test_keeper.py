"""The keeper's own rules, with a stand-in for the server that fails in chosen ways."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adapters.store import keeper
from adapters.store.keeper import Keeper, ServerFailed, ServerFile, listening, tail

SERVER = """
import pathlib, signal, socket, sys, time
words, times, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if {stubborn}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
count = pathlib.Path("count"); tried = int(count.read_text()) if count.exists() else 0
count.write_text(str(tried + 1))
if tried < times: sys.exit(words)
with socket.create_server(("127.0.0.1", port)) as door:
    while True: door.accept()[0].close()
"""


def made(folder: Path, words: str = "", times: int = 0, *, stubborn: bool = False) -> Keeper:
    """A keeper whose server dies ``times`` times with ``words`` before it comes up."""
    code = SERVER.format(stubborn=stubborn)
    command = [sys.executable, "-S", "-c", code, words, str(times), keeper.PORT]
    return Keeper(folder, folder / "log", command)


@pytest.mark.parametrize("words", ["", "[Errno 98] Address already in use", "Resource busy"])
def test_a_taken_port_and_a_folder_still_held_are_tried_again(tmp_path: Path, words: str) -> None:
    kept = made(tmp_path, words, times=2 if words else 0)
    kept.start()
    told = ServerFile.read(tmp_path)
    assert told is not None
    assert kept.server is not None
    assert (told.pid, told.port, told.keeper_pid) == (kept.server.pid, kept.port, os.getpid())
    assert listening(told.port)
    kept.stop()
    assert ServerFile.read(tmp_path) is None
    assert kept.server.returncode == -signal.SIGTERM
    kept.stop()


def test_any_other_death_is_told_in_the_servers_words(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("words of an earlier day\n")
    with pytest.raises(ServerFailed, match=r"^bad page$"):
        made(tmp_path, "bad page", times=1).start()
    assert ServerFile.read(tmp_path) is None


def test_ports_are_not_tried_for_ever(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="Address already in use"):
        made(tmp_path, "Address already in use", times=99).start()
    assert (tmp_path / "count").read_text() == "5"


def test_a_server_that_ignores_the_request_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "STOP_S", 0.2)
    kept = made(tmp_path, stubborn=True)
    kept.start()
    kept.stop()
    assert kept.server is not None
    assert kept.server.returncode == -signal.SIGKILL


def test_a_server_that_never_listens_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "START_S", 0.2)
    kept = Keeper(
        tmp_path,
        tmp_path / "log",
        [sys.executable, "-S", "-c", "input() if 0 else __import__('time').sleep(60)"],
    )
    with pytest.raises(ServerFailed, match="without a word"):
        kept.start()
    assert kept.server is not None
    assert kept.server.returncode == -signal.SIGKILL


def watched(kept: Keeper) -> tuple[threading.Thread, list[int]]:
    outcome: list[int] = []
    thread = threading.Thread(target=lambda: outcome.append(kept.watch()))
    thread.start()
    return thread, outcome


def test_watching_ends_when_the_last_user_is_gone_and_locks_the_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "POLL_S", 0.02)
    monkeypatch.setattr(keeper, "GRACE_S", 0.1)
    kept = made(tmp_path)
    kept.start()
    users = [os.open(tmp_path / keeper.USERS_LOCK, os.O_RDWR | os.O_CREAT) for _ in range(2)]
    assert all(keeper.try_lock(user, fcntl.LOCK_SH) for user in users)
    thread, outcome = watched(kept)
    os.close(users[0])
    thread.join(0.4)
    assert thread.is_alive()
    os.close(users[1])
    thread.join(60)
    assert outcome == [0]
    late = os.open(tmp_path / keeper.USERS_LOCK, os.O_RDWR)
    assert not keeper.try_lock(late, fcntl.LOCK_SH)
    os.close(late)
    kept.stop()


def test_a_user_who_comes_while_the_keeper_still_waits_is_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "POLL_S", 0.02)
    monkeypatch.setattr(keeper, "GRACE_S", 60)
    idle, lock = threading.Event(), keeper.try_lock

    def watching(fd: int, kind: int) -> bool:
        taken = lock(fd, kind)
        if taken and kind == fcntl.LOCK_EX:
            idle.set()
        return taken

    monkeypatch.setattr(keeper, "try_lock", watching)
    kept = made(tmp_path)
    kept.start()
    thread, outcome = watched(kept)
    assert idle.wait(60)
    user = os.open(tmp_path / keeper.USERS_LOCK, os.O_RDWR)
    fcntl.flock(user, fcntl.LOCK_SH)  # waits, but not for long: the keeper only looks
    assert thread.is_alive()
    os.close(user)
    kept.on_signal(signal.SIGTERM, None)
    thread.join(60)
    assert outcome == [0]
    kept.stop()


def test_watching_ends_when_the_server_dies(tmp_path: Path) -> None:
    kept = made(tmp_path)
    kept.start()
    assert kept.server is not None
    kept.server.kill()
    assert kept.watch() == 1
    kept.stop()
    assert ServerFile.read(tmp_path) is None


def test_sigterm_ends_watching_with_users_or_without(tmp_path: Path) -> None:
    kept = made(tmp_path)
    kept.start()
    kept.on_signal(signal.SIGTERM, None)
    assert kept.watch() == 0
    kept.stop()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"pid": "x", "port": 1, "keeper_pid": 1, "started_at": 1}']
)
def test_an_unreadable_address_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / keeper.SERVER_FILE).write_text(content)
    assert ServerFile.read(tmp_path) is None


def test_the_address_is_replaced_in_one_go(tmp_path: Path) -> None:
    ServerFile(1, 2, 3, 4.0).write(tmp_path)
    ServerFile(5, 6, 7, 8.0).write(tmp_path)
    assert ServerFile.read(tmp_path) == ServerFile(5, 6, 7, 8.0)
    assert [entry.name for entry in tmp_path.iterdir()] == [keeper.SERVER_FILE]


def test_the_tail_is_what_the_log_gained(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log, 0) == ""
    log.write_bytes(b"old\n" + b"\xff new\n")
    assert tail(log, 4) == "\ufffd new"
    log.write_bytes(b"x" * 10_000)
    assert len(tail(log, 0)) == keeper.TAIL_BYTES


def test_the_keeper_file_needs_nothing_but_the_standard_library() -> None:
    code = f"""
import json, runpy, sys
runpy.run_path({keeper.__file__!r})
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    loaded: set[str] = set(json.loads(ran.stdout))
    assert loaded - sys.stdlib_module_names - {"__main__"} == set()
