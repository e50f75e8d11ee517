"""Dates, times and durations as ISO 8601, also where Python's own types cannot hold them.

Warehouses know years beyond 9999 and before 1, infinite dates, and nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta, tzinfo
from decimal import Decimal
from typing import Any, TypeAlias, cast

import pyarrow as pa

Column: TypeAlias = "pa.ChunkedArray[Any]"

_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
_INFINITE_DATES = {2**31 - 1: "Infinity", -(2**31) + 1: "-Infinity"}
_INFINITE_MOMENTS = {2**63 - 1: "Infinity", -(2**63) + 1: "-Infinity"}


def duration(months: int, days: int, nanoseconds: int) -> str:
    """An ISO 8601 duration; every part carries its own sign: ``P1M-2DT3.5S``."""
    text = "P"
    years, months = _split(months, 12)
    text += f"{years}Y" if years else ""
    text += f"{months}M" if months else ""
    text += f"{days}D" if days else ""
    minutes, rest = _split(nanoseconds, 60 * 10**9)
    hours, minutes = _split(minutes, 60)
    clock = f"{hours}H" if hours else ""
    clock += f"{minutes}M" if minutes else ""
    clock += f"{_seconds(rest)}S" if rest else ""
    if clock:
        return f"{text}T{clock}"
    return text if text != "P" else "PT0S"


def duration_of(value: Any) -> str | None:
    """The ISO 8601 duration of a timedelta or of a driver's interval, or None for other values."""
    if isinstance(value, timedelta):
        beyond = getattr(value, "nanoseconds", 0)  # pandas keeps more than microseconds
        return _plain_duration(value // timedelta(microseconds=1) * 1000 + beyond)
    parts = [getattr(value, part, None) for part in ("months", "days", "nanoseconds")]
    if all(isinstance(part, int) for part in parts):
        return duration(*cast("list[int]", parts))
    return _relative(value) if type(value).__name__ == "relativedelta" else None


def _relative(value: Any) -> str:
    """An interval of BigQuery's driver."""
    clock = (value.hours * 60 + value.minutes) * 60 + value.seconds
    nanoseconds = int(clock * 10**9) + int(value.microseconds * 1000)
    return duration(int(value.years * 12 + value.months), int(value.days), nanoseconds)


def numpy_duration(value: Any) -> str | None:
    """The duration of a ``numpy.timedelta64`` in its own unit; None for NaT."""
    count = int(value.astype("int64"))
    if count == -(2**63):
        return None
    number, unit = _NUMPY_UNIT.fullmatch(str(value.dtype)).groups()  # pyright: ignore[reportOptionalMemberAccess] - every dtype of a timedelta64 has this form
    count *= int(number or 1)
    if unit in _MONTHS:
        return duration(count * _MONTHS[unit], 0, 0)
    if unit in _BELOW_NANOS:
        return f"PT{Decimal(count).scaleb(_BELOW_NANOS[unit]):f}S"
    return _plain_duration(count * _NUMPY_NANOS[unit])


_NUMPY_UNIT = re.compile(r"timedelta64\[(\d*)(\w+)\]")
_MONTHS = {"Y": 12, "M": 1}
_BELOW_NANOS = {"ps": -12, "fs": -15, "as": -18}
_NUMPY_NANOS = {"W": 7 * _DAY, "D": _DAY, "h": 3600 * 10**9, "m": 60 * 10**9, **_NANOS}


def arrow_temporal(column: Column) -> list[Any] | None:
    """ISO texts of an Arrow column of dates, times, timestamps or durations; else None."""
    kind: Any = column.type
    if pa.types.is_date32(kind):
        return _mapped(column, pa.int32(), _date_text)
    if pa.types.is_date64(kind):
        return _mapped(column, pa.int64(), lambda ms: _date_text(ms // 86_400_000))
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_time(kind):
        width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        scale = _NANOS[kind.unit]
        return _mapped(column, width, lambda v: _clock(v * scale))
    if pa.types.is_duration(kind):
        scale = _NANOS[kind.unit]
        return _mapped(column, pa.int64(), lambda v: _plain_duration(v * scale))
    return None


def _mapped(column: Column, width: pa.DataType, text: Callable[[int], str]) -> list[str | None]:
    numbers = cast("list[int | None]", cast("Any", column).cast(width).to_pylist())
    return [None if number is None else text(number) for number in numbers]


def _timestamps(column: Column) -> list[Any]:
    """Without a zone: the wall clock. With one: the instant, at the zone's offset."""
    kind: Any = column.type
    if kind.tz is not None and kind.tz not in {"UTC", "Etc/UTC"}:
        return [_zoned(scalar, kind) for scalar in cast("Iterable[Any]", column)]
    suffix = "" if kind.tz is None else "+00:00"
    scale = _NANOS[kind.unit]
    return _mapped(column, pa.int64(), lambda v: _moment_text(v, scale, suffix))


def _zoned(scalar: Any, kind: Any) -> str | None:
    """One instant in a named zone; beyond Python's years the offset of UTC is written."""
    if not scalar.is_valid:
        return None
    scale = _NANOS[kind.unit]
    try:
        micro = scalar.cast(pa.timestamp("us", kind.tz), safe=False).as_py()
    except (OverflowError, ValueError):
        return _moment_text(scalar.value, scale, "+00:00")
    offset = cast("tzinfo", micro.tzinfo).utcoffset(micro)
    shift = (offset or timedelta()) // timedelta(microseconds=1) * 1000
    text = micro.isoformat()
    suffix = text[19 if "." not in text else 26 :]
    return _moment_text(scalar.value * scale + shift, 1, suffix)


def _moment_text(number: int, scale: int, suffix: str) -> str:
    if number in _INFINITE_MOMENTS:
        return _INFINITE_MOMENTS[number]
    days, nanoseconds = divmod(number * scale, _DAY)
    return f"{_date_text(days)}T{_clock(nanoseconds)}{suffix}"


def _clock(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, 10**9)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if not fraction:
        return text
    return f"{text}.{fraction:09d}" if fraction % 1000 else f"{text}.{fraction // 1000:06d}"


def _plain_duration(nanoseconds: int) -> str:
    days, rest = _split(nanoseconds, _DAY)
    return duration(0, days, rest)


def _date_text(days: int) -> str:
    """The proleptic Gregorian date of a day counted from 1970-01-01."""
    if days in _INFINITE_DATES:
        return _INFINITE_DATES[days]
    # Count from 1 March of year 0, so that a leap day is the last day of its year.
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    shown = f"{year:04d}" if 1 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}-{month:02d}-{day:02d}"


def _seconds(nanoseconds: int) -> str:
    sign, size = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    whole, fraction = divmod(size, 10**9)
    return f"{sign}{whole}" + (f".{fraction:09d}".rstrip("0") if fraction else "")


def _split(value: int, size: int) -> tuple[int, int]:
    """Quotient and remainder that share the sign of ``value``."""
    quotient, remainder = divmod(abs(value), size)
    return (-quotient, -remainder) if value < 0 else (quotient, remainder)
