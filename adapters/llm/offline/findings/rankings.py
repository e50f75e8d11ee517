"""Findings from grouped results: who is largest, which average is highest, who lacks most."""

from __future__ import annotations

from adapters.llm.offline.findings.finding import (
    Evidence,
    Finding,
    Topic,
    counted,
    noun,
    percent,
    ratio,
    shown,
    subject,
    usable,
    word,
)
from adapters.llm.offline.reading import Json, number_of
from adapters.llm.offline.sqlshape import Measure, Output

SUBSTANTIAL = 50
"""Findings that concern fewer rows than this weigh less."""

CLOCK = frozenset({"hour", "hour_of_day", "iso_weekday", "weekday", "month", "quarter", "dow"})


def main_measure(evidence: Evidence) -> Output | None:
    """What a grouped result ranks by: the measure its rows are ordered by, judged from the rows."""
    shape = evidence.shape
    options = [
        m
        for m in shape.measures
        if m.measure is not Measure.WHOLE and number_of(evidence.rows[0].get(m.name)) is not None
    ]
    for kind in (Measure.AVERAGE, Measure.SUM, Measure.PERCENTILE, Measure.DISTINCT):
        for option in options:
            if option.measure is kind:
                return option
    gaps = [m for m in options if "missing" in m.name or "with" in m.name]
    shares = [m for m in options if m.measure is Measure.SHARE]
    if gaps and shares:
        return shares[0]
    counts = [m for m in options if m.measure is Measure.ROWS]
    return (counts or options or [None])[0]


def rank_topic(evidence: Evidence) -> Topic:
    """Which topic a grouped result belongs to."""
    keys = [k.name for k in evidence.shape.keys]
    if any("missing" in m.name for m in evidence.shape.measures):
        return Topic.GAPS
    if len(keys) == 1 and keys[0].lower() in CLOCK:
        return Topic.PATTERN
    purpose = evidence.purpose.lower()
    if "outlier" in purpose or "extreme" in purpose or "bucket" in purpose:
        return Topic.EXTREME
    return Topic.PATTERN if "period" in keys else Topic.RANKING


def ranking(evidence: Evidence) -> Finding | None:
    """The largest group by the main measure, compared with the second and the last."""
    shape = evidence.shape
    measure = main_measure(evidence)
    if measure is None or len(evidence.rows) < 2:
        return None
    ordered = _ordered(evidence, measure)
    if len(ordered) < 2 or not usable(shape, ordered[0]) or _tied(ordered, measure):
        return None
    if measure.measure is Measure.ROWS:
        return _by_count(evidence, measure, ordered)
    if measure.measure is Measure.SHARE:
        return _by_rate(evidence, measure, ordered)
    return _by_figure(evidence, measure, ordered)


def _ordered(evidence: Evidence, measure: Output) -> list[Json]:
    """Rows by the measure, largest first; with a gap only if the result came ordered that way."""
    rows = [r for r in evidence.rows if number_of(r.get(measure.name)) is not None]
    ordered = sorted(rows, key=lambda r: -float(number_of(r[measure.name]) or 0))
    descending = [r[measure.name] for r in ordered] == [r[measure.name] for r in rows]
    cut = evidence.gap or not evidence.bottom_seen
    return ordered if descending or not cut else []


def _tied(ordered: list[Json], measure: Output) -> bool:
    return ordered[0][measure.name] == ordered[1][measure.name]


def _count_of(evidence: Evidence, row: Json) -> int:
    """Rows behind a group: its count output, or 0 when the step has none."""
    for measure in evidence.shape.measures:
        if measure.measure is Measure.ROWS:
            return int(number_of(row.get(measure.name)) or 0)
    return 0


def _last(evidence: Evidence, ordered: list[Json], measure: Output) -> Json | None:
    """The smallest group, when it was seen, stands alone and can be spoken of."""
    if not evidence.bottom_seen or len(ordered) < 3:
        return None
    last = ordered[-1]
    if last[measure.name] == ordered[-2][measure.name] or not usable(evidence.shape, last):
        return None
    return last


def _second(evidence: Evidence, ordered: list[Json], measure: Output) -> Json | None:
    """The runner-up, when it stands alone and can be spoken of."""
    second = ordered[1]
    alone = len(ordered) < 3 or ordered[2][measure.name] != second[measure.name]
    return second if alone and usable(evidence.shape, second) else None


def _keys(evidence: Evidence) -> str:
    return " and ".join(word(k.name) for k in evidence.shape.keys)


def _by_count(evidence: Evidence, measure: Output, ordered: list[Json]) -> Finding:
    shape, rows = evidence.shape, noun(evidence)
    top, second = ordered[0], _second(evidence, ordered, measure)
    count = int(number_of(top[measure.name]) or 0)
    whole = next((m.name for m in shape.measures if m.measure is Measure.WHOLE), "")
    share = next((m.name for m in shape.measures if m.measure is Measure.SHARE), "")
    total = number_of(top.get(whole)) if whole else None
    if total is None and evidence.whole:
        total = sum(int(number_of(r[measure.name]) or 0) for r in ordered)
    of = f" of {shown(total)} rows" if total is not None and whole else " rows"
    held = f" ({percent(top[share])})" if share and number_of(top.get(share)) is not None else ""
    takeaway = f"{subject(shape, top)} has more {rows} than any other {_keys(evidence)}"
    sentences = [f"It accounts for {count}{of}{held}"]
    if second is not None:
        part = f" ({percent(second[share])})" if share and second.get(share) is not None else ""
        sentences.append(
            f"{subject(shape, second)} is second with {counted(second[measure.name])}{part}"
        )
    last = _last(evidence, ordered, measure)
    if last is not None:
        sentences.append(f"{subject(shape, last)} has the fewest, {counted(last[measure.name])}")
    sentences.append(_scope(evidence))
    fair = 1 / max(2, evidence.row_count)
    weight = max(0.05, ratio(count, total) - fair) if total else 0.1
    metrics: Json = {"rows": count}
    if total is not None:
        metrics |= {"total_rows": total}
    if share and top.get(share) is not None:
        metrics |= {"share_pct": top[share]}
    return Finding(
        rank_topic(evidence),
        f"{subject(shape, top, plain=True)} has the most {rows}: {count}{of}{held}",
        takeaway,
        tuple(sentences),
        count,
        min(1.0, weight),
        int(total or count),
        evidence,
        metrics,
        subject(shape, top, plain=True),
    )


def _by_figure(evidence: Evidence, measure: Output, ordered: list[Json]) -> Finding:
    shape = evidence.shape
    top, second = ordered[0], _second(evidence, ordered, measure)
    what = figure_name(measure)
    plain = what.replace("`", "")
    value, count = top[measure.name], _count_of(evidence, top)
    over = f" over {counted(count)}" if count else ""
    sentences = [f"It stands at {shown(value)}{over}"]
    if second is not None:
        sentences.append(
            f"{subject(shape, second)} is second with {shown(second[measure.name])}"
            + _over(evidence, second)
        )
    last = _last(evidence, ordered, measure)
    if last is not None:
        sentences.append(
            f"{subject(shape, last)} is lowest with {shown(last[measure.name])}"
            + _over(evidence, last)
        )
    sentences.append(_scope(evidence))
    low = float(number_of((last or ordered[1])[measure.name]) or 0)
    high = float(number_of(value) or 0)
    spread = abs(high - low) / max(abs(high), abs(low), 1e-9)
    total = sum(_count_of(evidence, r) for r in ordered)
    mass = ratio(count, total) if total else 0.0
    return Finding(
        rank_topic(evidence),
        f"The {plain} is highest for {subject(shape, top, plain=True)}: {shown(value)}{over}",
        f"No other {_keys(evidence)} has a higher {what} than {subject(shape, top)}",
        tuple(sentences),
        count,
        min(1.0, 0.12 + 0.5 * min(1.0, spread) * (0.3 + mass)),
        total or count,
        evidence,
        {measure.name: value, "rows": count} if count else {measure.name: value},
        subject(shape, top, plain=True),
    )


def _over(evidence: Evidence, row: Json) -> str:
    count = _count_of(evidence, row)
    return f" over {counted(count)}" if count else ""


def _by_rate(evidence: Evidence, measure: Output, ordered: list[Json]) -> Finding | None:
    shape = evidence.shape
    counts = [m for m in shape.measures if m.measure is Measure.ROWS]
    if len(counts) < 2:
        return _by_figure(evidence, measure, ordered)
    base, part = counts[0], counts[1]
    top, second = ordered[0], _second(evidence, ordered, measure)
    hits, rows = int(number_of(top.get(part.name)) or 0), int(number_of(top.get(base.name)) or 0)
    if hits == 0:
        return None
    what = rate_name(evidence, part)
    sentences = [f"That is {hits} of {rows} rows"]
    if second is not None:
        sentences.append(
            f"{subject(shape, second)} is second with {percent(second[measure.name])},"
            f" {shown(second[part.name])} of {shown(second[base.name])} rows"
        )
    last = _last(evidence, ordered, measure)
    if last is not None:
        sentences.append(
            f"{subject(shape, last)} is lowest with {percent(last[measure.name])},"
            f" {shown(last[part.name])} of {shown(last[base.name])} rows"
        )
    sentences.append(_scope(evidence))
    rate = float(number_of(top[measure.name]) or 0) / 100
    return Finding(
        rank_topic(evidence),
        f"{what} is highest for {subject(shape, top, plain=True)}:"
        f" {percent(top[measure.name])}, {hits} of {rows} rows",
        f"No other {_keys(evidence)} has a higher rate than {subject(shape, top)}:"
        f" {percent(top[measure.name])}",
        tuple(sentences),
        hits,
        min(1.0, 0.08 + rate * 0.8) * (1.0 if hits >= SUBSTANTIAL else 0.3),
        rows,
        evidence,
        {"rate_pct": top[measure.name], "rows": hits, "of_rows": rows},
        subject(shape, top, plain=True),
    )


def rate_name(evidence: Evidence, part: Output) -> str:
    """What a rate counts: ``The share of rows with dep_delay missing``."""
    column = part.columns[0] if part.columns else ""
    if part.name == "missing_rows" and column:
        return f"The share of rows with {column} missing"
    words = part.name
    if words.startswith("rows_with_") and column and column in words:
        rest = words.removeprefix("rows_with_").replace(column, "").strip("_") or "set"
        return f"The share of rows with {column} {rest}"
    return f"The share of {words}"


def figure_name(measure: Output) -> str:
    """A measure in words: ``average dep_delay``."""
    kind = {
        Measure.AVERAGE: "average",
        Measure.SUM: "total",
        Measure.MINIMUM: "minimum",
        Measure.MAXIMUM: "maximum",
        Measure.DISTINCT: "number of distinct",
    }.get(measure.measure, "")
    column = measure.columns[0] if len(measure.columns) == 1 else measure.name
    if not kind or len(measure.columns) != 1:
        return word(measure.name)
    tail = " values" if measure.measure is Measure.DISTINCT else ""
    return f"{kind} {word(column)}{tail}"


def _scope(evidence: Evidence) -> str:
    keys = "combinations" if len(evidence.shape.keys) > 1 else "values"
    name = _keys(evidence)
    if evidence.whole:
        return f"All {evidence.row_count} {keys} of {name} in the result were compared"
    return f"Only the first {keys} of {name} were returned, so no last one can be named"
