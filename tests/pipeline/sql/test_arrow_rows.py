"""Rows of Arrow tables are normalised as values are, and nothing of them is lost on the way."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import bson
import duckdb
import numpy as np
import pyarrow as pa
import pytest

from pipeline.sql.rows import normalise, rows_of

arrow: Any = pa  # its stubs know neither buffers nor unions
FAR_TYPE = pa.timestamp("s")
FAR = "+36534630048-05-13T13:56:16"  # 2**60 seconds after 1970


def check(got: Any) -> None:
    json.dumps(got, allow_nan=False, ensure_ascii=False).encode("utf-8")
    bson.encode({"value": got})
    assert normalise(got) == got


def test_every_type_of_duckdb_comes_through() -> None:
    sql = """
        SELECT 1::HUGEINT AS h, 170141183460469231731687303715884105727::HUGEINT AS big,
        18446744073709551615::UBIGINT AS u64, 1.50::DECIMAL(38, 10) AS d, DATE '2024-02-29' AS day,
        'infinity'::DATE AS forever, DATE '5000-01-01' + 100000000 AS far,
        DATE '0001-01-01' - 400 AS ancient, '-infinity'::TIMESTAMP AS never,
        TIMESTAMP '2024-01-01 00:00:00.123456' AS us, TIMESTAMP_S '2024-01-01 00:00:00' AS s,
        TIMESTAMP_NS '2024-01-01 00:00:00.123456789' AS ns, TIME '01:02:03.5' AS t,
        INTERVAL '1 month 2 days 3 seconds' AS span, 'ab'::BLOB AS blob, [1, NULL, 2] AS list,
        {'a': DATE '2024-01-01', 'b': 'nan'::DOUBLE} AS struct, MAP {'k': 1} AS map,
        'x'::ENUM('x', 'y') AS enum, 'nan'::DOUBLE AS nan, NULL AS nothing, 1 AS dup, 2 AS dup,
        [DATE '5000-01-01' + 100000000] AS far_list,
        {'x': [{'y': 'infinity'::TIMESTAMP}]} AS deep, uuid() IS NOT NULL AS ok
    """
    with duckdb.connect() as connection:
        table = connection.sql(sql).to_arrow_table()
    [row] = rows_of(table)
    assert row == {
        "h": 1,
        "big": "170141183460469231731687303715884105727",
        "u64": "18446744073709551615",
        "d": 1.5,
        "day": "2024-02-29",
        "forever": "Infinity",
        "far": "+278790-09-14",
        "ancient": "-0001-11-28",
        "never": "-Infinity",
        "us": "2024-01-01T00:00:00.123456",
        "s": "2024-01-01T00:00:00",
        "ns": "2024-01-01T00:00:00.123456789",
        "t": "01:02:03.500000",
        "span": "P1M2DT3S",
        "blob": "0x6162",
        "list": [1, None, 2],
        "struct": {"a": "2024-01-01", "b": "NaN"},
        "map": [["k", 1]],
        "enum": "x",
        "nan": "NaN",
        "nothing": None,
        "dup": 1,
        "dup_2": 2,
        "far_list": ["+278790-09-14"],
        "deep": {"x": [{"y": "Infinity"}]},
        "ok": True,
    }
    check(row)


def test_a_text_that_is_no_utf_8_keeps_its_readable_part() -> None:
    ends = np.array([0, 1, 2], dtype="i4").tobytes()
    buffers = [None, arrow.py_buffer(ends), arrow.py_buffer(b"\xffa")]
    texts = arrow.Array.from_buffers(pa.string(), 2, buffers)
    lists = arrow.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts)
    table = pa.table({"t": texts, "l": lists})
    assert rows_of(table) == [{"t": "\\xff", "l": ["\\xff"]}, {"t": "a", "l": ["a"]}]


def test_nanoseconds_far_dates_and_unions_survive_inside_others() -> None:
    union = arrow.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()),
        pa.array([0, 0], pa.int32()),
        [pa.array([1]), pa.array([2**60], pa.timestamp("s"))],
    )
    table = pa.table(
        {
            "times": pa.array([[1500], None], pa.list_(pa.time64("ns"))),
            "map": pa.array([[("k", [2**60])], None], pa.map_(pa.string(), pa.list_(FAR_TYPE))),
            "union": union,
        }
    )
    assert rows_of(table) == [
        {"times": ["00:00:00.000001500"], "map": [["k", [FAR]]], "union": 1},
        {"times": None, "map": None, "union": FAR},
    ]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "2024-07-01T12:00:00+00:00"),
        ("America/New_York", "2024-07-01T08:00:00-04:00"),
        ("+05:30", "2024-07-01T17:30:00+05:30"),
    ],
)
def test_an_instant_keeps_its_zone(zone: str, expected: str) -> None:
    moment = datetime(2024, 7, 1, 12, tzinfo=UTC)
    column = pa.array([moment, None], pa.timestamp("us", zone))
    assert rows_of(pa.table({"t": column})) == [{"t": expected}, {"t": None}]


def test_arrow_rows_equal_values_normalised_one_by_one() -> None:
    values = {
        "i": [1, None, 3],
        "f": [1.5, None, math.nan],
        "s": ["a", None, "\0"],
        "d": [date(2024, 1, 1), None, date(1, 1, 1)],
        "t": [datetime(2024, 1, 1, 2, 3, 4, 5), None, datetime(1969, 12, 31, 23, 59, 59)],
        "c": [time(1, 2, 3, 4), None, time(0)],
        "x": [timedelta(days=-1, seconds=1), None, timedelta(microseconds=1)],
        "b": [b"a", None, b""],
        "l": [[1], None, []],
        "m": [Decimal("1.10"), None, Decimal("-0.05")],
    }
    expected = [{name: normalise(column[i]) for name, column in values.items()} for i in range(3)]
    assert rows_of(pa.table(values)) == expected


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, None, [0, 1, 2, 3, 4]),
        (2, 2, [2, 3]),
        (4, 10, [4]),
        (5, 1, []),
        (99, None, []),
        (-3, 2, [0, 1]),
        (0, 0, []),
        (0, -1, []),
    ],
)
def test_a_page_of_rows(offset: int, limit: int | None, expected: list[int]) -> None:
    table = pa.table({"a": list(range(5))})
    assert [row["a"] for row in rows_of(table, offset, limit)] == expected


def test_many_rows_of_every_type_are_all_made() -> None:
    count = 10_000
    table = pa.table(
        {
            "i": list(range(count)),
            "f": [i * 1.5 for i in range(count)],
            "s": [str(i) for i in range(count)],
            "t": [datetime(2024, 1, 1) + timedelta(seconds=i) for i in range(count)],
        }
    )
    assert len(rows_of(table)) == count
