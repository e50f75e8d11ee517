"""A column is a key, a time, a measure or a group."""

from __future__ import annotations

import pytest

from pipeline.records import ColumnCategory
from pipeline.schema.categories import KEY_NAMES, categorise

KEY, TIME = ColumnCategory.PRIMARY_KEY, ColumnCategory.TIME
METRIC, DIMENSION = ColumnCategory.METRIC, ColumnCategory.DIMENSION


@pytest.mark.parametrize("name", [*sorted(KEY_NAMES), "ID", "User_Id"])
@pytest.mark.parametrize("type_name", ["BIGINT", "VARCHAR", "UUID"])
def test_the_reference_names_are_keys_whatever_their_type(name: str, type_name: str) -> None:
    assert categorise(name, type_name) is KEY


def test_a_declared_key_is_a_key() -> None:
    assert categorise("carrier", "VARCHAR", is_key=True) is KEY


@pytest.mark.parametrize(
    "type_name",
    [
        "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "timestamptz",
        "DATETIME", "datetime2(7)", "datetimeoffset", "smalldatetime", "TIMESTAMP_NTZ(9)",
        "time without time zone",
    ],
)  # fmt: skip
def test_dates_and_times_are_time(type_name: str) -> None:
    assert categorise("at", type_name) is TIME


@pytest.mark.parametrize(
    "type_name",
    [
        "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "UBIGINT", "UINTEGER", "INT64",
        "FLOAT64", "int4", "float8", "DOUBLE", "double precision", "REAL", "FLOAT",
        "DECIMAL(18,3)", "numeric(12,2)", "NUMBER(38,0)", "BIGNUMERIC", "money", "BYTEINT",
        "UHUGEINT", "bigserial", "int", "long",
    ],
)  # fmt: skip
def test_numbers_are_metrics(type_name: str) -> None:
    assert categorise("amount", type_name) is METRIC


@pytest.mark.parametrize(
    "type_name",
    [
        "VARCHAR", "TEXT", "STRING", "BOOLEAN", "UUID", "JSON", "BLOB", "ENUM('a', 'b')",
        "INTEGER[]", "DOUBLE[3]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "ARRAY<INT64>",
        "interval", "point", "DATE[]", "", "int4range",
    ],
)  # fmt: skip
def test_everything_else_is_a_dimension(type_name: str) -> None:
    assert categorise("x", type_name) is DIMENSION


@pytest.mark.parametrize("name", ["order_id", "customerId", "product_key", "row_uuid"])
def test_a_number_that_refers_to_another_table_is_no_metric(name: str) -> None:
    assert categorise(name, "BIGINT") is DIMENSION


@pytest.mark.parametrize("name", ["paid", "grid", "monkey", "valid"])
def test_a_word_that_only_ends_alike_stays_a_metric(name: str) -> None:
    assert categorise(name, "BIGINT") is METRIC
