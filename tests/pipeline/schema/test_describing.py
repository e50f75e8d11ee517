"""What a table is in words, by rules."""

from __future__ import annotations

import pytest

from pipeline.ports import WarehouseInfo
from pipeline.records import Column, ColumnCategory, Table, TableKind, TimeSpan
from pipeline.schema.describing import summary_of
from pipeline.schema.spans import span_query, time_column
from tests.pipeline.schema.memory import table

CASES: list[tuple[Table, str]] = [
    (table("s.t", rows=0), "0 columns, 0 rows."),
    (table("s.t", "a", rows=-1), "1 column, unknown rows. Groups: a."),
    (
        table("s.t", "id INT", "at TIMESTAMP", *(f"m{n} INT" for n in range(9)), rows=336_776),
        "11 columns, 336.8K rows. Keys: id. Times: at. "
        "Measures: m0, m1, m2, m3, m4, m5 and 3 more.",
    ),
    (
        table("s.t", "d DATE", time_span=TimeSpan(column="d", first="2024-01-01", last="2024\n")),
        "1 column, 100 rows, d from 2024-01-01 to 2024 . Times: d.",
    ),
    (
        Table(name="s.t", columns=[Column(name="line\nbreak", type="TEXT")], row_count=1),
        "1 column, 1 rows. Groups: line break.",
    ),
    (Table(name="orders", kind=TableKind.CUBE), ""),
]


@pytest.mark.parametrize(("given", "words"), CASES)
def test_size_period_and_columns_are_told_in_one_line(given: Table, words: str) -> None:
    assert summary_of(given) == words


def test_two_thousand_columns_are_told_shortly() -> None:
    wide = table("s.t", *(f"a_rather_long_name_{n} INT" for n in range(2_000)))
    assert len(summary_of(wide)) < 300


@pytest.mark.parametrize(
    ("dialect", "name", "query"),
    [
        ("duckdb", "main.orders", 'SELECT MIN("d"), MAX("d") FROM "main"."orders"'),
        ("duckdb", "main.data.csv", 'SELECT MIN("d"), MAX("d") FROM "main"."data.csv"'),
        ("duckdb", 's.sel"ect', 'SELECT MIN("d"), MAX("d") FROM "s"."sel""ect"'),
        ("bigquery", "p.s.t", "SELECT MIN(`d`), MAX(`d`) FROM `p`.`s`.`t`"),
        ("tsql", "dbo.t", "SELECT MIN([d]), MAX([d]) FROM [dbo].[t]"),
        ("postgres", "t", 'SELECT MIN("d"), MAX("d") FROM "t"'),
    ],
)
def test_the_span_is_asked_for_with_quoted_names(dialect: str, name: str, query: str) -> None:
    assert span_query(WarehouseInfo("default", dialect), name, "d") == query


def test_a_time_of_day_has_no_span() -> None:
    assert time_column(table("s.t", "a TIME", "b INT")) is None
    found = time_column(table("s.t", "a TIME", "b TIMESTAMP WITH TIME ZONE", "c DATE"))
    assert found is not None
    assert found.category is ColumnCategory.TIME
    assert found.name == "b"
