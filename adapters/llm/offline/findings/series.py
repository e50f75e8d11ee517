"""Findings from results over time: first and last period, peak and trough."""

from __future__ import annotations

import re
from statistics import median

from adapters.llm.offline.findings.finding import (
    Evidence,
    Finding,
    Topic,
    noun,
    percent,
    shown,
)
from adapters.llm.offline.findings.rankings import figure_name, main_measure, rate_name
from adapters.llm.offline.reading import Json, number_of
from adapters.llm.offline.sqlshape import Measure, Output

_PERIOD = re.compile(r"^\d{4}(-Q[1-4]|-\d{2}(-\d{2})?([T ]\d{2}:\d{2}(:\d{2})?)?)?$")
_INCOMPLETE = 0.4
"""A first or last period with less than this share of the usual rows is taken as cut off."""


def is_series(evidence: Evidence) -> bool:
    """True for one time key whose values sort as they pass."""
    keys = evidence.shape.keys
    if len(keys) != 1 or len(evidence.rows) < 3:
        return False
    values = [str(r.get(keys[0].name)) for r in evidence.rows]
    return all(_PERIOD.match(v) for v in values) and values == sorted(values)


def series(evidence: Evidence) -> Finding | None:
    """How a measure moved from the first to the last whole period, and where it peaked."""
    measure = main_measure(evidence)
    if measure is None:
        return None
    rows = [r for r in evidence.rows if number_of(r.get(measure.name)) is not None]
    kept = rows if evidence.gap else _whole_periods(evidence, rows)
    if len(kept) < 3:
        return None
    key = evidence.shape.keys[0].name
    what, unit = _words(evidence, measure)
    first, last = kept[0], kept[-1]
    change = _change(evidence, measure, what, unit, key, first, last)
    sentences = [change] if change else []
    left_out = [str(r[key]) for r in rows if r not in kept]
    covered = f"The comparison covers {kept[0][key]} to {kept[-1][key]}"
    if left_out:
        covered += f" and leaves out {', '.join(left_out)} as incomplete"
    sentences.append(covered)
    if evidence.gap or not _leads(measure, kept, rows):
        return _first_to_last(evidence, measure, what, unit, key, first, last)
    lowest = _leads(measure, kept, rows, sign=-1)
    return _peak(evidence, measure, what, unit, key, kept, sentences, lowest=lowest)


def _leads(measure: Output, kept: list[Json], rows: list[Json], sign: int = 1) -> bool:
    """True when the first among whole periods is first among all, so that whoever compares the
    incomplete ones too finds the same."""
    best, over_all = (
        max(sign * float(number_of(r[measure.name]) or 0) for r in each) for each in (kept, rows)
    )
    return best == over_all


def _whole_periods(evidence: Evidence, rows: list[Json]) -> list[Json]:
    counts = [m for m in evidence.shape.measures if m.measure is Measure.ROWS]
    if not counts or len(rows) < 4:
        return rows
    sizes = [float(number_of(r.get(counts[0].name)) or 0) for r in rows]
    usual = median(sizes)
    start = 1 if sizes[0] < _INCOMPLETE * usual else 0
    end = len(rows) - 1 if sizes[-1] < _INCOMPLETE * usual else len(rows)
    return rows[start:end]


def _words(evidence: Evidence, measure: Output) -> tuple[str, str]:
    """The measure in words, and the unit that follows its figures."""
    if measure.measure is Measure.ROWS:
        return f"number of {noun(evidence)}", " rows"
    if measure.measure is Measure.SHARE:
        parts = [m for m in evidence.shape.measures if m.measure is Measure.ROWS]
        name = rate_name(evidence, parts[-1]) if parts else measure.name
        return name.removeprefix("The "), "%"
    return figure_name(measure).replace("`", ""), ""


def _figure(row: Json, measure: Output, unit: str) -> str:
    return percent(row[measure.name]) if unit == "%" else f"{shown(row[measure.name])}{unit}"


def _change(
    evidence: Evidence,
    measure: Output,
    what: str,
    unit: str,
    key: str,
    first: Json,
    last: Json,
) -> str:
    before, after = (float(number_of(r[measure.name]) or 0) for r in (first, last))
    if before == after:
        return ""
    verb = "rose" if after > before else "fell"
    by = ""
    if before > 0 and after >= 0 and unit != "%":
        by = f" by {abs(after - before) / before * 100:.1f}%"
    return (
        f"The {what} {verb}{by} from {_figure(first, measure, unit)} in {first[key]}"
        f" to {_figure(last, measure, unit)} in {last[key]}"
    )


def _count(evidence: Evidence, row: Json) -> int:
    counts = [m for m in evidence.shape.measures if m.measure is Measure.ROWS]
    return int(number_of(row.get(counts[0].name)) or 0) if counts else 0


def _peak(
    evidence: Evidence,
    measure: Output,
    what: str,
    unit: str,
    key: str,
    kept: list[Json],
    sentences: list[str],
    *,
    lowest: bool,
) -> Finding | None:
    ordered = sorted(kept, key=lambda r: -float(number_of(r[measure.name]) or 0))
    top, low = ordered[0], ordered[-1]
    high, bottom = (float(number_of(r[measure.name]) or 0) for r in (top, low))
    if high == bottom or ordered[1][measure.name] == top[measure.name]:
        return None
    rows = "" if unit == " rows" else f" over {_count(evidence, top)} rows"
    rows = rows if _count(evidence, top) else ""
    name = f"The {what} peaked in {top[key]} at {_figure(top, measure, unit)}{rows}"
    takeaway = f"{top[key]} has the highest {what}: {_figure(top, measure, unit)}"
    more = list(sentences)
    if lowest and ordered[-2][measure.name] != low[measure.name]:
        more.insert(0, f"The lowest is {low[key]} with {_figure(low, measure, unit)}")
    spread = abs(high - bottom) / max(abs(high), abs(bottom), 1e-9)
    weight = 0.15 + 0.5 * min(1.0, spread)
    total = sum(_count(evidence, r) for r in kept)
    return Finding(
        Topic.SERIES,
        name,
        takeaway,
        tuple(more),
        _count(evidence, top),
        weight,
        total,
        evidence,
        {
            f"peak_{measure.name}": top[measure.name],
            f"lowest_{measure.name}": low[measure.name],
            f"first_{measure.name}": kept[0][measure.name],
            f"last_{measure.name}": kept[-1][measure.name],
        },
        f"period {top[key]}",
    )


def _first_to_last(
    evidence: Evidence,
    measure: Output,
    what: str,
    unit: str,
    key: str,
    first: Json,
    last: Json,
) -> Finding | None:
    change = _change(evidence, measure, what, unit, key, first, last)
    if not change:
        return None
    before, after = (float(number_of(r[measure.name]) or 0) for r in (first, last))
    return Finding(
        Topic.SERIES,
        change,
        change,
        (f"The comparison is between {first[key]} and {last[key]} only",),
        _count(evidence, last),
        min(0.6, 0.1 + 0.4 * abs(after - before) / max(abs(before), abs(after), 1e-9)),
        _count(evidence, first) + _count(evidence, last),
        evidence,
        {f"first_{measure.name}": first[measure.name], f"last_{measure.name}": last[measure.name]},
        f"period {last[key]}",
    )
