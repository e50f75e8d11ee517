"""Catalog lines: their form, their hints, and what goes first when they are too many."""

from __future__ import annotations

import pytest

from pipeline.ports import WarehouseInfo
from pipeline.records import Column, ColumnCategory, Table
from pipeline.schema.catalog import (
    EMPTY,
    looks_archived,
    render_catalog,
    rows_text,
    table_lines,
    tokens,
)

DEFAULT = WarehouseInfo("default", "duckdb")


def column(name: str, category: ColumnCategory = ColumnCategory.DIMENSION) -> Column:
    return Column(name=name, type="VARCHAR", category=category)


def key(name: str) -> Column:
    return column(name, ColumnCategory.PRIMARY_KEY)


def table(name: str, *columns: Column, rows: int = 10) -> Table:
    return Table(name=name, columns=list(columns), row_count=rows)


FLIGHTS = [
    table("main.planes", key("tailnum"), column("year"), rows=3322),
    table("main.airlines", key("carrier"), column("name"), rows=16),
    table("main.flights", *map(column, ("carrier", "tailnum", "dest")), rows=336_776),
]


def test_one_line_a_table_below_a_header_a_datasource() -> None:
    assert render_catalog({DEFAULT: FLIGHTS}, ["flight", "delay"]).splitlines() == [
        "datasource default | dialect duckdb | 3 tables",
        "main.airlines | 2 columns | 16 rows",
        "main.flights | 3 columns | 336.8K rows | keywords: flight"
        " | joins: main.airlines.carrier, main.planes.tailnum",
        "main.planes | 2 columns | 3.3K rows",
    ]


def test_datasources_keep_their_order_and_an_empty_one_says_so() -> None:
    second = WarehouseInfo("crm", "postgres")
    text = render_catalog([(DEFAULT, FLIGHTS[:1]), (second, [])])
    assert text.splitlines() == [
        "datasource default | dialect duckdb | 1 tables",
        "main.planes | 2 columns | 3.3K rows",
        "datasource crm | dialect postgres | 0 tables",
        EMPTY,
    ]
    assert render_catalog([]) == EMPTY


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (-1, "unknown"),
        (0, "0"),
        (999, "999"),
        (1_000, "1K"),
        (1_234, "1.2K"),
        (336_776, "336.8K"),
        (999_949, "999.9K"),
        (999_950, "1M"),
        (1_500_000, "1.5M"),
        (3 * 10**9, "3B"),
        (10**13, "10000B"),
    ],
)
def test_rows_are_abbreviated_and_unknown_is_said(rows: int, text: str) -> None:
    assert rows_text(rows) == text


@pytest.mark.parametrize(
    ("name", "archived"),
    [
        ("s.orders_2019", True),
        ("s.orders_201901", True),
        ("s.orders_20190131", True),
        ("s.orders_LOG", True),
        ("s.audit_log", True),
        ("s.orders_archive", True),
        ("s.orders_bkp", True),
        ("s.orders_backup_2", True),
        ("s.orders_tmp", True),
        ("s.orders_temp", True),
        ("s.stg_orders", False),
        ("s.orders_stg", True),
        ("s.orders_staging", True),
        ("s.orders", False),
        ("s.catalog", False),
        ("s.blog_posts", False),
        ("s.template", False),
        ("s_2019.orders", False),
    ],
)
def test_archive_like_names_are_known(name: str, archived: bool) -> None:
    assert looks_archived(name) is archived


def names_in(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if " columns | " in line]
    return [line.split(" | ")[0] for line in lines]


def test_over_budget_archives_go_first_and_then_the_smallest() -> None:
    tables = [
        table("s.a", rows=5),
        table("s.big_log", rows=10**9),
        table("s.huge", rows=10**9),
        table("s.mid", rows=500),
        table("s.unknown", rows=-1),
    ]
    kept: list[list[str]] = []
    for budget in range(200, 0, -1):
        names = names_in(render_catalog({DEFAULT: tables}, budget_tokens=budget))
        if not kept or names != kept[-1]:
            kept.append(names)
    # The line that tells what is missing takes room too, so the first cut may take several.
    assert kept[0] == ["s.a", "s.big_log", "s.huge", "s.mid", "s.unknown"]
    order = ["s.big_log", "s.a", "s.mid", "s.huge", "s.unknown"]
    for names in kept[1:]:
        dropped = order[: len(order) - len(names)]
        assert names == [t.name for t in tables if t.name not in dropped]


def test_a_cut_catalog_keeps_to_its_budget_and_tells_how_many_are_missing() -> None:
    tables = [table(f"s.t{i:04}", rows=i) for i in range(1000)]
    text = render_catalog({DEFAULT: tables}, budget_tokens=2_000)
    assert tokens(len(text)) <= 2_000
    assert f"({1000 - len(names_in(text))} tables are not listed" in text
    assert text.startswith("datasource default | dialect duckdb | 1000 tables")


def test_at_most_three_keywords_and_three_joins() -> None:
    tables = [table(f"s.{c}s", key(f"{c}_ref")) for c in "abcde"]
    tables.append(table("s.one_two_three_four", *(column(f"{c}_ref") for c in "abcde")))
    lines = table_lines(tables, ["one", "two", "ONE", "three", "four"])
    line = next(line for line in lines if line.startswith("s.one"))
    assert "keywords: one, two, three |" in line
    assert line.endswith("joins: s.as.a_ref, s.bs.b_ref, s.cs.c_ref")


@pytest.mark.parametrize(
    ("columns", "joins"),
    [
        ([column("customer_id")], ["s.customers.id"]),
        ([column("user_id")], ["s.users.user_id"]),
        ([column("category_id")], ["s.categories.id"]),
        ([column("id")], []),
        ([column("nothing_id")], []),
    ],
)
def test_a_join_leads_to_the_table_that_owns_the_key(
    columns: list[Column], joins: list[str]
) -> None:
    tables = [
        table("s.customers", key("id")),
        table("s.categories", key("id")),
        table("s.a_events", key("event_id"), key("user_id")),
        table("s.users", key("user_id"), column("name")),
        table("s.asked", *columns),
    ]
    [line] = [line for line in table_lines(tables) if line.startswith("s.asked")]
    found = line.partition("joins: ")[2]
    assert [join for join in found.split(", ") if join] == joins


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    assert len(table_lines([table("s.a\nb", column("x"))])[0].splitlines()) == 1


def test_five_thousand_tables_are_rendered_within_the_budget() -> None:
    columns = [key("user_id"), *(column(f"c{i}") for i in range(40))]
    tables = [table(f"s.table_{i}", *columns, rows=i) for i in range(5_000)]
    text = render_catalog({DEFAULT: tables}, ["table"], 20_000)
    assert tokens(len(text)) <= 20_000
