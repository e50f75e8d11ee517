"""The forms that a claim can take, each with the checks it comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

from adapters.llm.offline.judging.claims import Figure, superlative_in
from adapters.llm.offline.openclaims.lexicon import Value, best_column, read_claim_for
from adapters.llm.offline.openclaims.meaning import (
    Check,
    Compare,
    Condition,
    Equal,
    First,
    Measured,
    Metric,
    RankOf,
    Same,
    Share,
)
from adapters.llm.offline.openclaims.places import calendar_part
from adapters.llm.offline.openclaims.subject import Subject
from adapters.llm.offline.openclaims.vocabulary import (
    AGGREGATES,
    COMPARATIVE,
    DOWNWARD,
    EQUAL,
    EVERY,
    EVERY_HAS,
    EXTREME_HIGH,
    EXTREME_LOW,
    FALLS,
    MAJORITY,
    MISSING,
    NEVER,
    NOTHING_MISSING,
    RISES,
    STEPWISE,
)
from adapters.llm.offline.schema import Column, TableInfo
from adapters.llm.offline.sqltext import quote

Conditions = Mapping[Value, Condition]
Checks = tuple[Check, ...]


def checks_of(subject: Subject, conditions: Conditions, tables: Sequence[TableInfo]) -> Checks:
    """The checks of the first form that fits; none when no form does."""
    for form in (_moved, _same, _compared, _first, _figure, _without_gaps, _quantified):
        found = form(subject, conditions)
        if found:
            return found
    return _two_measures(subject, conditions, tables)


def _measured(subject: Subject, metric: Metric, *conditions: Condition) -> Measured:
    return Measured(subject.table, metric, conditions)


# ---------------------------------------------------------------- two sides


def _moved(subject: Subject, conditions: Conditions) -> Checks:
    """``fell from July to August``, ``increased every month from March to July``."""
    times = [v for v in conditions if v.kind in {"month", "year"}]
    falls = FALLS.search(subject.masked) is not None
    if len(times) != 2 or times[0].kind != times[1].kind:
        return ()
    if not (falls or RISES.search(subject.masked)) or subject.figures:
        return ()
    metric = subject.metric()
    if metric is None:
        return ()
    rest = tuple(c for v, c in conditions.items() if v not in times)
    first, last = times[0].number, times[1].number
    stepwise = STEPWISE.search(subject.masked) is not None and first < last
    numbers = list(range(first, last + 1)) if stepwise else [first, last]
    part = calendar_part(subject.table, times[0].kind)
    cells = [
        _measured(subject, metric, Condition(f"{part} = {n}", times[0].kind), *rest)
        for n in numbers
    ]
    direction = -1 if falls else 1
    return tuple(Compare(b, a, direction) for a, b in pairwise(cells))


def _same(subject: Subject, conditions: Conditions) -> Checks:
    """``JFK and LGA have the same number of …``."""
    texts = [v for v in conditions if v.kind in {"text", "word"}]
    metric = subject.metric()
    if not EQUAL.search(subject.masked) or len(texts) != 2 or metric is None:
        return ()
    rest = tuple(c for v, c in conditions.items() if v not in texts)
    first, second = (_measured(subject, metric, conditions[v], *rest) for v in texts)
    return (Same(first, second),)


def _compared(subject: Subject, conditions: Conditions) -> Checks:
    """``A has more … than B``."""
    match = COMPARATIVE.search(subject.text)
    if match is None or re.match(r"\s*(?:any|all) other", subject.text[match.end() :]):
        return ()
    direction = -1 if match.group(1).lower() in DOWNWARD else 1
    before = [v for v in conditions if v.start < match.end() - 4]
    after = [v for v in conditions if v.start >= match.end()]
    left = [v for v in before if any(_alike(v, w) for w in after)]
    right = [w for w in after if any(_alike(v, w) for v in before)]
    metric = subject.metric()
    if metric is None or not left or not right:
        return ()
    shared = [c for v, c in conditions.items() if v not in left and v not in right]
    first = _measured(subject, metric, conditions[left[0]], *shared)
    second = _measured(subject, metric, conditions[right[0]], *shared)
    return (Compare(first, second, direction),)


def _alike(first: Value, second: Value) -> bool:
    """Two values that may stand on the two sides of one comparison."""
    texts = {"text", "word"}
    return first.kind == second.kind or {first.kind, second.kind} <= texts


def _two_measures(subject: Subject, conditions: Conditions, tables: Sequence[TableInfo]) -> Checks:
    """``The average arrival delay is higher than the average departure delay``."""
    match = COMPARATIVE.search(subject.text)
    if match is None or conditions:
        return ()
    kind = next((k for p, k in AGGREGATES if p.search(subject.masked)), "avg")
    sides: list[Column] = []
    for part in (subject.text[: match.start()], subject.text[match.end() :]):
        half = read_claim_for(part, subject.table, tables)
        column = best_column(half, numeric=True)
        if column is None or half.columns.get(column.name, 0) < 1.0:
            return ()
        sides.append(column)
    if sides[0] == sides[1]:
        return ()
    first, second = (_measured(subject, Metric(kind, c.name)) for c in sides)
    return (Compare(first, second, -1 if match.group(1).lower() in DOWNWARD else 1),)


# ---------------------------------------------------------------- ranks


def _first(subject: Subject, conditions: Conditions) -> Checks:
    """``UA is the carrier with the most flights``, ``Flights peaked in July``."""
    claimed = superlative_in(subject.masked)
    if claimed is None or subject.figures or MAJORITY.search(subject.masked):
        return ()
    values = [v for v in conditions if v.kind != "year"] or list(conditions)
    metric = subject.metric(claimed.start)
    if not values or metric is None:
        return ()
    value = min(values, key=lambda v: abs(v.start - claimed.start))
    condition = conditions[value]
    group = f"t.{quote(condition.label)}"
    if value.kind not in {"text", "word"}:
        group = calendar_part(subject.table, value.kind) or ""
    if metric.kind == "count" and not subject.counts_rows():
        column = best_column(subject.reading, numeric=True, near=claimed.start)
        if column is not None and column.name != condition.label:
            metric = Metric("max" if claimed.direction > 0 else "min", column.name)
    rest = tuple(c for v, c in conditions.items() if v != value)
    rank = RankOf(subject.table, metric, group, condition, rest, claimed.direction)
    return (First(rank, claimed.above),) if group else ()


# ---------------------------------------------------------------- figures


def _figure(subject: Subject, conditions: Conditions) -> Checks:
    """The claim's number against what it counts or measures; every other number must be a bound."""
    if not subject.figures:
        return ()
    figure, *others = subject.figures
    bounds = subject.bounds(others)
    if bounds is None:
        return ()
    every = (*conditions.values(), *subject.flags())
    if figure.percent:
        return _percentage(subject, figure, (*every, *bounds))
    gap = subject.missing_column() if MISSING.search(subject.masked) else None
    if gap is not None:
        return (Equal(figure, _measured(subject, Metric("missing", gap.name), *every)),)
    metric = subject.metric(figure.start)
    if metric is not None and metric.kind not in {"count", "sum"}:
        return (Equal(figure, _measured(subject, metric, *every)),)
    counted = subject.counted(figure.end)
    if counted is not None:
        return (Equal(figure, _measured(subject, counted, *every, *bounds)),)
    measure = best_column(subject.reading, numeric=True, near=figure.start)
    if measure is None or subject.reading.columns[measure.name] < 1.0 or others:
        return ()
    return (Equal(figure, _measured(subject, _plain(subject, measure, metric), *every)),)


def _plain(subject: Subject, column: Column, metric: Metric | None) -> Metric:
    """A measure without an aggregate word: its total, its extreme, or its one value."""
    if metric is not None and metric.kind == "sum":
        return metric
    if EXTREME_LOW.search(subject.masked):
        return Metric("min", column.name)
    return Metric("max" if EXTREME_HIGH.search(subject.masked) else "avg", column.name)


def _percentage(subject: Subject, figure: Figure, every: tuple[Condition, ...]) -> Checks:
    rows = Metric("count")
    if MISSING.search(subject.masked):
        gap = subject.missing_column()
        if gap is None:
            return ()
        part = _measured(subject, Metric("missing", gap.name), *every)
        return (Equal(figure, part, _measured(subject, rows, *every)),)
    if not every:
        return ()
    return (Equal(figure, _measured(subject, rows, *every), _measured(subject, rows)),)


def _without_gaps(subject: Subject, conditions: Conditions) -> Checks:
    """``wind_gust has no missing values``, ``every flight has a carrier``."""
    full = EVERY_HAS.search(subject.masked)
    if full is not None:
        column = best_column(subject.reading, numeric=False, near=full.end())
    elif NOTHING_MISSING.search(subject.masked):
        column = subject.missing_column()
    else:
        return ()
    if column is None:
        return ()
    zero = Figure(Decimal(0), 0, 0, 0, False, False, "")
    metric = Metric("missing", column.name)
    return (Equal(zero, _measured(subject, metric, *conditions.values())),)


def _quantified(subject: Subject, conditions: Conditions) -> Checks:
    """All, most or none of the rows."""
    bounds = subject.bounds(subject.figures)
    every = (*conditions.values(), *subject.flags(), *(bounds or ()))
    if not every or bounds is None or not subject.reading.names_table:
        return ()
    part, whole = (_measured(subject, Metric("count"), *c) for c in (every, ()))
    for pattern, level in ((MAJORITY, 0.5), (EVERY, 1.0), (NEVER, 0.0)):
        if pattern.search(subject.masked):
            return (Share(part, whole, level),)
    return ()
