"""Which table a name means, what is offered when none fits, and how much of one is shown."""

from __future__ import annotations

import pytest

from pipeline.ports import WarehouseInfo
from pipeline.records import Column, Table
from pipeline.schema.catalog import render_catalog
from pipeline.schema.lookup import detail, near_names, resolve, trim

TABLES = [
    Table(name=name)
    for name in (
        "main.flights",
        "main.airlines",
        "Sales.Orders",
        "a.events",
        "b.events",
        "c.Kunden",
        "c.KUNDEN",
        "odd.my.table",
        "Größe.täglich",
        "s.select",
        's."data.csv"',
        '"x.y".plain',
        "s.caf\u00e9",
        "s.nai\u0308ve",
        "s.two  spaces ",
    )
]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("main.flights", "main.flights"),
        ("flights", "main.flights"),
        ("FLIGHTS", "main.flights"),
        ("Main.Flights", "main.flights"),
        ("memory.main.flights", "main.flights"),
        ('"main"."flights"', "main.flights"),
        ("`main.flights`", "main.flights"),
        ("[main].[flights]", "main.flights"),
        (" main.flights ", "main.flights"),
        ("wrong.airlines", "main.airlines"),
        ("orders", "Sales.Orders"),
        ("a.events", "a.events"),
        ("x.a.events", "a.events"),
        ("c.Kunden", "c.Kunden"),
        ("Kunden", "c.Kunden"),
        ("odd.my.table", "odd.my.table"),
        ("my.table", "odd.my.table"),
        ("GRÖSSE.TÄGLICH", "Größe.täglich"),
        ("select", "s.select"),
        ("s.data.csv", 's."data.csv"'),
        ('"s"."data.csv"', 's."data.csv"'),
        ("data.csv", 's."data.csv"'),
        ("DATA.CSV", 's."data.csv"'),
        ("db.s.data.csv", 's."data.csv"'),
        ("x.y.plain", '"x.y".plain'),
        ("`x.y`.`plain`", '"x.y".plain'),
        ("[PLAIN]", '"x.y".plain'),
        ("cafe\u0301", "s.caf\u00e9"),
        ("S.CAF\u00c9", "s.caf\u00e9"),
        ("na\u00efve", "s.nai\u0308ve"),
        ("two spaces", "s.two  spaces "),
        ("'main'.'flights'", "main.flights"),
        ('"flights"', "main.flights"),
    ],
)
def test_a_name_resolves_exactly_by_its_bare_name_or_by_case(asked: str, found: str) -> None:
    table = resolve(asked, TABLES).table
    assert table is not None
    assert table.name == found


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("events", ["a.events", "b.events"]),
        ("kunden", ["c.KUNDEN", "c.Kunden"]),
        ("fligths", ["main.flights"]),
        ("main.flihgts", ["main.flights"]),
        ("airline", ["main.airlines"]),
        ("all_airlines_now", ["main.airlines"]),
        ("zzzzz", []),
        ("", []),
        (".", []),
        ('"', []),
        ("csv", ['s."data.csv"']),
        ("\0", []),
    ],
)
def test_what_is_ambiguous_or_unknown_gives_near_names(asked: str, near: list[str]) -> None:
    answer = resolve(asked, TABLES)
    assert answer.table is None
    assert answer.near == near


ODD_NAMES = [
    "new\nline",
    "a | b",
    "trailing ",
    "tab\tand\x1b",
    'quo"te',
    "data.csv",
    "'x'",
    "a\u2028b",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_one_cell_of_one_line_and_that_cell_leads_back_to_it(name: str) -> None:
    tables = [Table(name=f"main.{name}"), Table(name="main.other")]
    lines = render_catalog([(WarehouseInfo("default", "duckdb"), tables)]).splitlines()
    assert len(lines) == 3
    cells = {line.split(" | ")[0].strip() for line in lines[1:]} - {"main.other"}
    found = resolve(cells.pop(), tables).table
    assert found is not None
    assert found.name == f"main.{name}"


def test_of_equal_names_the_first_datasource_wins() -> None:
    tables = [Table(name="s.t", datasource_id="primary"), Table(name="s.t", datasource_id="second")]
    table = resolve("s.t", tables).table
    assert table is not None
    assert table.datasource_id == "primary"
    for asked in ("t", "S.T", '"t"'):
        table = resolve(asked, tables).table
        assert table is not None
        assert table.datasource_id == "primary"


def test_a_near_name_is_found_among_many() -> None:
    tables = [Table(name=f"s.customer_orders_{i}") for i in range(5_000)]
    assert "s.customer_orders_77" in near_names("custmer_orders_77", tables)


WIDE = Table(
    name="s.wide",
    row_count=7,
    columns=[Column(name=f"c{i}", type="INT") for i in range(2_000)],
    sample_rows=[{f"c{i}": "x" * 500 for i in range(2_000)} for _ in range(9)],
)


def test_detail_shows_50_columns_3_rows_and_80_characters() -> None:
    shown = detail(WIDE)
    assert list(shown) == ["table", "row_count", "columns", "sample_rows", "columns_total"]
    assert len(shown["columns"]) == 50
    assert shown["columns"][0] == {
        "name": "c0",
        "type": "INT",
        "nullable": True,
        "category": "dimension",
    }
    assert shown["columns_total"] == 2_000
    assert len(shown["sample_rows"]) == 3
    assert set(shown["sample_rows"][0]) == {f"c{i}" for i in range(50)}
    assert {len(value) for row in shown["sample_rows"] for value in row.values()} == {80}


def test_short_values_stay_as_they_are() -> None:
    row = {"a": 1, "b": None, "c": 1.5, "d": True, "e": "x", "f": [1, 2], "g": {"k": "v" * 200}}
    table = Table(
        name="s.t", columns=[Column(name=name, type="X") for name in row], sample_rows=[row]
    )
    [shown] = trim(table).sample_rows
    assert shown | {"g": ""} == row | {"g": ""}
    assert len(shown["g"]) == 80
    assert table.sample_rows == [row]
