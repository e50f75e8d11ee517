"""Candidate pairs: same or similar names of columns that look like keys, across datasources."""

from __future__ import annotations

import pytest

from pipeline.correlations.candidates import MAX_PAIRS, candidates, stem_of
from pipeline.records import Column, ColumnCategory, Table, TableKind

KEY, PLAIN = ColumnCategory.PRIMARY_KEY, ColumnCategory.DIMENSION
METRIC, TIME = ColumnCategory.METRIC, ColumnCategory.TIME


def table(source: str, name: str, *columns: tuple[str, ColumnCategory], rows: int = 10) -> Table:
    made = [Column(name=column, type="INTEGER", category=kind) for column, kind in columns]
    return Table(datasource_id=source, name=name, columns=made, row_count=rows)


def cube(source: str, name: str, *columns: tuple[str, str, ColumnCategory]) -> Table:
    made = [Column(name=f"{name}.{c}", type=kind, category=cat) for c, kind, cat in columns]
    return Table(datasource_id=source, name=name, kind=TableKind.CUBE, columns=made)


@pytest.mark.parametrize(
    ("column", "name", "stem"),
    [
        ("customer_id", "main.orders", "customer"),
        ("customerId", "orders", "customer"),
        ("CustomerID", "orders", "customer"),
        ("id", "main.customers", "customer"),
        ("ID", "Companies", "company"),
        ("order_line_key", "x", "order_line"),
        ("country_code", "x", "country"),
        ("sku", "x", "sku"),
        ("email", "x", "email"),
        ("invoice_number", "x", "invoice"),
        ("paid", "x", ""),
        ("valid", "x", ""),
        ("status", "x", ""),
        ("", "x", ""),
        ("количество", "x", ""),
    ],
)
def test_what_a_column_identifies_is_read_from_its_name(column: str, name: str, stem: str) -> None:
    assert stem_of(column, name) == stem


def pairs(*tables: Table, order: tuple[str, ...] = ("a", "b")) -> list[tuple[str, str]]:
    return [
        (f"{p.left.table}.{p.left.column}", f"{p.right.table}.{p.right.column}")
        for p in candidates(tables, order)
    ]


def test_keys_of_the_same_thing_are_paired_whatever_their_spelling() -> None:
    found = pairs(
        table("a", "main.customers", ("id", KEY), ("name", PLAIN)),
        table("b", "crm.contacts", ("customerId", PLAIN), ("name", PLAIN)),
    )
    assert found == [("main.customers.id", "crm.contacts.customerId")]


def test_shortened_names_come_after_equal_ones() -> None:
    found = pairs(
        table("a", "t", ("customer_id", PLAIN), ("product_id", PLAIN)),
        table("b", "u", ("cust_no", PLAIN), ("product_key", PLAIN)),
    )
    assert found == [("t.product_id", "u.product_key"), ("t.customer_id", "u.cust_no")]


def test_a_primary_key_is_paired_with_a_plain_column_of_its_name() -> None:
    airlines = table("a", "airlines", ("carrier", KEY), ("name", PLAIN))
    delays = table("b", "delays", ("Carrier", PLAIN), ("name", PLAIN))
    assert pairs(airlines, delays) == [("airlines.carrier", "delays.Carrier")]
    assert pairs(airlines, delays, order=("b", "a")) == [("delays.Carrier", "airlines.carrier")]


def test_members_of_cubes_are_paired_without_their_measures_times_and_segments() -> None:
    found = pairs(
        table("a", "customers", ("customer_id", KEY)),
        cube(
            "b",
            "orders",
            ("customer_id", "number", PLAIN),
            ("customer_no", "number (count)", METRIC),
            ("customer_key", "time", TIME),
            ("customer_code", "segment", PLAIN),
        ),
    )
    assert found == [("customers.customer_id", "orders.orders.customer_id")]


def test_primary_keys_and_small_tables_stand_for_a_thing() -> None:
    many = [table("a", f"t{i}", ("user_ref", PLAIN), rows=100 - i) for i in range(6)]
    many.append(table("a", "users", ("user_id", KEY), rows=9_999))
    found = pairs(*many, table("b", "logins", ("user_id", PLAIN)))
    assert found == [("t5.user_ref", "logins.user_id"), ("users.user_id", "logins.user_id")]


def test_nothing_is_paired_within_one_datasource_or_without_a_likeness() -> None:
    assert pairs(table("a", "t", ("user_id", KEY)), table("a", "u", ("user_id", PLAIN))) == []
    assert pairs(table("a", "t", ("user_id", KEY)), table("b", "u", ("order_id", KEY))) == []
    assert pairs(table("a", "t", ("x_id", KEY)), table("b", "u", ("xylophone_id", KEY))) == []


def test_the_number_of_pairs_is_bounded_and_their_order_certain() -> None:
    left = table("a", "t", *((f"thing{i:03}_id", PLAIN) for i in range(300)))
    right = table("b", "u", *((f"thing{i:03}_id", PLAIN) for i in range(300)))
    found = pairs(left, right)
    assert len(found) == MAX_PAIRS
    assert found == pairs(right, left)
    assert found[0] == ("t.thing000_id", "u.thing000_id")
