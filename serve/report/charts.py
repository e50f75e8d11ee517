"""When a step's rows deserve a picture, and which one. Rules only; drawing is elsewhere.

A series over time becomes a line, a ranking of named groups becomes horizontal bars, and anything
else (one row, no measure, too many groups to read) stays a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from pipeline.records import ExplorationStep
from serve.report.numbers import clean, number, spoken

MIN_POINTS = 3
MAX_BARS = 15
MAX_LINE_POINTS = 1000
MAX_SERIES = 5
LABEL_CHARS = 40
JOINT = " · "

_CLOCK_WORDS = ("year", "quarter", "month", "week", "day", "date", "hour", "minute")
_TIME_WORDS = frozenset((*_CLOCK_WORDS, "weekday", "dow", "time", "period", "decade"))
_MIXED_UNITS = frozenset({"measure", "metric", "statistic", "stat", "kpi"})
"""Rows named by one of these hold numbers of different kinds, which no one scale fits."""
_NOT_A_MEASURE = frozenset({"id", "rank", "rn", "row_number", "position"})
_ISO = re.compile(r"^\d{4}-\d{2}(-\d{2}([T ]\d{2}(:\d{2}){0,2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$")
_PERIOD = re.compile(r"^(\d{4})[- ]?([QWqw])(\d{1,2})$")


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """What to draw. ``labels`` and ``positions`` run beside the values of every series."""

    kind: Literal["bars", "line"]
    step: int
    label_name: str
    value_name: str
    labels: tuple[str, ...]
    positions: tuple[float, ...]
    series: tuple[Series, ...]
    marked: frozenset[int] = frozenset()
    """Indexes of the labels that the text speaks of."""
    rows_total: int = 0

    @property
    def title(self) -> str:
        return f"{self.value_name} by {self.label_name}"

    @property
    def note(self) -> str:
        """What a reader must know to read the picture right: a part only, or a scale cut off."""
        shown = len(self.labels)
        if self.kind == "bars":
            return (
                f"the first {shown} of {self.rows_total:,} rows" if shown < self.rows_total else ""
            )
        return "" if min(self.known) < 0 or self.from_zero else "the scale does not start at zero"

    @property
    def known(self) -> list[float]:
        """Every value that is not missing."""
        return [v for series in self.series for v in series.values if v is not None]

    @property
    def from_zero(self) -> bool:
        """Bars always start at zero; a line does when its values come near it."""
        return self.kind == "bars" or 0 <= min(self.known) < 0.6 * max(self.known)

    @property
    def alt(self) -> str:
        """The picture in words."""
        kind = "Bar chart" if self.kind == "bars" else "Line chart"
        return f"{kind}: {self.title}. {'; '.join(map(self._extremes, self.series))}."

    def _extremes(self, series: Series) -> str:
        known = [(v, self.labels[i]) for i, v in enumerate(series.values) if v is not None]
        low, high = min(known), max(known)
        name = f"{series.name}: " if len(self.series) > 1 else ""
        return f"{name}highest {number(high[0])} at {high[1]}, lowest {number(low[0])} at {low[1]}"


@dataclass(frozen=True, slots=True)
class About:
    """What the text that cites a step says: it picks the measure, and marks what it names."""

    text: str = ""
    subject: str = ""
    """The part whose named groups or moments are marked."""
    figures: tuple[str, ...] = ()
    """Names of the text's own figures; they decide before its words do."""


def chart_for(step: ExplorationStep, about: About | None = None) -> ChartSpec | None:
    """The picture that this step's rows call for, or None."""
    about = about or About()
    rows = step.query_result
    columns = step.result_columns or (list(rows[0]) if rows else [])
    if not step.succeeded or len(rows) < MIN_POINTS or len(columns) < 2:
        return None
    return _line(step, columns, about) or _bars(step, columns, about)


# ---------------------------------------------------------------- series over time


def _line(step: ExplorationStep, columns: list[str], about: About) -> ChartSpec | None:
    rows = step.query_result
    time_columns = _time_columns(columns, rows)
    if not time_columns or len(rows) > MAX_LINE_POINTS:
        return None
    rest = columns[len(time_columns) :]
    measure = _measure(rest, rows, about)
    if measure is None:
        return None
    points = [(_moment([row.get(c) for c in time_columns]), row) for row in rows]
    group = next((c for c in rest if c != measure and _is_text(_values(rows, c))), None)
    names = _group_names(rows, group)
    moments = sorted({moment for moment, _ in points})
    if len(moments) < MIN_POINTS or len(names) > MAX_SERIES:
        return None
    if len(moments) * len(names) < len(rows):
        return None  # several rows for one moment: not one series
    series = tuple(_series(name, group, measure, points, moments) for name in names)
    return ChartSpec(
        kind="line",
        step=step.step,
        label_name=spoken(time_columns[-1]),
        value_name=spoken(measure),
        labels=tuple(label for _, label in moments),
        positions=tuple(position for position, _ in moments),
        series=series,
        marked=_marked([label for _, label in moments], about),
        rows_total=step.row_count,
    )


def _time_columns(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    first, second = columns[0], columns[1]
    if not _is_time(first, _values(rows, first)):
        return []
    nested = _words(first)[-1:] == ["year"] and _words(second)[-1:] in (
        ["quarter"],
        ["month"],
        ["week"],
    )
    if nested and len(columns) > 2 and all(_whole(v) for v in _values(rows, second)):
        return [first, second]
    return [first]


def _is_time(column: str, values: Sequence[Any]) -> bool:
    if any(value is None for value in values):
        return False
    if all(isinstance(v, str) and _is_moment(v) for v in values):
        return True
    return bool(_TIME_WORDS.intersection(_words(column)[-1:])) and all(map(_whole, values))


def _is_moment(text: str) -> bool:
    if not _ISO.match(text):
        return bool(_PERIOD.match(text))
    try:
        datetime.fromisoformat(text if len(text) > 7 else f"{text}-01")
    except ValueError:
        return False
    return True


def _moment(parts: Sequence[Any]) -> tuple[float, str]:
    """Where a point lies on the time axis, and what to call it."""
    if len(parts) == 2:
        return parts[0] * 100.0 + parts[1], f"{int(parts[0])}-{int(parts[1]):02d}"
    value = parts[0]
    if not isinstance(value, str):
        return float(value), str(int(value))
    period = _PERIOD.match(value)
    if period:
        year, letter, index = period.groups()
        return int(year) * (4.0 if letter in "qQ" else 53.0) + int(index), value
    if len(value) == 7:
        return int(value[:4]) * 12.0 + int(value[5:]), value
    moment = datetime.fromisoformat(value.replace("Z", "+00:00")).replace(tzinfo=None)
    label = value[:10] if value[11:].strip("0:.Z+") == "" else value[:16].replace("T", " ")
    return (moment - datetime(1970, 1, 1)).total_seconds() / 86400, label


def _group_names(rows: Sequence[dict[str, Any]], group: str | None) -> list[str]:
    if group is None:
        return [""]
    return list(dict.fromkeys(str(row.get(group)) for row in rows))


def _series(
    name: str,
    group: str | None,
    measure: str,
    points: Sequence[tuple[tuple[float, str], dict[str, Any]]],
    moments: Sequence[tuple[float, str]],
) -> Series:
    found = {
        moment: row.get(measure)
        for moment, row in points
        if group is None or str(row.get(group)) == name
    }
    return Series(clean(name)[:LABEL_CHARS], tuple(found.get(moment) for moment in moments))


# ---------------------------------------------------------------- rankings


def _bars(step: ExplorationStep, columns: list[str], about: About) -> ChartSpec | None:
    rows = step.query_result
    names = _label_columns(columns, rows)
    if not names or _MIXED_UNITS.intersection(_words(names[0])[-1:]):
        return None
    measure = _measure([c for c in columns if c not in names], rows, about)
    if measure is None:
        return None
    labels = [JOINT.join(_label(row.get(c)) for c in names) for row in rows]
    values = _values(rows, measure)
    pairs = [(n, float(v)) for n, v in zip(labels, values, strict=True) if v is not None]
    if len(pairs) < MIN_POINTS or len({n for n, _ in pairs}) < len(pairs):
        return None
    if not (_monotone(values) or all(_whole(v) for v in _values(rows, names[0]))):
        pairs.sort(key=lambda pair: -pair[1])
    pairs = pairs[:MAX_BARS]
    return ChartSpec(
        kind="bars",
        step=step.step,
        label_name=" and ".join(map(spoken, names)),
        value_name=spoken(measure),
        labels=tuple(name for name, _ in pairs),
        positions=tuple(float(i) for i in range(len(pairs))),
        series=(Series("", tuple(value for _, value in pairs)),),
        marked=_marked([name for name, _ in pairs], about),
        rows_total=max(step.row_count, len(rows)),
    )


def _label_columns(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    texts = [c for c in columns if _is_text(_values(rows, c))][:2]
    if texts:
        return texts[:1] if _distinct(_values(rows, texts[0])) else texts
    first = _values(rows, columns[0])
    few = len(rows) <= MAX_BARS
    return [columns[0]] if few and _distinct(first) and all(map(_whole, first)) else []


def _label(value: Any) -> str:
    text = "(empty)" if value is None or value == "" else clean(str(value)).strip()
    return text if len(text) <= LABEL_CHARS else text[: LABEL_CHARS - 1] + "…"


def _marked(labels: Sequence[str], about: About) -> frozenset[int]:
    """The labels that stand in the subject as words of their own, not as parts of a number; of a
    label of two names, both."""

    def named(part: str) -> bool:
        word = rf"(?<![\w.,-]){re.escape(part)}(?![\w%-]|[.,]\d)"
        return re.search(word, about.subject) is not None

    found = {i for i, label in enumerate(labels) if all(map(named, label.split(JOINT)))}
    return frozenset(found) if len(found) <= len(labels) // 2 else frozenset()


# ---------------------------------------------------------------- columns


def _measure(columns: Sequence[str], rows: Sequence[dict[str, Any]], about: About) -> str | None:
    """The column to draw: the one the text's figures or else its words speak of, else the one the
    rows are ordered by, else the first. Candidates vary and do not number the rows."""
    candidates = [c for c in columns if _is_measure(c, _values(rows, c))]
    if not candidates:
        return None
    text = _spaced(re.findall(r"[a-z0-9]+", about.text.lower()))
    figures = [_spaced(_words(name)) for name in about.figures]

    def merit(column: str) -> tuple[bool, bool, int, bool]:
        words = _words(column)
        figure = any(_spaced(words) in name for name in figures)
        overlap = sum(1 for word in words if _spaced([word]) in text)
        named = _spaced(words) in text
        return figure, named, overlap * 10 // len(words), _monotone(_values(rows, column))

    return max(candidates, key=merit)


def _is_measure(column: str, values: Sequence[Any]) -> bool:
    words = _words(column)
    if column.lower() in _NOT_A_MEASURE or words[-1:] == ["id"]:
        return False
    known = [v for v in values if v is not None]
    return len(known) * 5 >= len(values) * 4 and all(map(_is_number, known)) and len(set(known)) > 1


def _spaced(words: Sequence[str]) -> str:
    """Words between blanks, so that one list is found in another at word boundaries."""
    return f" {' '.join(words)} "


def _words(column: str) -> list[str]:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column)
    return re.findall(r"[a-z0-9]+", split.lower()) or [""]


def _values(rows: Sequence[dict[str, Any]], column: str) -> list[Any]:
    return [row.get(column) for row in rows]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value - value == 0


def _whole(value: Any) -> bool:
    return _is_number(value) and value == int(value)


def _is_text(values: Sequence[Any]) -> bool:
    known = [v for v in values if v is not None]
    return bool(known) and all(isinstance(v, str | bool) for v in known)


def _distinct(values: Sequence[Any]) -> bool:
    return len({str(v) for v in values}) == len(values)


def _monotone(values: Sequence[Any]) -> bool:
    known = [v for v in values if v is not None]
    pairs = list(pairwise(known))
    return all(a >= b for a, b in pairs) or all(a <= b for a, b in pairs)
