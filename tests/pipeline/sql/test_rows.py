"""Any driver value becomes valid JSON and BSON without being changed."""

from __future__ import annotations

import importlib
import json
import math
import time as clock
import uuid
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

import bson
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sql.rows import MAX_DEPTH, normalise, rows_of, unique_names

relativedelta: Any = importlib.import_module("dateutil.relativedelta").relativedelta
pd: Any = importlib.import_module("pandas")  # without its stubs: only three values are used
arrow: Any = pa  # its stubs know neither null scalars nor intervals


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    left: int
    right: int


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError if name == "tolist" else AttributeError


class Closed:
    def model_dump(self) -> Any:
        raise RuntimeError("closed")


class Unread(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("closed")

    def __len__(self) -> int:
        return 1


VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (0, 0),
    (2**63 - 1, 2**63 - 1),
    (-(2**63), -(2**63)),
    (2**63, "9223372036854775808"),
    (-(2**70), str(-(2**70))),
    (1.5, 1.5),
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (Decimal("5"), 5),
    (Decimal("1E+2"), 100),
    (Decimal("12.34"), 12.34),
    (Decimal("0.1"), 0.1),
    (Decimal("5.00"), 5.0),
    (Decimal("12345678901234567890.12"), "12345678901234567890.12"),
    (Decimal("0.12345678901234567890123"), "0.12345678901234567890123"),
    (Decimal(2**70), str(2**70)),
    (Decimal("NaN"), "NaN"),
    (Decimal("sNaN"), "NaN"),
    (Decimal("-Infinity"), "-Infinity"),
    (Decimal("1E+1000000"), "1E+1000000"),
    (Decimal("1E-1000000"), "1E-1000000"),
    (date(2024, 2, 29), "2024-02-29"),
    (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05"),
    (datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=UTC), "2024-01-02T03:04:05.000678+00:00"),
    (datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2024-01-02T00:00:00+02:00"),
    (time(1, 2, 3), "01:02:03"),
    (timedelta(0), "PT0S"),
    (timedelta(days=1, hours=2, minutes=3, seconds=4.5), "P1DT2H3M4.5S"),
    (timedelta(seconds=-90), "PT-1M-30S"),
    (arrow.MonthDayNano([14, -2, 1_500_000_000]), "P1Y2M-2DT1.5S"),
    (b"\x00\xff", "0x00ff"),
    (bytearray(b"ab"), "0x6162"),
    (memoryview(b"ab"), "0x6162"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    (Level.HIGH, 3),
    ("a\0b", "a\0b"),
    ("\ud800x", "\\ud800x"),
    ("\ud83d\ude00", "😀"),
    ("日本", "日本"),
    ([1, (2, [3])], [1, [2, [3]]]),
    (Pair(1, 2), [1, 2]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (range(3), [0, 1, 2]),
    ({"a": {"b": b"x"}}, {"a": {"b": "0x78"}}),
    ({1: "x", None: "y", "k\0": "z"}, {"1": "x", "null": "y", "k\\u0000": "z"}),
    ({1: "x", "1": "y"}, {"1": "x", "1_2": "y"}),
    (OrderedDict(a=1), {"a": 1}),
    (Fraction(1, 3), "1/3"),
    (1 + 2j, "(1+2j)"),
    (np.int64(7), 7),
    (np.float64("nan"), "NaN"),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.array([1, 2]), [1, 2]),
    (np.array([[1.0, np.inf]]), [[1.0, "Infinity"]]),
    (np.datetime64("2024-01-02T03:04:05"), "2024-01-02T03:04:05"),
    (np.datetime64("NaT"), None),
    (np.timedelta64(90, "s"), "PT1M30S"),
    (np.timedelta64("NaT"), None),
    (np.timedelta64(1, "D"), "P1D"),
    (np.timedelta64(1_000_000, "D"), "P1000000D"),
    (np.timedelta64(-5, "M"), "P-5M"),
    (np.timedelta64(3, "Y"), "P3Y"),
    (np.timedelta64(2, "W"), "P14D"),
    (np.array(["2024-01-02", "NaT"], "datetime64[ns]"), ["2024-01-02T00:00:00.000000000", None]),
    (np.array(np.datetime64("2024-01-02", "ns")), "2024-01-02T00:00:00.000000000"),
    (np.array([[90]], "timedelta64[s]"), [["PT1M30S"]]),
    (np.array([None, b"a", math.nan], dtype=object), [None, "0x61", "NaN"]),
    (pd.Timedelta(days=1, nanoseconds=5), "P1DT0.000000005S"),
    (pd.Timedelta(nanoseconds=-1), "PT-0.000000001S"),
    (pd.Series([1, 2]), [1, 2]),
    (relativedelta(months=1, days=2, hours=3), "P1M2DT3H"),
    (relativedelta(years=-1, microseconds=5), "P-1YT0.000005S"),
    (pd.NaT, None),
    (pd.NA, None),
    (pd.Timestamp("2024-01-02 03:04:05.123456789"), "2024-01-02T03:04:05.123456789"),
    (arrow.scalar(5), 5),
    (arrow.scalar(None), None),
    (arrow.scalar(-(10**18), pa.timestamp("s")), "-31688736537-03-10T22:13:20"),
    (arrow.chunked_array([[1, 2]]), [1, 2]),
    (memoryview(b"abcdef")[::2], "0x616365"),
    (array("d", [1.5]), [1.5]),
    (deque([1]), [1]),
    (-0.0, -0.0),
    (date(1, 1, 1), "0001-01-01"),
    (date(9999, 12, 31), "9999-12-31"),
]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_a_value_becomes_json_and_bson_without_being_changed(number: int) -> None:
    value, expected = VALUES[number]
    got = normalise(value)
    assert got == expected
    assert type(got) is type(expected)
    check(got)


def check(got: Any) -> None:
    json.dumps(got, allow_nan=False, ensure_ascii=False).encode("utf-8")
    bson.encode({"value": got})
    assert normalise(got) == got


@pytest.mark.parametrize(
    "value",
    [
        *(object(), Rude(), Hostile(), Unread(), Closed(), Exception("x"), lambda: 1),
        pytest.param(10**6000, id="long"),
    ],
)
def test_a_foreign_value_becomes_text_and_never_raises(value: Any) -> None:
    got = normalise(value)
    assert isinstance(got, str)
    check(got)


def test_nesting_without_end_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert f"deeper than {MAX_DEPTH}" in str(normalise(endless))
    check(normalise(endless))


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes()
    | st.timedeltas()
    | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(ANY)
def test_normalise_is_idempotent_and_valid(value: Any) -> None:
    check(normalise(value))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_keeps_its_value(value: Decimal) -> None:
    got = normalise(value)
    assert Decimal(repr(got) if isinstance(got, float) else str(got)) == value


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", None, "x"], ["column_1", "column_2", "x"]),
        (["", "column_1"], ["column_1_2", "column_1"]),
        ([1, "1"], ["1", "1_2"]),
        (["a\0", "\ud800"], ["a\\u0000", "\\ud800"]),
        ([], []),
    ],
)
def test_column_names_become_unique_and_not_empty(names: list[Any], unique: list[str]) -> None:
    assert unique_names(names) == unique
    assert unique_names(unique) == unique


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


def test_rows_are_made_fast() -> None:
    count = 10_000
    table = pa.table(
        {
            "i": list(range(count)),
            "f": [i * 1.5 for i in range(count)],
            "s": [str(i) for i in range(count)],
            "t": [datetime(2024, 1, 1) + timedelta(seconds=i) for i in range(count)],
        }
    )
    started = clock.thread_time()
    assert len(rows_of(table)) == count
    assert clock.thread_time() - started < 1.0
