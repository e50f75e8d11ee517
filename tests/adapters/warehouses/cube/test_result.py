"""Issue 4: Cube sends numbers as texts; they are "cast by meta types exactly"."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from adapters.warehouses.cube.model import Member, MemberKind, read_model
from adapters.warehouses.cube.query import ResultColumn
from adapters.warehouses.cube.result import table_of, typed
from pipeline.sql.rows import normalise

BIG = 2**63


def member(type_name: str, aggregate: str = "") -> Member:
    kind = MemberKind.MEASURE if aggregate else MemberKind.DIMENSION
    return Member("c.m", kind, type_name, aggregate)


@pytest.mark.parametrize(
    ("type_name", "given", "arrow", "values"),
    [
        ("number", ["12", None, "-3"], "int64", [12, None, -3]),
        ("number", [12, 3], "int64", [12, 3]),
        ("number", ["12", 3], "int64", [12, 3]),
        ("number", [str(BIG - 1)], "int64", [BIG - 1]),
        ("number", [str(BIG)], "decimal128(19, 0)", [Decimal(BIG)]),
        ("number", ["1.50", "2"], "decimal128(3, 2)", [Decimal("1.50"), Decimal("2.00")]),
        ("number", ["0.00"], "decimal128(3, 2)", [Decimal("0.00")]),
        ("number", ["0.1", "123456789.123456789"], "decimal128(18, 9)", None),
        ("number", [Decimal("0.1"), Decimal("2.5")], "double", [0.1, 2.5]),
        ("number", [Decimal("0.12345678901234567890")], "decimal128(21, 20)", None),
        ("number", ["1e300"], "double", [1e300]),
        ("number", ["1.5e-300"], "double", [1.5e-300]),
        ("number", ["1.5", "-Infinity"], "double", [1.5, float("-inf")]),
        ("number", ["Infinity", "-Infinity"], "double", [float("inf"), float("-inf")]),
        ("number", ["9" * 60 + ".5"], "string", ["9" * 60 + ".5"]),
        ("number", ["1e400"], "string", ["1e400"]),
        ("number", ["n/a", "1"], "string", ["n/a", "1"]),
        ("number", [True, "1"], "string", ["true", "1"]),
        ("time", ["2024-01-31T00:00:00.000"], "timestamp[us]", [datetime(2024, 1, 31)]),
        ("time", ["2024-01-31"], "timestamp[us]", [datetime(2024, 1, 31)]),
        (
            "time",
            ["2024-01-31T10:00:00.123456Z", None],
            "timestamp[us, tz=UTC]",
            [datetime(2024, 1, 31, 10, 0, 0, 123456, UTC), None],
        ),
        ("time", ["2024-01-31T00:00:00.123456789"], "string", None),
        ("time", ["2024-01-31T00:00:00Z", "2024-01-31T00:00:00"], "string", None),
        ("time", ["Q1 2024"], "string", ["Q1 2024"]),
        ("boolean", [True, None, False], "bool", [True, None, False]),
        ("boolean", ["true", "f", 1, "0"], "bool", [True, False, True, False]),
        ("boolean", ["maybe"], "string", ["maybe"]),
        ("string", ["a", None, 7, Decimal("1.50")], "string", ["a", None, "7", "1.50"]),
        ("string", ["a\ud800"], "string", ["a\\ud800"]),
        ("geo", [{"latitude": "1.5"}], "string", ['{"latitude": "1.5"}']),
        ("string", [], "string", []),
        ("time", [None], "timestamp[us]", [None]),
    ],
)
def test_values_are_read_by_the_type_of_the_model(
    type_name: str, given: list[Any], arrow: str, values: list[Any] | None
) -> None:
    array = typed(member(type_name), given)
    assert str(array.type) == arrow
    assert len(array) == len(given)
    if values is None:  # as it came
        values = [Decimal(v) if arrow.startswith("decimal") else v for v in given]
    assert array.to_pylist() == values
    assert all(json.dumps(normalise(value)) for value in array.to_pylist())


@pytest.mark.parametrize(
    ("aggregate", "arrow"),
    [("count", "int64"), ("countDistinct", "int64"), ("sum", "double"), ("", "double")],
)
def test_a_column_without_values_has_the_type_of_its_measure(aggregate: str, arrow: str) -> None:
    assert str(typed(member("number", aggregate), [None, None]).type) == arrow
    assert str(typed(member("number", aggregate), []).type) == arrow


def test_a_member_that_a_row_lacks_is_null_and_others_are_left_out() -> None:
    columns = [ResultColumn("c.a", member("string")), ResultColumn("c.b", member("number"))]
    table = table_of(columns, [{"c.a": "x", "c.other": 1}, {"c.b": "2"}])
    assert table.to_pylist() == [{"c.a": "x", "c.b": None}, {"c.a": None, "c.b": 2}]


MALFORMED: list[dict[str, Any]] = [
    {},
    {"cubes": None},
    {"cubes": ["orders", {"name": 5}, {"name": "empty", "measures": []}]},
    {"cubes": [{"name": "a", "measures": [{"title": "no name"}], "dimensions": {"a": 1}}]},
]


@pytest.mark.parametrize("meta", MALFORMED)
def test_a_malformed_model_is_an_empty_one(meta: dict[str, Any]) -> None:
    assert read_model(meta).cubes == ()


def test_custom_granularities_are_known() -> None:
    dimension = {"name": "c.t", "type": "time", "granularities": [{"name": "fiscal_year"}]}
    model = read_model({"cubes": [{"name": "c", "dimensions": [dimension]}]})
    assert {"fiscal_year", "quarter"} <= model.members["c.t"].granularities
