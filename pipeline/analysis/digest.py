# pyright: reportUnknownMemberType=false
# The stubs of pyarrow's kernels leave their type variables open.
"""A digest: what the analysing model sees of a step's result instead of all of its rows.

Up to ``INLINE_ROWS`` rows are shown whole. A larger result is described by column (kind, missing
values, distinct values, quartiles or first and last moment, most frequent values) with its first
and last rows. Constants and field names are those of the reference facts, A.3 and section H.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field

from pipeline.sql.rows import rows_of, unique_names

INLINE_ROWS = 20
EDGE_ROWS = 5
TOP_IF_DISTINCT = 20
TOP_VALUES = 3

Kind = Literal["number", "string", "boolean", "timestamp", "null", "mixed"]


class TopValue(BaseModel):
    value: Any
    """Normalised."""
    count: int


class ColumnDigest(BaseModel):
    """One column. A field that says nothing about this kind of column is None."""

    name: str
    kind: Kind
    """``null`` when the column has rows but no value; ``mixed`` for lists, structs and maps."""
    null_count: int
    """Nulls, and for floats also NaN and the infinities."""
    distinct_in_result: int | None = None
    """Distinct values among the rows of this result, missing ones left out."""
    min: Any = None
    p25: Any = None
    median: Any = None
    p75: Any = None
    max: Any = None
    min_time: str | None = None
    max_time: str | None = None
    top: list[TopValue] | None = None
    """The most frequent values, most frequent first; only when there are few distinct ones."""


class Digest(BaseModel):
    row_count: int
    columns: list[ColumnDigest]
    head_rows: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """The first rows, normalised; empty when ``all_rows`` holds everything."""
    tail_rows: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """The last rows; empty when they would repeat the head."""
    all_rows: list[dict[str, Any]] | None = None
    """Every row when there are few, else None."""

    def as_json(self) -> dict[str, Any]:
        """The form that prompts and the exploration log hold: fields without content left out."""
        payload = self.model_dump(mode="json", exclude_none=True)
        if self.all_rows is not None:
            del payload["head_rows"], payload["tail_rows"]
        elif not self.tail_rows:
            del payload["tail_rows"]
        return payload


def digest(
    table: pa.Table, *, inline_rows: int = INLINE_ROWS, edge_rows: int = EDGE_ROWS
) -> Digest:
    """Describe a result. Column names that repeat are numbered as everywhere else.

    With every row inlined the columns shrink to name, kind and null count.
    """
    table = table.rename_columns(unique_names(table.column_names))
    count = table.num_rows
    whole = count <= inline_rows
    columns = [
        _describe(name, table.column(position), brief=whole)
        for position, name in enumerate(table.column_names)
    ]
    if whole:
        return Digest(row_count=count, columns=columns, all_rows=rows_of(table))
    tail = rows_of(table, count - edge_rows, edge_rows) if count > 2 * edge_rows else []
    return Digest(
        row_count=count, columns=columns, head_rows=rows_of(table, 0, edge_rows), tail_rows=tail
    )


# ---------------------------------------------------------------- one column


def _describe(name: str, column: pa.ChunkedArray[Any], *, brief: bool) -> ColumnDigest:
    values = _plain_type(column)
    present = _without_missing(values)
    found = ColumnDigest(
        name=name,
        kind=_kind(values, present),
        null_count=len(column) - len(present),
    )
    if brief or not len(present):
        return found if brief else found.model_copy(update={"distinct_in_result": 0})
    update: dict[str, Any] = _frequencies(present)
    if found.kind == "number":
        update |= _quartiles(present)
    elif found.kind == "timestamp":
        update |= _span(present)
    return found.model_copy(update=update)


def _plain_type(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """One contiguous array, with encodings that compute kernels do not take undone."""
    values: Any = column.combine_chunks()
    while True:
        kind: pa.DataType = values.type
        if isinstance(kind, pa.BaseExtensionType):
            values = values.storage
        elif pa.types.is_dictionary(kind):
            values = values.dictionary_decode()
        elif pa.types.is_run_end_encoded(kind):
            values = pc.call_function("run_end_decode", [values])
        elif pa.types.is_string_view(kind):
            values = values.cast(pa.large_string())
        elif pa.types.is_binary_view(kind):
            values = values.cast(pa.large_binary())
        elif pa.types.is_float16(kind):
            values = values.cast(pa.float32())
        else:
            return cast("pa.Array[Any]", values)


def _without_missing(values: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_null(values.type):
        return values.slice(0, 0)
    if pa.types.is_union(values.type):
        kept = [i for i, value in enumerate(values) if value.as_py() is not None]
        return values.take(pa.array(kept, pa.int64()))
    present = values.drop_null()
    return present.filter(pc.is_finite(present)) if pa.types.is_floating(values.type) else present


def _kind(values: pa.Array[Any], present: pa.Array[Any]) -> Kind:
    if len(values) and not len(present):
        return "null"
    kind = values.type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_nested(kind):
        return "mixed"
    return _kind_as_shown(present)


def _kind_as_shown(present: pa.Array[Any]) -> Kind:
    """Text, bytes, times of day, durations: a number if rows show one, else text."""
    shown = _normalised(present.slice(0, 1))
    number = bool(shown) and isinstance(shown[0], int | float) and not isinstance(shown[0], bool)
    return "number" if number else "string"


def _normalised(values: pa.Array[Any]) -> list[Any]:
    """The values as rows show them."""
    return [row["value"] for row in rows_of(pa.table({"value": values}))]


# ---------------------------------------------------------------- frequencies


def _frequencies(present: pa.Array[Any]) -> dict[str, Any]:
    try:
        counted: Any = pc.value_counts(present)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return _frequencies_of_nested(_normalised(present))
    distinct = len(counted)
    if distinct > TOP_IF_DISTINCT:
        return {"distinct_in_result": distinct}
    counts = cast("list[int]", counted.field("counts").to_pylist())
    return _top(_normalised(counted.field("values")), counts)


def _frequencies_of_nested(shown: Sequence[Any]) -> dict[str, Any]:
    """Compute kernels do not compare lists, structs and maps; their normalised JSON does."""
    texts = [json.dumps(value, sort_keys=True, ensure_ascii=False) for value in shown]
    counted = Counter(texts)
    if len(counted) > TOP_IF_DISTINCT:
        return {"distinct_in_result": len(counted)}
    return _top([json.loads(text) for text in counted], list(counted.values()))


def _top(values: Sequence[Any], counts: Sequence[int]) -> dict[str, Any]:
    """Most frequent first; equally frequent ones in the order in which they first appear."""
    ranked = sorted(zip(values, counts, strict=True), key=lambda pair: -pair[1])
    top = [TopValue(value=value, count=count) for value, count in ranked[:TOP_VALUES]]
    return {"distinct_in_result": len(values), "top": top}


# ---------------------------------------------------------------- numbers and moments


def _ordered(present: pa.Array[Any], positions: Sequence[int]) -> pa.Array[Any]:
    order = pc.array_sort_indices(present)
    return present.take(order.take(pa.array(positions, pa.int64())))


def _quartiles(present: pa.Array[Any]) -> dict[str, Any]:
    """Minimum, maximum and percentiles by linear interpolation, computed exactly."""
    last = len(present) - 1
    quarters = [Fraction(last * n, 4) for n in range(5)]
    spots = [(math.floor(at), math.ceil(at), at - math.floor(at)) for at in quarters]
    picked = _ordered(present, [place for low, high, _ in spots for place in (low, high)])
    shown = _normalised(picked)
    exact = [_fraction(v, s) for v, s in zip(picked.to_pylist(), shown, strict=True)]
    results: list[Any] = []
    for index, (_, _, weight) in enumerate(spots):
        low, high = exact[2 * index], exact[2 * index + 1]
        if low is None or high is None or low == high or not weight:
            results.append(shown[2 * index])
        else:
            results.append(_number(low + (high - low) * weight))
    return dict(zip(("min", "p25", "median", "p75", "max"), results, strict=True))


def _fraction(value: Any, shown: Any) -> Fraction | None:
    """The exact value; of a duration, the number that rows show for it."""
    number = value if isinstance(value, int | float | Decimal) else shown
    return Fraction(number) if isinstance(number, int | float | Decimal) else None


def _number(value: Fraction) -> int | float:
    return value.numerator if value.denominator == 1 else float(value)


def _span(present: pa.Array[Any]) -> dict[str, Any]:
    first, last = _normalised(_ordered(present, [0, len(present) - 1]))
    return {"min_time": str(first), "max_time": str(last)}
