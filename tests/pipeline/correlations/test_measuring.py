"""Value overlap, measured on real datasources: two DuckDB files and a cube."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.correlations.measuring import Measurer, as_kind_of, distinct_query, spelt, spread
from pipeline.correlations.overlap import Overlap, PairStatus, judge_pair
from pipeline.errors import QueryFailed
from pipeline.ports import WarehouseInfo
from pipeline.records import KeyColumn, KeyPair, Shape
from tests.servers.shop import Warehouses


def key(source: str, table: str, column: str) -> KeyColumn:
    return KeyColumn(datasource_id=source, table=table, column=column)


CUSTOMER = key("shop", "main.customers", "id")
VISIT = key("shop", "main.visits", "visit_key")


@pytest.mark.parametrize(
    ("left", "right", "overlap", "status"),
    [
        (CUSTOMER, key("crm", "main.contacts", "customer_no"), (100, 50, 50, 50), "confirmed"),
        (CUSTOMER, key("sales", "orders", "orders.customer_id"), (100, 39, 40, 39), "confirmed"),
        (
            key("shop", "main.products", "product_id"),
            key("crm", "main.contacts", "product_id"),
            (50, 0, 50, 0),
            "rejected",
        ),
        (VISIT, key("crm", "main.contacts", "visit_key"), (5000, None, 50, 50), "confirmed"),
        (VISIT, key("crm", "main.sessions", "visit_key"), (200, None, 200, None), "unknown"),
        (VISIT, key("sales", "orders", "orders.status"), (5000, 0, 3, 0), "unknown"),
        (VISIT, key("sales", "orders", "orders.id"), (5000, 0, 200, 0), "rejected"),
    ],
)
async def test_the_overlap_of_two_columns_is_measured(
    warehouses: Warehouses,
    left: KeyColumn,
    right: KeyColumn,
    overlap: tuple[int | None, ...],
    status: str,
) -> None:
    measured = await Measurer(warehouses).overlap(KeyPair(left=left, right=right))
    found = (
        measured.asked_left,
        measured.found_left,
        measured.asked_right,
        measured.found_right,
    )
    assert [a for a, b in zip(found, overlap, strict=True) if b is not None] == [
        b for b in overlap if b is not None
    ]
    assert judge_pair(measured) is PairStatus(status)


async def test_a_sample_is_looked_for_where_a_column_has_more_values_than_are_read(
    warehouses: Warehouses,
) -> None:
    pair = KeyPair(left=CUSTOMER, right=key("crm", "main.contacts", "customer_no"))
    measured = await Measurer(warehouses, cap=10).overlap(pair)
    assert measured == Overlap(10, 5, 10, 10)
    pair = KeyPair(left=CUSTOMER, right=key("sales", "orders", "orders.customer_id"))
    assert await Measurer(warehouses, cap=10).overlap(pair) == Overlap(10, 10, 10, 9)


@pytest.mark.parametrize(
    "missing",
    [
        key("nowhere", "main.t", "x"),
        key("crm", "main.nothing", "customer_no"),
        key("crm", "main.contacts", "nothing"),
        key("sales", "orders", "orders.nothing"),
    ],
)
async def test_a_column_that_is_not_there_is_an_error_and_no_overlap(
    warehouses: Warehouses, missing: KeyColumn
) -> None:
    with pytest.raises(QueryFailed):
        await Measurer(warehouses).overlap(KeyPair(left=CUSTOMER, right=missing))


@pytest.mark.parametrize(
    ("info", "only", "query"),
    [
        (
            WarehouseInfo("a", "postgres"),
            None,
            'SELECT DISTINCT "Id" FROM "s"."T" WHERE NOT "Id" IS NULL ORDER BY "Id" LIMIT 5',
        ),
        (
            WarehouseInfo("a", "postgres"),
            ["it's", 7],
            'SELECT DISTINCT "Id" FROM "s"."T" WHERE NOT "Id" IS NULL AND "Id" IN (\'it\'\'s\', 7) '
            'ORDER BY "Id" LIMIT 5',
        ),
        (
            WarehouseInfo("a", "tsql"),
            None,
            "SELECT DISTINCT TOP 5 [Id] FROM [s].[T] WHERE NOT [Id] IS NULL ORDER BY [Id]",
        ),
        (
            WarehouseInfo("a", "", shape=Shape.CUBE),
            ["x", 7.0],
            '{"dimensions": ["Id"], "order": {"Id": "asc"}, "filters": [{"member": "Id", '
            '"operator": "equals", "values": ["x", "7"]}], "limit": 5}',
        ),
    ],
)
def test_the_query_is_written_in_the_language_of_the_datasource(
    info: WarehouseInfo, only: list[Any] | None, query: str
) -> None:
    assert distinct_query(info, key("a", "s.T", "Id"), only, 5) == query


@pytest.mark.parametrize(
    ("values", "examples", "usable"),
    [
        (["1", "x", 3], [7], [1, 3]),
        ([1, 2], ["7"], ["1", "2"]),
        (["a"], [], ["a"]),
        ([7.0], ["7"], ["7"]),
    ],
)
def test_values_are_looked_for_as_the_other_column_has_them(
    values: list[Any], examples: list[Any], usable: list[Any]
) -> None:
    assert as_kind_of(values, examples) == usable


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (7.0, "7"), (7.5, "7.5"), (" a ", "a")])
def test_the_same_key_is_spelt_the_same(value: Any, text: str) -> None:
    assert spelt(value) == text


def test_a_sample_is_spread_over_all_values() -> None:
    assert spread(range(10), 20) == list(range(10))
    assert spread(range(100), 4) == [0, 25, 50, 75]
