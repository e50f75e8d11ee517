"""What is said of a file that is no warehouse, or that cannot be opened now."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from adapters.warehouses.duckdb_opening import open_file
from pipeline.errors import WarehouseUnavailable
from tests.adapters.warehouses.conftest import Maker

pytestmark = pytest.mark.timeout(20)


def complaint(path: Path) -> str:
    """What opening says, as one line."""
    with pytest.raises(WarehouseUnavailable) as refused:
        open_file(path, {})
    sentence = str(refused.value)
    assert len(sentence.splitlines()) == 1
    return sentence


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe.duckdb"
    os.mkfifo(path)
    assert "is no ordinary file" in complaint(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a folder"),
        ("/dev/null", "is no ordinary file"),
        ("x" * 5000, "File name too long"),
        ("a\x00b", "no file can be called so"),
        ("a\ud800b", "no file can be called so"),
        ("nope.duckdb", "there is no warehouse file"),
    ],
)
def test_a_path_that_leads_to_no_file_is_refused(tmp_path: Path, name: str, words: str) -> None:
    told = complaint(tmp_path / name)
    assert words in told
    assert len(told) < 700


def test_each_reason_has_its_own_remedy(make_file: Maker, tmp_path: Path) -> None:
    whole = make_file("CREATE TABLE a AS SELECT range AS x FROM range(100000)").read_bytes()
    cut, rotten = tmp_path / "cut.duckdb", tmp_path / "rotten.duckdb"
    cut.write_bytes(whole[: len(whole) // 3])
    rotten.write_bytes(whole[:13_000] + bytes(b ^ 0x5A for b in whole[13_000:]))
    assert "copy it again" in complaint(cut)
    assert "restore it from a backup" in complaint(rotten)


def test_an_encrypted_file_is_not_blamed_on_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "secret.duckdb"
    with duckdb.connect() as connection:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        connection.execute(f"ATTACH '{path}' AS e (ENCRYPTION_KEY 'k')")
        connection.execute("CREATE TABLE e.a AS SELECT 1 AS x")
    assert "Veridical takes no key" in complaint(path)
