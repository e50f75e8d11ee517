"""What the columns of a table are good for: measures, groups, keys, time axes.

Judged by type, name, sample values and, once a profile query ran, by distinct counts and ranges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adapters.llm.offline.reading import number_of
from adapters.llm.offline.schema import Column, Facts, Kind, TableInfo, word_set
from adapters.llm.offline.sqltext import quote

_PARTS = ("year", "month", "day", "hour", "minute", "quarter", "week", "weekday", "dow", "second")
_ID_WORDS = word_set(
    "id ids uuid guid key code zip zipcode postcode postal phone fax ssn sku isbn number"
    " num no nr hash token index idx serial version"
)
_PLACE_WORDS = word_set("lat lon lng long latitude longitude tz timezone utc offset")
_ANGLE_WORDS = word_set("dir direction bearing heading angle azimuth")
_NAME_WORDS = ("name", "title", "label", "description", "caption", "fullname")
_SUM_WORDS = word_set(
    "amount revenue sales price total cost quantity qty spend spent value income profit"
    " fee payment distance weight volume count units hours minutes duration miles km"
    " bytes passengers tax freight discount budget salary"
)
MANY_GROUPS = 20
_KNOWN_PREFIX = 3
_MONTH_NAMES = (
    "january february march april may june july august september october november december"
)
MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES.split(), start=1)}
"""Month numbers by English name."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis: an SQL expression that gives a period's name as sortable text."""

    expression: str
    grain: str
    """``year``, ``quarter``, ``month``, ``week``, ``day`` or ``hour``."""
    label: str
    """What the axis is called in prose: the column names it is made of."""
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roles:
    table: TableInfo
    facts: Facts
    measures: tuple[Column, ...]
    groups: tuple[Column, ...]
    keys: tuple[Column, ...]
    flags: tuple[Column, ...]
    axes: tuple[Axis, ...]
    parts: tuple[Column, ...]
    """Integer columns that are parts of a date or a time of day."""

    @property
    def rows(self) -> int:
        return self.facts.rows if self.facts.known else self.table.row_count


def singular(name: str) -> str:
    lower = name.lower()
    if lower.endswith("ies") and len(lower) > 4:
        return lower[:-3] + "y"
    return lower[:-1] if lower.endswith("s") and not lower.endswith("ss") else lower


def same_word(named: str, spoken: str) -> bool:
    """``dep`` and ``departure``, ``origin`` and ``origins``; short names must be equal."""
    if named == spoken or singular(named) == singular(spoken):
        return True
    short = min(len(named), len(spoken))
    if short < _KNOWN_PREFIX:
        return False
    if spoken.startswith(named):
        return True
    return len(spoken) >= 5 and named.startswith(singular(spoken))


def roles_of(table: TableInfo, facts: Facts) -> Roles:
    """Sort a table's columns into roles; a column may be in none."""
    parts = tuple(c for c in table.columns if c.kind is Kind.INTEGER and time_part(c))
    flags = tuple(c for c in table.columns if _is_flag(c, table, facts))
    keys = tuple(c for c in table.columns if is_key(c, table, facts))
    taken = {c.name for c in (*parts, *flags, *keys)}
    measures = tuple(
        c
        for c in table.columns
        if c.numeric and c.name not in taken and _is_measure(c, table, facts)
    )
    measured = {c.name for c in measures}
    groups = tuple(
        sorted(
            (c for c in table.columns if _is_group(c, table, facts, measured)),
            key=lambda c: _group_rank(c, table, facts),
        )
    )
    return Roles(table, facts, measures, groups, keys, flags, _axes(table, facts, parts), parts)


def time_part(column: Column) -> str:
    """Which part of a date or a time an integer column names, or ''."""
    name = column.name.lower()
    if name in _PARTS:
        return name
    last = column.words[-1] if column.words else ""
    return last if last in ("year", "month", "quarter", "week", "weekday") else ""


def is_key(column: Column, table: TableInfo, facts: Facts) -> bool:
    """An identifier: primary, named like one, or as good as unique without being a number."""
    parts = column.words
    if column.primary:
        return True
    named = bool(parts) and (
        parts[-1] in _ID_WORDS or column.name.lower() == singular(table.bare) != table.bare.lower()
    )
    if named and column.kind in {Kind.INTEGER, Kind.TEXT}:
        return column.kind is Kind.INTEGER or facts.distinct.get(column.name, 1000) > MANY_GROUPS
    distinct = facts.distinct.get(column.name)
    return (
        column.kind is Kind.TEXT
        and distinct is not None
        and facts.rows > MANY_GROUPS
        and distinct > 0.9 * facts.rows
    )


def is_name(column: Column) -> bool:
    """A text column that tells people what a row stands for."""
    return column.kind is Kind.TEXT and bool(column.words) and column.words[-1] in _NAME_WORDS


def _is_flag(column: Column, table: TableInfo, facts: Facts) -> bool:
    if column.kind is Kind.BOOLEAN:
        return True
    low, high = number_of(facts.low.get(column.name)), number_of(facts.high.get(column.name))
    return (
        column.kind is Kind.INTEGER
        and not time_part(column)
        and (low, high) == (0, 1)
        and facts.distinct.get(column.name) == 2
    )


def _is_measure(column: Column, table: TableInfo, facts: Facts) -> bool:
    parts = set(column.words)
    if parts & (_PLACE_WORDS | _ANGLE_WORDS):
        return False
    distinct = facts.distinct.get(column.name)
    if distinct is not None and distinct < 2:
        return False
    return not _is_clock(column, table, facts)


def _is_clock(column: Column, table: TableInfo, facts: Facts) -> bool:
    """A time of day written as an integer: 0 to 2400 with minutes below 60."""
    if column.kind is not Kind.INTEGER or not {"time", "hhmm", "clock"} & set(column.words):
        return False
    high = number_of(facts.high.get(column.name))
    if high is not None:
        return 1259 < high <= 2400
    values = [number_of(v) for v in table.sample(column.name)]
    return any(v is not None and 1259 < v <= 2400 for v in values)


def _is_group(column: Column, table: TableInfo, facts: Facts, measured: set[str]) -> bool:
    distinct = facts.distinct.get(column.name)
    if column.kind is Kind.TEXT:
        if distinct is None:
            return True
        return 2 <= distinct <= max(MANY_GROUPS, facts.rows // 2)
    if column.kind is Kind.BOOLEAN:
        return distinct is None or distinct == 2
    if column.kind is Kind.INTEGER and distinct is not None:
        part = time_part(column)
        return 2 <= distinct <= 12 and part not in {"year", "month"} and column.name not in measured
    return False


def _group_rank(column: Column, table: TableInfo, facts: Facts) -> tuple[Any, ...]:
    """Groups that fit on one page come first, then larger ones; names of things before numbers."""
    distinct = facts.distinct.get(column.name, 50)
    position = table.columns.index(column)
    return (distinct > MANY_GROUPS, column.kind is not Kind.TEXT, distinct > 500, position)


def additive(column: Column) -> bool:
    """True when a sum of the measure means something, judged by its name."""
    return bool(set(column.words) & _SUM_WORDS)


def measure_rank(roles: Roles, column: Column) -> tuple[Any, ...]:
    """Measures that vary and are mostly there come first."""
    distinct = roles.facts.distinct.get(column.name, 0)
    low = number_of(roles.facts.low.get(column.name))
    return (distinct <= 10, not (low is not None and low < 0), roles.table.columns.index(column))


# ---------------------------------------------------------------- time


def _axes(table: TableInfo, facts: Facts, parts: tuple[Column, ...]) -> tuple[Axis, ...]:
    found: list[Axis] = []
    by_part = {time_part(c): c for c in reversed(parts)}
    axis = _axis_of_parts(by_part, facts)
    if axis:
        found.append(axis)
    for column in table.columns:
        if column.kind in {Kind.DATE, Kind.STAMP}:
            grain = _grain(facts.low.get(column.name), facts.high.get(column.name))
            if grain and all(grain != a.grain for a in found):
                text = period(moment(column), grain)
                found.append(Axis(text, grain, f"{grain} of {column.name}", (column.name,)))
    return tuple(found)


def _axis_of_parts(parts: dict[str, Column], facts: Facts) -> Axis | None:
    year, month = parts.get("year"), parts.get("month")
    if year is None:
        return None
    years = facts.distinct.get(year.name, 2)
    year_text = f"CAST({quote(year.name)} AS VARCHAR)"
    if month is not None and years <= 1:
        text = f"{year_text} || '-' || LPAD(CAST({quote(month.name)} AS VARCHAR), 2, '0')"
        return Axis(text, "month", f"{year.name} and {month.name}", (year.name, month.name))
    if month is not None and years <= 5:
        quarter = f"CAST(FLOOR(({quote(month.name)} + 2) / 3) AS INTEGER)"
        text = f"{year_text} || '-Q' || CAST({quarter} AS VARCHAR)"
        return Axis(text, "quarter", f"{year.name} and {month.name}", (year.name, month.name))
    if years < 2:
        return None
    return Axis(year_text, "year", year.name, (year.name,))


def moment(column: Column) -> str:
    """The column as a timestamp whose text does not depend on the session's time zone."""
    name = quote(column.name)
    return f"{name} AT TIME ZONE 'UTC'" if column.zoned else name


def period(expression: str, grain: str) -> str:
    """The period of a timestamp as sortable text: 2013-07, 2013-Q3, 2013-07-01 …"""
    if grain == "quarter":
        stamp = f"CAST({expression} AS TIMESTAMP)"
        return f"STRFTIME({stamp}, '%Y') || '-Q' || CAST(EXTRACT(QUARTER FROM {stamp}) AS VARCHAR)"
    shape = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:00"}
    if grain == "week":
        return f"STRFTIME(DATE_TRUNC('week', CAST({expression} AS TIMESTAMP)), '%Y-%m-%d')"
    return f"STRFTIME(CAST({expression} AS TIMESTAMP), '{shape[grain]}')"


def _moment_of(value: Any) -> datetime | None:
    text = str(value or "")
    match = re.match(r"^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2}))?", text)
    if not match:
        return None
    year, month, day, hour, minute = (int(g) if g else 0 for g in match.groups())
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return None


def _grain(low: Any, high: Any) -> str:
    """The finest grain that shows a range in at most 20 periods; '' for a single moment."""
    start, end = _moment_of(low), _moment_of(high)
    if start is None or end is None:
        return "month" if low is None and high is None else ""
    days = (end - start).total_seconds() / 86_400
    if days <= 0:
        return ""
    months = (end.year - start.year) * 12 + end.month - start.month + 1
    for grain, periods in (
        ("hour", days * 24 + 1),
        ("day", days + 1),
        ("week", days / 7 + 2),
        ("month", months),
        ("quarter", months / 3 + 1),
    ):
        if periods <= MANY_GROUPS:
            return grain
    return "year"
