"""Any driver value becomes valid JSON and BSON without being changed."""

from __future__ import annotations

import importlib
import ipaddress
import json
import math
import uuid
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

import bson
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sql.rows import MAX_DEPTH, normalise, unique_names

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


@dataclass
class Point:
    x: int
    y: Decimal


FAR = "+36534630048-05-13T13:56:16"  # 2**60 seconds after 1970

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
    (np.datetime64("NaT", "ns"), None),
    (np.timedelta64(90, "s"), "PT1M30S"),
    (np.timedelta64("NaT", "ns"), None),
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
    (pd.Timestamp("2024-01-02", tz="Europe/Paris"), "2024-01-02T00:00:00+01:00"),
    (Point(1, Decimal("1.5")), {"x": 1, "y": 1.5}),
    ({"a": 1}.values(), [1]),
    ({"a": 1}.items(), [["a", 1]]),
    (np.float16(1.5), 1.5),
    (np.longdouble("nan"), "NaN"),
    (np.longdouble("-inf"), "-Infinity"),
    (np.timedelta64(1500, "as"), "PT0.000000000000001500S"),
    (np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]), [{"a": 1, "b": 2.5}]),
    (np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0], {"a": 1, "b": 2.5}),
    (np.array([b"\xff"]), ["0xff"]),
    (np.datetime64("-5000-01-01"), "-5000-01-01"),
    (datetime.max, "9999-12-31T23:59:59.999999"),
    (timedelta.max, "P999999999DT23H59M59.999999S"),
    (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8"),
    ({"a.b": 1, "$x": 2}, {"a.b": 1, "$x": 2}),
    ({"\ud800": 1, "\\ud800": 2}, {"\\ud800": 1, "\\ud800_2": 2}),
    ({b"x": 1, (1, 2): 2}, {"0x78": 1, "[1, 2]": 2}),
    (bson.Decimal128("1.5"), "1.5"),
    (arrow.scalar([("k", 1)], pa.map_(pa.string(), pa.int32())), [["k", 1]]),
    (arrow.scalar([("k", 2**60)], pa.map_(pa.string(), pa.timestamp("s"))), [["k", FAR]]),
    (arrow.scalar([1500], pa.list_(pa.time64("ns"))), ["00:00:00.000001500"]),
    (arrow.scalar(1500, pa.time64("ns")), "00:00:00.000001500"),
    (arrow.scalar(-5, pa.duration("ns")), "PT-0.000000005S"),
    (arrow.scalar({"a": 1}, pa.struct([("a", pa.int32())])), {"a": 1}),
    (arrow.scalar(2**64 - 1, pa.uint64()), str(2**64 - 1)),
    (arrow.scalar(Decimal("1" * 60), pa.decimal256(70, 0)), "1" * 60),
    (arrow.array(["a"]).dictionary_encode()[0], "a"),
    (arrow.scalar(b"\xff", pa.large_binary()), "0xff"),
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
