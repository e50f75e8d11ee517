"""From the rows that Cube answers with to an Arrow table with the types of its data model.

Cube sends most numbers as texts and all times as texts. They are read by the type that the model
declares, and never rounded: what does not fit the narrower type keeps the wider one, in the end the
text as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from adapters.warehouses.cube.model import Member
from adapters.warehouses.cube.query import ResultColumn
from pipeline.sql.rows import normalise

Row = Mapping[str, Any]
_NOT_FINITE = {"nan": float("nan"), "infinity": float("inf"), "-infinity": float("-inf")}
_WORDS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_NANOSECONDS = re.compile(r"\.\d{6}\d*[1-9]")
_MAX_DIGITS = 38
_INT64 = range(-(2**63), 2**63)


def table_of(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> pa.Table:
    """One column for each of ``columns``, in that order; what a row lacks is null there."""
    arrays = [typed(column.member, [row.get(column.name) for row in rows]) for column in columns]
    return pa.table(dict(zip((column.name for column in columns), arrays, strict=True)))


def typed(member: Member, values: Sequence[Any]) -> pa.Array[Any]:
    """Values of a member, as they came in JSON (decimals as ``Decimal``), as an Arrow array."""
    if member.type == "number":
        array = numbers(values, whole=member.counts)
    elif member.type == "time":
        array = times(values)
    elif member.type == "boolean":
        array = booleans(values)
    else:
        array = None
    return texts(values) if array is None else array


def numbers(values: Sequence[Any], *, whole: bool = False) -> pa.Array[Any] | None:
    """64-bit integers, else decimals, else doubles that print as the same number; None where
    something is no number. ``whole`` decides for a column without any value."""
    read = [_number(value) for value in values]
    if _unread(read, values):
        return None
    found = [number for number in read if number is not None]
    if not found:
        return pa.nulls(len(values), pa.int64() if whole else pa.float64())
    exact = [number for number in found if isinstance(number, Decimal)]
    if len(exact) < len(found):
        return _doubles_of(read, exact)
    if all(_is_plain_integer(number) for number in exact):
        if all(int(number) in _INT64 for number in exact):
            return pa.array([None if n is None else int(n) for n in read], pa.int64())
        return _decimals(read, exact)
    spoken = [value for value in values if isinstance(value, str)]
    order = (_decimals, _doubles_of) if spoken else (_doubles_of, _decimals)
    return next((a for make in order if (a := make(read, exact)) is not None), None)


def times(values: Sequence[Any]) -> pa.Array[Any] | None:
    """Timestamps in microseconds, in UTC when every value names its offset, else without a zone."""
    read: list[datetime | None] = []
    for value in values:
        moment = _moment(value)
        if moment is None and value is not None:
            return None
        read.append(moment)
    zoned = {moment.tzinfo is not None for moment in read if moment is not None}
    if len(zoned) > 1:
        return None
    return pa.array(read, pa.timestamp("us", "UTC") if True in zoned else pa.timestamp("us"))


def booleans(values: Sequence[Any]) -> pa.Array[Any] | None:
    read = [v if v is None else _WORDS.get(str(v).lower()) for v in values]
    if _unread(read, values):
        return None
    return pa.array(read, pa.bool_())


def texts(values: Sequence[Any]) -> pa.Array[Any]:
    return pa.array([None if v is None else _spelt(v) for v in values], pa.string())


def _unread(read: Sequence[Any], values: Sequence[Any]) -> bool:
    """True when something was given that could not be read."""
    return any(r is None and v is not None for r, v in zip(read, values, strict=True))


def _number(value: Any) -> Decimal | float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    text = value.strip() if isinstance(value, str) else ""
    if text.lower() in _NOT_FINITE:
        return _NOT_FINITE[text.lower()]
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _is_plain_integer(number: Decimal) -> bool:
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0 and number.adjusted() <= _MAX_DIGITS


def _decimals(
    read: Sequence[Decimal | float | None], exact: Sequence[Decimal]
) -> pa.Array[Any] | None:
    scale = max(max(0, -_exponent(number)) for number in exact)
    digits = max(max(number.adjusted() + 1, 1) for number in exact) + scale
    if digits > _MAX_DIGITS:
        return None
    return pa.array(read, pa.decimal128(digits, scale))


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _doubles_of(
    read: Sequence[Decimal | float | None], exact: Sequence[Decimal]
) -> pa.Array[Any] | None:
    if any(Decimal(repr(float(number))) != number for number in exact):
        return None
    return pa.array([None if n is None else float(n) for n in read], pa.float64())


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str) or _NANOSECONDS.search(value):
        return None
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None


def _spelt(value: Any) -> str:
    if isinstance(value, str | Decimal):
        return str(normalise(str(value)))
    return json.dumps(value, default=str)
