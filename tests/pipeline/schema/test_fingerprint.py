"""Fingerprints change with what they stand for, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.records import WarehouseConfig
from pipeline.schema.fingerprint import line_key, source_fingerprint, table_fingerprint
from tests.pipeline.schema.memory import table

BASE: dict[str, Any] = {
    "provider": "duckdb",
    "config": {"path": "/a.duckdb", "threads": 1},
    "datasets": ["a", "b"],
    "filter_field": "tenant",
    "filter_value": "7",
}


def printed(**changes: Any) -> str:
    return source_fingerprint(WarehouseConfig(**(BASE | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "postgres"},
        {"config": {"path": "/b.duckdb", "threads": 1}},
        {"datasets": ["a"]},
        {"filter_field": "customer"},
        {"filter_value": "8"},
        {"shared_tables": ["geo"]},
        {"location": "eu"},
        {"project_id": "other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_configuration_has_another_fingerprint(changes: dict[str, Any]) -> None:
    assert printed(**changes) != printed()


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"threads": 1, "path": "/a.duckdb"}},
        {"datasets": ["b", "a"]},
        {"provider": " DuckDB "},
        {"label": "another name", "id": "other", "description": "for people"},
    ],
    ids=str,
)
def test_order_and_words_for_people_change_nothing(changes: dict[str, Any]) -> None:
    assert printed(**changes) == printed()


def test_the_state_of_the_data_counts() -> None:
    config = WarehouseConfig(**BASE)
    assert source_fingerprint(config, "10:1") != source_fingerprint(config, "10:2")


def test_a_table_changes_with_its_columns_and_not_with_its_rows() -> None:
    base = table_fingerprint(table("s.t", "a INT", "b"))
    assert base == table_fingerprint(table("s.t", "a INT", "b", rows=5, description="Notes."))
    others = [
        table("s.t", "a INT"),
        table("s.t", "b", "a INT"),
        table("s.t", "a BIGINT", "b"),
        table("s.u", "a INT", "b"),
    ]
    assert base not in {table_fingerprint(other) for other in others}
    assert len(base) == 64


def test_a_line_has_another_key_for_each_embedder() -> None:
    assert line_key("one", "a line") != line_key("two", "a line")
    assert line_key("one", "a line") == line_key("one", "a line")
