"""A store that cannot be used is one clear sentence that says what to do next."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pymongo import errors

from adapters.store import connect, embedded
from adapters.store.client import Driver, DuplicateKey, TooLarge, translated
from pipeline.errors import Conflict, StoreUnavailable
from pipeline.settings import StoreSettings

EMBEDDED = StoreSettings(MONGODB_URI="")


async def test_a_missing_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(StoreUnavailable) as caught:
        await connect(EMBEDDED, tmp_path)
    assert "pip install 'veridical[embedded]'" in str(caught.value)
    assert "MONGODB_URI" in str(caught.value)
    assert os.listdir(tmp_path) == []


async def test_a_home_that_cannot_be_written_names_it_and_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(StoreUnavailable, match="set VERIDICAL_HOME to another folder") as caught:
        await connect(EMBEDDED, file / "home")
    assert str(file / "home") in str(caught.value)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "the disk of .* is full; free some space"),
        (errno.EDQUOT, "the disk of .* is full; free some space"),
        (errno.EACCES, "cannot be written; set VERIDICAL_HOME to a folder that you own"),
        (errno.EROFS, "cannot be written; set VERIDICAL_HOME to a folder that you own"),
        (errno.ENAMETOOLONG, "set VERIDICAL_HOME to another folder"),
    ],
)
async def test_what_the_disk_refuses_is_told_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, says: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StoreUnavailable, match=says):
        await connect(EMBEDDED, tmp_path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("OSError: [Errno 28] No space left on device\n", "disk of .* is full"),
        ("x\nWiredTigerError: Device or resource busy", "another program holds"),
        ("Traceback\nValueError: bad page\n\n", "cannot be started: ValueError: bad page"),
        ("", "cannot be started: no reason given"),
    ],
)
def test_a_server_that_does_not_start_is_quoted(tmp_path: Path, words: str, says: str) -> None:
    with pytest.raises(StoreUnavailable, match=says):
        raise StoreUnavailable(embedded.why(tmp_path, words))


async def test_a_mongodb_that_does_not_answer_is_named_without_its_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refuses at once
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        uri = f"mongodb://user:secret@{address}/?serverSelectionTimeoutMS=300"
        with pytest.raises(StoreUnavailable, match=f"no MongoDB answers at {address}") as caught:
            await connect(StoreSettings(MONGODB_URI=uri), Path("unused"))
    assert "secret" not in str(caught.value)
    assert "MONGODB_URI" in str(caught.value)
    assert "unused" not in os.listdir()


@pytest.mark.parametrize(
    ("uri", "database"),
    [("postgres://x", "db"), ("mongodb://", "db"), ("mongodb://h:x", "db"), ("mongodb://h", "a b")],
)
async def test_an_address_that_is_none_names_the_setting(uri: str, database: str) -> None:
    with pytest.raises(StoreUnavailable, match="correct MONGODB_URI and MONGODB_DB"):
        await connect(StoreSettings(MONGODB_URI=uri, MONGODB_DB=database), Path("unused"))


async def test_mongodb_uri_connects_to_a_server_that_somebody_runs(shared_home: Path) -> None:
    with await embedded.lease(shared_home) as lease:
        remote = StoreSettings(MONGODB_URI=f"{lease.uri}/?appname=me", MONGODB_DB="test_remote")
        async with await connect(remote, Path("unused")) as store:
            await store.ping()
            assert store.uri == remote.MONGODB_URI
            await store.close()
            with pytest.raises(StoreUnavailable):
                await store.ping()
    assert "unused" not in os.listdir()


@pytest.mark.parametrize(
    ("error", "becomes", "says"),
    [
        (errors.ServerSelectionTimeoutError("x"), StoreUnavailable, "start it again"),
        (errors.AutoReconnect("x"), StoreUnavailable, "start it again"),
        (errors.NetworkTimeout("x"), StoreUnavailable, "start it again"),
        (errors.WaitQueueTimeoutError("x"), StoreUnavailable, "start it again"),
        (errors.OperationFailure("x", 18), StoreUnavailable, "refuses the login"),
        (errors.OperationFailure("x", 13), StoreUnavailable, "refuses the login"),
        (errors.OperationFailure("No space left", 8), StoreUnavailable, "disk is full"),
        (errors.OperationFailure("odd", 2), StoreUnavailable, "the document store refuses: odd"),
        (errors.WriteError("big", 10334), TooLarge, "16 MB"),
        (errors.DocumentTooLarge("x"), TooLarge, "16 MB"),
        (errors.DuplicateKeyError("x", 11000), DuplicateKey, "exists"),
        (errors.BulkWriteError({"writeErrors": [{"code": 11000}]}), DuplicateKey, "1 records"),
        (errors.BulkWriteError({"writeErrors": [{"code": 18}]}), StoreUnavailable, "login"),
        (errors.BulkWriteError({}), StoreUnavailable, "refuses"),
        (errors.InvalidOperation("closed"), StoreUnavailable, "cannot do this: closed"),
        (OverflowError("9"), StoreUnavailable, "cannot do this: 9"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_driver_errors_are_translated(
    error: Exception, becomes: type[Exception], says: str
) -> None:
    with pytest.raises(becomes, match=says) as caught, translated(lambda: "start it again"):
        raise error
    assert type(caught.value) is becomes
    assert caught.value.__cause__ is error


def test_a_taken_key_is_a_conflict() -> None:
    assert issubclass(DuplicateKey, Conflict)


def test_a_full_disk_is_said_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "stopped answering" in embedded.advice(tmp_path)
    monkeypatch.setattr(embedded, "FULL_BELOW_BYTES", 2**62)
    assert "is full; free some space" in embedded.advice(tmp_path)


async def test_every_repository_call_says_so_when_the_server_is_gone(
    new_run: Callable[..., Any], new_discovery: Callable[..., Any]
) -> None:
    from adapters.store.store import Store

    uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=100"
    store = Store(Driver.open(uri, "db", lambda: "start it again"), uri, None)
    calls: dict[str, Any] = {
        "ping": store.ping(),
        "create": store.runs.create(new_run()),
        "find": store.runs.find("r"),
        "active": store.runs.all_active(),
        "fail": store.runs.fail("r", 1, "x"),
        "feed": store.run_steps.since("r"),
        "rows": store.checkpoints.rows("r"),
        "save": store.discoveries.save(new_discovery()),
        "log": store.analysis_steps.of("d"),
        "delete": store.checkpoints.delete("r"),
        "ratings": store.feedback("p"),
        "context": store.context("p"),
        "indexes": store.ensure_indexes(),
    }
    answers = await asyncio.gather(*calls.values(), return_exceptions=True)
    await store.close()
    told = {name: repr(answer) for name, answer in zip(calls, answers, strict=True)}
    assert told == dict.fromkeys(calls, "StoreUnavailable('start it again')")
