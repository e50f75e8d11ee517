# pyright: reportUnknownMemberType=false
# The stubs of pyarrow leave their type variables open.
"""Facts, section H: what a digest says of a result."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.digest import ColumnDigest, digest

N = 30


def column(values: Any, kind: pa.DataType | None = None) -> ColumnDigest:
    """The digest of one column of more rows than are inlined."""
    return digest(pa.table({"c": pa.array(values, kind)})).columns[0]


@pytest.mark.parametrize(("rows", "inlined"), [(0, True), (1, True), (20, True), (21, False)])
def test_up_to_20_rows_are_inlined_whole(rows: int, inlined: bool) -> None:
    found = digest(pa.table({"n": pa.array(range(rows), pa.int64())}))
    assert found.row_count == rows
    assert (found.all_rows is not None) is inlined
    if inlined:
        assert found.all_rows == [{"n": n} for n in range(rows)]
        assert found.head_rows == found.tail_rows == []


def test_larger_results_show_five_head_and_five_tail_rows() -> None:
    found = digest(pa.table({"n": range(21)}))
    assert [row["n"] for row in found.head_rows] == [0, 1, 2, 3, 4]
    assert [row["n"] for row in found.tail_rows] == [16, 17, 18, 19, 20]


@pytest.mark.parametrize(("rows", "tail"), [(10, 0), (11, 5)])
def test_tail_rows_only_beyond_twice_the_head(rows: int, tail: int) -> None:
    found = digest(pa.table({"n": range(rows)}), inline_rows=3)
    assert len(found.tail_rows) == tail


def test_with_all_rows_column_statistics_shrink_to_name_kind_and_null_count() -> None:
    payload = digest(pa.table({"n": pa.array([1, None, 3])})).as_json()
    assert payload["columns"] == [{"name": "n", "kind": "number", "null_count": 1}]
    assert set(payload) == {"row_count", "columns", "all_rows"}


NESTED = pa.array([[("k", 1)]] * N, pa.map_(pa.string(), pa.int64()))
RUNS = cast("Any", pa.RunEndEncodedArray.from_arrays(pa.array([10, N]), pa.array(["a", "b"])))
UNION = pa.UnionArray.from_dense(
    pa.array([0] * 15 + [1] * 15, pa.int8()),
    pa.array([*range(15), *range(15)], pa.int32()),
    [pa.array(range(15)), pa.array(["z"] * 15)],
)


KINDS: list[tuple[Any, str]] = [
    (pa.array(range(N)), "number"),
    (pa.array(range(N), pa.uint64()), "number"),
    (pa.array([1.5] * N, pa.float16()), "number"),
    (pa.array([Decimal("1.10")] * N), "number"),
    (pa.array([Decimal("1.10")] * N).dictionary_encode(), "number"),
    (pa.array(["a"] * N), "string"),
    (pa.array(["a"] * N, pa.string_view()), "string"),
    (pa.array(["a"] * N).dictionary_encode(), "string"),
    (pa.array([b"\x00"] * N), "string"),
    (pa.array([b"ab"] * N, pa.binary(2)), "string"),
    (pa.array([b"ab"] * N, pa.binary_view()), "string"),
    (pa.array([time(1, 2)] * N), "string"),
    (pa.array([timedelta(seconds=1)] * N), "string"),
    (pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval()), "string"),
    (RUNS, "string"),
    (pa.array([True] * N), "boolean"),
    (pa.array([datetime(2020, 1, 1)] * N, pa.timestamp("ns")), "timestamp"),
    (pa.array([datetime(2020, 1, 1, tzinfo=UTC)] * N), "timestamp"),
    (pa.array([date(2020, 1, 1)] * N), "timestamp"),
    (pa.nulls(N), "null"),
    (pa.array([None] * N, pa.string()), "null"),
    (pa.array([math.nan] * N), "null"),
    (pa.array([[1, 2]] * N), "mixed"),
    (pa.array([{"a": 1}] * N), "mixed"),
    (NESTED, "mixed"),
    (UNION, "mixed"),
]


@pytest.mark.parametrize(("values", "kind"), KINDS)
def test_every_arrow_type_has_one_of_six_kinds(values: Any, kind: str) -> None:
    table = pa.table({"c": values})
    assert digest(table).columns[0].kind == kind
    for length in (0, 3):  # inlined results of the same type
        json.dumps(digest(table.slice(0, length)).as_json(), allow_nan=False)
    json.dumps(digest(pa.concat_tables([table, table])).as_json(), allow_nan=False)


def test_an_empty_table_keeps_its_columns_and_kinds() -> None:
    found = digest(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}))
    assert [(c.name, c.kind, c.null_count) for c in found.columns] == [
        ("a", "number", 0),
        ("b", "string", 0),
    ]
    assert found.all_rows == []


def test_a_table_without_columns_is_a_digest_too() -> None:
    assert digest(pa.table({})).as_json() == {"row_count": 0, "columns": [], "all_rows": []}


def test_nan_and_infinity_count_as_null() -> None:
    found = column([math.nan, math.inf, -math.inf, None, *map(float, range(26))])
    assert found.null_count == 4
    assert (found.min, found.max, found.distinct_in_result) == (0.0, 25.0, 26)


def test_percentiles_interpolate_linearly() -> None:
    found = column([*range(1, 31)])
    assert (found.min, found.p25, found.median, found.p75, found.max) == (1, 8.25, 15.5, 22.75, 30)


def test_big_integers_stay_exact() -> None:
    found = column([2**62 + n for n in range(N + 1)])
    assert (found.min, found.median, found.max) == (2**62, 2**62 + 15, 2**62 + 30)


def test_decimals_stay_exact() -> None:
    found = column([Decimal("0.10") + n for n in range(N + 1)])
    assert (found.min, found.median, found.max) == (0.1, 15.1, 30.1)


@given(st.lists(st.floats(-1e12, 1e12), min_size=21, max_size=60))
def test_percentiles_are_ordered(values: list[float]) -> None:
    found = column(values)
    assert min(values) == found.min <= found.p25 <= found.median <= found.p75 <= found.max
    assert found.max == max(values)


def test_moments_have_a_first_and_a_last() -> None:
    days = [date(2020, 1, 1) + timedelta(days=n) for n in range(N)]
    found = column(days[::-1])
    assert (found.min_time, found.max_time) == ("2020-01-01", "2020-01-30")
    assert found.min is None


@pytest.mark.parametrize(("distinct", "listed"), [(20, True), (21, False)])
def test_top_values_only_up_to_20_distinct_ones(distinct: int, listed: bool) -> None:
    found = column([f"v{n % distinct}" for n in range(210)])
    assert found.distinct_in_result == distinct
    assert (found.top is not None) is listed


def test_three_top_values_most_frequent_first() -> None:
    found = column(["a"] * 5 + ["b"] * 9 + ["c"] * 7 + ["d"] * 3 + [None] * 6)
    assert found.top is not None
    assert [(top.value, top.count) for top in found.top] == [("b", 9), ("c", 7), ("a", 5)]
    assert (found.distinct_in_result, found.null_count) == (4, 6)


def test_nested_values_are_counted_by_what_they_hold() -> None:
    found = column([{"a": n % 2} for n in range(N)])
    assert found.distinct_in_result == 2
    assert found.top is not None
    assert found.top[0].value == {"a": 0}


def test_repeated_column_names_are_numbered() -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    found = digest(table)
    assert len({column.name for column in found.columns}) == 2
    assert found.all_rows is not None
    assert list(found.all_rows[0]) == [column.name for column in found.columns]


def test_a_field_that_says_nothing_is_left_out_of_the_json() -> None:
    payload = digest(pa.table({"n": range(N), "s": ["x"] * N})).as_json()
    numbers, texts = payload["columns"]
    assert set(numbers) == {
        "name", "kind", "null_count", "distinct_in_result", "min", "p25", "median", "p75", "max",
    }  # fmt: skip
    assert set(texts) == {"name", "kind", "null_count", "distinct_in_result", "top"}
    assert set(payload) == {"row_count", "columns", "head_rows", "tail_rows"}


def test_ten_thousand_rows_take_no_python_loop() -> None:
    wide = {f"n{i}": range(10_000) for i in range(5)}
    wide_text = {f"s{i}": [f"v{n}" for n in range(10_000)] for i in range(5)}
    assert digest(pa.table({**wide, **wide_text})).row_count == 10_000
