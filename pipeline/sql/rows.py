"""One place that turns any driver value into valid JSON and BSON without changing it.

What a value becomes:

=====================  ==========================================================================
bool, None, str        themselves; a lone surrogate is written out as ``\\udXXX``
int                    itself within 64 bits, beyond that its digits as text
float                  itself; ``"NaN"``, ``"Infinity"``, ``"-Infinity"``
Decimal                without fraction digits as an int is; else a float when that prints as the
                       same number; else its digits as text. Never rounded.
date, time, datetime   ISO 8601, offset kept; years outside 0001-9999 with a sign
timedelta, interval    ISO 8601 duration, such as ``P1M2DT3.5S``
bytes                  ``0x`` and hexadecimal digits
UUID and other scalars their text
list, tuple, set       a list; sets are sorted by their text
dict, struct           a dict whose keys are unique texts without NUL
=====================  ==========================================================================

``normalise`` is idempotent.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.sql.temporal import arrow_temporal, duration_of, numpy_duration

Column: TypeAlias = "pa.ChunkedArray[Any]"

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_DEPTH = 60
"""Levels of nesting that are kept; a MongoDB document may have 100."""
TOO_DEEP = f"[nested deeper than {MAX_DEPTH} levels]"

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def normalise(value: Any) -> Any:
    """The JSON value of ``value``; see the table above. Never raises."""
    return _normalise(value, 0)


def unique_names(names: Iterable[Any]) -> list[str]:
    """Column names that are texts, not empty and unique: ``a, a, "" -> a, a_2, column_3``."""
    given = [_key(name) for name in names]
    taken = {name for name in given if name}
    used: set[str] = set()
    unique: list[str] = []
    for position, name in enumerate(given, start=1):
        wanted = name or f"column_{position}"
        free, count = wanted, 1
        while free in used or (count > 1 and free in taken) or (not name and free in taken):
            count += 1
            free = f"{wanted}_{count}"
        used.add(free)
        unique.append(free)
    return unique


def rows_of(table: pa.Table, offset: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
    """Rows of an Arrow table as dicts of normalised values, ``limit`` of them from ``offset``.

    A negative offset counts as 0; an offset beyond the end gives no rows.
    """
    start = max(0, offset)
    count = max(0, table.num_rows - start if limit is None else limit)
    page = table.slice(start, count)
    names = unique_names(page.column_names)
    columns = [column_values(page.column(i)) for i in range(page.num_columns)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def column_values(column: Column) -> list[Any]:
    """The normalised values of one Arrow column, in order."""
    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return column_values(column.cast(kind.value_type))
    if _is_plain(kind) or (pa.types.is_floating(kind) and _all_finite(column)):
        return _values(column)
    temporal = arrow_temporal(column)
    if temporal is not None:
        return temporal
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return [None if v is None else _integer(int(v)) for v in _values(column)]
    if pa.types.is_nested(kind):
        return _nested_values(column)
    return [normalise(value) for value in _values(column)]


def _values(column: Column) -> list[Any]:
    plain = cast("Any", column)
    try:
        return cast("list[Any]", plain.to_pylist())
    except UnicodeDecodeError:  # a text that is no UTF-8: its odd bytes are written out
        raw = cast("list[bytes | None]", plain.cast(pa.large_binary()).to_pylist())
        return [None if text is None else text.decode("utf-8", "backslashreplace") for text in raw]


def _is_plain(kind: pa.DataType) -> bool:
    narrow_integer = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return narrow_integer or text or pa.types.is_boolean(kind) or pa.types.is_null(kind)


def _all_finite(column: Column) -> bool:
    compute: Any = pc
    return bool(compute.all(compute.is_finite(column), min_count=0).as_py())


def _nested_values(column: Column) -> list[Any]:
    """Nested values, one by one."""
    values: list[Any] = []
    loses_nanoseconds = "time64[ns]" in str(column.type)  # Python's time ends at microseconds
    for scalar in cast("Iterable[Any]", column):
        if loses_nanoseconds:
            values.append(_nested_value(scalar))
            continue
        try:
            values.append(normalise(scalar.as_py()))
        except (ValueError, OverflowError, pa.ArrowException):
            values.append(_nested_value(scalar))
    return values


def _nested_value(scalar: Any) -> Any:
    """A value with a date or time in it that Python cannot hold."""
    if not scalar.is_valid:
        return None
    kind: Any = scalar.type
    if pa.types.is_union(kind):
        return _nested_value(scalar.value)
    if pa.types.is_map(kind):
        return [list(_nested_value(entry).values()) for entry in scalar.values]
    if pa.types.is_struct(kind):
        names = unique_names(kind.names)
        members = [_nested_value(scalar[i]) for i in range(len(names))]
        return dict(zip(names, members, strict=True))
    if hasattr(scalar, "values") and pa.types.is_nested(kind):
        return [_nested_value(member) for member in scalar.values]
    if pa.types.is_nested(kind):
        return f"[{kind} that cannot be read]"
    arrow: Any = pa
    return column_values(arrow.chunked_array([arrow.repeat(scalar, 1)]))[0]


def _normalise(value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    exact = _EXACT.get(cast("type[Any]", type(value)))
    if exact is not None:
        return exact(value)
    try:
        return _by_kind(value, depth)
    except Exception:  # noqa: BLE001 - a driver's own types may raise anything when they are read
        return _text_of(value)


def _by_kind(value: Any, depth: int) -> Any:
    if isinstance(value, Enum):
        return _normalise(value.value, depth)
    for kind, convert in _BY_BASE:
        if isinstance(value, kind):
            return convert(value)
    if isinstance(value, pa.Scalar):
        return _arrow_scalar(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        value = {name: getattr(value, name) for name in names}
    if depth >= MAX_DEPTH and isinstance(value, Mapping | Sequence | Set):
        return TOO_DEEP
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), depth)
    return _sequence_or_scalar(value, depth)


def _arrow_scalar(value: Any) -> Any:
    """As in a column of its type. Before mappings and sequences: nested scalars are both."""
    if not value.is_valid:
        return None
    arrow: Any = pa
    try:
        column = arrow.chunked_array([arrow.repeat(value, 1)])
    except (TypeError, ValueError, pa.ArrowException):  # of types that cannot be repeated
        return normalise(value.as_py())
    return column_values(column)[0]


def _sequence_or_scalar(value: Any, depth: int) -> Any:
    interval = duration_of(value)
    if interval is not None:
        return interval
    if isinstance(value, Set):
        members = [_normalise(member, depth + 1) for member in cast("Set[Any]", value)]
        return sorted(members, key=repr)
    if isinstance(value, Sequence | ValuesView):
        return [_normalise(member, depth + 1) for member in cast("Iterable[Any]", value)]
    return _foreign(value, depth)


def _foreign(value: Any, depth: int) -> Any:
    """Values of libraries that this module does not import: numpy, pandas, pyarrow, pydantic."""
    name = cast("type[Any]", type(value)).__name__
    if name in {"NAType", "NaTType"}:
        return None
    if name == "datetime64":
        text = str(value)
        return None if text == "NaT" else text
    if name == "timedelta64":
        return numpy_duration(value)
    if name == "longdouble" and str(value).strip("-") in {"nan", "inf"}:
        return _real(float(value))
    fields = getattr(getattr(value, "dtype", None), "names", None)
    if name == "void" and fields:
        return _normalise(dict(zip(fields, value, strict=True)), depth)
    if name in {"ndarray", "recarray"} and fields:
        return _normalise(list(value) if value.ndim else value[()], depth + 1)
    if name == "ndarray" and value.dtype.kind in "mM":
        # Its tolist() would make plain numbers of nanoseconds.
        return _normalise(list(value) if value.ndim else value[()], depth + 1)
    for method in ("tolist", "to_pylist", "as_py", "model_dump", "item"):
        convert = getattr(value, method, None)
        if not callable(convert):
            continue
        try:
            plain = convert()
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            continue
        if type(plain) is not type(value):
            return _normalise(plain, depth + 1) if depth < MAX_DEPTH else TOO_DEEP
    return _nested_value(value) if isinstance(value, pa.Scalar) else _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return _text(str(value))
    except Exception as error:  # noqa: BLE001 - a foreign __str__ may raise anything at all
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _text(value: str) -> str:
    if value.isascii() or not _SURROGATE.search(value):
        return str(value)
    joined = _PAIR.sub(
        lambda m: m.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), value
    )
    return joined.encode("utf-8", "backslashreplace").decode("utf-8")


def _key(value: Any) -> str:
    """A text that may be a BSON key."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else _as_label(normalise(value))
    return _text(text).replace("\0", "\\u0000")


def _as_label(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _integer(value: int) -> int | str:
    if INT64_MIN <= value <= INT64_MAX:
        return int(value)
    try:
        return str(int(value))
    except ValueError:  # Python refuses to print more than some thousand digits
        return hex(value)


def _real(value: float) -> float | str:
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> int | float | str:
    if not value.is_finite():
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    exponent = cast("int", value.as_tuple().exponent)
    if exponent >= 0:
        return _integer(int(value)) if value.adjusted() < 400 else str(value)
    if abs(value.adjusted()) < 300:
        near = float(value)
        if Decimal(repr(near)) == value:
            return near
    return format(value, "f") if abs(exponent) < 400 else str(value)


def _bytes(value: Any) -> str:
    return "0x" + bytes(value).hex()


def _moment(value: date | time) -> str | None:
    text = value.isoformat()
    return None if text == "NaT" else text


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    items = list(value.items())
    keys = unique_names("null" if key is None else key for key, _ in items)
    return {
        key: _normalise(member, depth + 1) for key, (_, member) in zip(keys, items, strict=True)
    }


_EXACT: dict[type[Any], Callable[[Any], Any]] = {
    str: _text,
    int: _integer,
    float: _real,
    Decimal: _decimal,
    datetime: _moment,
    date: _moment,
    time: _moment,
    bytes: _bytes,
}
_BY_BASE: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (str, lambda v: _text(str.__str__(v))),
    (int, lambda v: _integer(int(v))),
    (float, lambda v: _real(float(v))),
    (Decimal, _decimal),
    ((date, time), _moment),
    (timedelta, lambda v: duration_of(v)),
    ((bytes, bytearray, memoryview), _bytes),
)
