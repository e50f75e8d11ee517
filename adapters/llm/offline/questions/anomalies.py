"""What stands out: extremes, far outliers, rates, and measures that move together."""

from __future__ import annotations

from collections.abc import Iterator

from adapters.llm.offline.questions.question import (
    MIN_GROUP,
    RANK_LIMIT,
    Question,
    Theme,
    ask,
    count_where,
    has_percentiles,
    mean,
    percentile,
    rows_word,
    share_of,
)
from adapters.llm.offline.questions.segments import condition_of
from adapters.llm.offline.reading import number_of
from adapters.llm.offline.roles import Roles, measure_rank, time_part
from adapters.llm.offline.schema import Column, Kind
from adapters.llm.offline.sqltext import alias, literal, quote, table_ref

_MEASURES = 5


def anomalies(roles: Roles) -> Iterator[Question]:
    """Ranges, outliers, shares above zero, flags, extreme days, and pairs of measures."""
    measures = sorted(roles.measures, key=lambda m: measure_rank(roles, m))[:_MEASURES]
    if not measures and not roles.flags:
        return
    if measures and has_percentiles(roles):
        yield _summary(roles, measures, 1)
    for i, measure in enumerate(measures):
        if has_percentiles(roles):
            yield _outliers(roles, measure, 1.6 + i)
        low = number_of(roles.facts.low.get(measure.name))
        high = number_of(roles.facts.high.get(measure.name))
        if low is not None and high is not None and low <= 0 < high:
            yield _above_zero(roles, measure, 1.2 + i)
        yield from _extreme_days(roles, measure, 3 + i)
    for i, flag in enumerate(roles.flags[:4]):
        yield _flag(roles, flag, 1.4 + i)
    pairs = [(a, b) for i, a in enumerate(measures) for b in measures[i + 1 :]]
    for i, (first, second) in enumerate(pairs):
        yield _correlation(roles, first, second, 2.5 + 1.2 * i)
        yield _buckets(roles, first, second, 3.6 + 1.2 * i)


def _summary(roles: Roles, measures: list[Column], weight: float) -> Question:
    table = roles.table
    branches: list[str] = []
    for measure in measures:
        value = quote(measure.name)
        branches.append(
            f"""SELECT {literal(measure.name)} AS "measure", COUNT({value}) AS "row_count",
            ROUND(CAST(MIN({value}) AS DOUBLE), 2) AS "min_value",
            {percentile(value, 0.5)} AS "median_value", {mean(value)} AS "avg_value",
            {percentile(value, 0.99)} AS "p99_value",
            ROUND(CAST(MAX({value}) AS DOUBLE), 2) AS "max_value" FROM {table_ref(table)} AS t"""
        )
    return ask(
        Theme.ANOMALIES,
        weight,
        table,
        tuple(m.name for m in measures),
        f"Anomaly check: range of the measures of {table.bare}: minimum, median, average, 99th"
        " percentile and maximum, to see outliers",
        f"Which values do the measures of {table.bare} take, and how far is the maximum from the"
        " bulk?",
        " UNION ALL ".join(branches) + ' ORDER BY "measure"',
    )


def _outliers(roles: Roles, measure: Column, weight: float) -> Question:
    table, value = roles.table, f"t.{quote(measure.name)}"
    column = quote(measure.name)
    low, high = (f"PERCENTILE_CONT({p}) WITHIN GROUP (ORDER BY {column})" for p in ("0.25", "0.75"))
    fences = f"""(SELECT {high} + 3 * ({high} - {low}) AS "fence" FROM {table_ref(table)}) AS q"""
    above = count_where(f'{value} > q."fence"')
    return ask(
        Theme.ANOMALIES,
        weight,
        table,
        (measure.name,),
        f"Outliers of {measure.name} in {table.bare}: rows above the upper fence (third quartile"
        " plus three interquartile ranges)",
        f"How many {rows_word(table)} have an extreme {measure.name}?",
        f"""SELECT COUNT({value}) AS "rows_with_value",
        ROUND(CAST(MAX(q."fence") AS DOUBLE), 2) AS "upper_fence",
        {above} AS "outlier_rows", {share_of(above, f"COUNT({value})", 2)} AS "outlier_pct",
        ROUND(CAST(MAX({value}) AS DOUBLE), 2) AS "max_value"
        FROM {table_ref(table)} AS t CROSS JOIN {fences}""",
    )


def _above_zero(roles: Roles, measure: Column, weight: float) -> Question:
    table, value = roles.table, f"t.{quote(measure.name)}"
    above, below = count_where(f"{value} > 0"), count_where(f"{value} < 0")
    zero = count_where(f"{value} = 0")
    return ask(
        Theme.ANOMALIES,
        weight,
        table,
        (measure.name,),
        f"Anomaly check: rate of {rows_word(table)} whose {measure.name} is above zero, at zero and"
        " below zero",
        f"What share of {rows_word(table)} has a {measure.name} above zero?",
        f"""SELECT COUNT({value}) AS "rows_with_value", {above} AS "rows_above_zero",
        {share_of(above, f"COUNT({value})")} AS "above_zero_pct", {zero} AS "rows_at_zero",
        {below} AS "rows_below_zero" FROM {table_ref(table)} AS t""",
    )


def _flag(roles: Roles, flag: Column, weight: float) -> Question:
    table, hits = roles.table, count_where(condition_of(flag))
    present = f"COUNT(t.{quote(flag.name)})"
    return ask(
        Theme.ANOMALIES,
        weight,
        table,
        (flag.name,),
        f"Anomaly check: rate of {rows_word(table)} with {flag.name} set",
        f"What share of {rows_word(table)} has {flag.name} set?",
        f"""SELECT {present} AS "rows_with_value", {hits} AS {alias("rows", "with", flag.name)},
        {share_of(hits, present)} AS "rate_pct" FROM {table_ref(table)} AS t""",
    )


def _extreme_days(roles: Roles, measure: Column, weight: float) -> Iterator[Question]:
    """Days, or else groups, whose average stands out most; nothing without any of them."""
    table, value = roles.table, f"t.{quote(measure.name)}"
    parts = {time_part(c): c for c in reversed(roles.parts)}
    dates = [c for c in table.columns if c.kind is Kind.DATE]
    if {"year", "month", "day"} <= parts.keys():
        keys = [parts[p].name for p in ("year", "month", "day")]
    elif dates:
        keys = [dates[0].name]
    else:
        others = (c.name for c in [*roles.groups, *roles.keys] if c.name != measure.name)
        keys = list(others)[:1]
    if not keys:
        return
    names = ", ".join(f"t.{quote(k)}" for k in keys)
    picked = ", ".join(f"t.{quote(k)} AS {quote(k)}" for k in keys)
    outputs = ", ".join(quote(k) for k in keys)
    output = alias("avg", measure.name)
    yield ask(
        Theme.ANOMALIES,
        weight,
        table,
        (*keys, measure.name),
        f"Extreme {' '.join(keys)} by average {measure.name} in {table.bare} (at least {MIN_GROUP}"
        " rows): outliers first",
        f"On which {' '.join(keys)} is the average {measure.name} most unusual?",
        f"""SELECT {picked}, COUNT({value}) AS "row_count", {mean(value)} AS {output}
        FROM {table_ref(table)} AS t
        WHERE {" AND ".join(f"t.{quote(k)} IS NOT NULL" for k in keys)} GROUP BY {names}
        HAVING COUNT({value}) >= {MIN_GROUP}
        ORDER BY {output} DESC, {outputs} LIMIT {RANK_LIMIT}""",
    )


def _correlation(roles: Roles, first: Column, second: Column, weight: float) -> Question:
    table, a, b = roles.table, f"t.{quote(first.name)}", f"t.{quote(second.name)}"
    both = count_where(f"{a} IS NOT NULL AND {b} IS NOT NULL")
    return ask(
        Theme.ANOMALIES,
        weight,
        table,
        (first.name, second.name),
        f"Anomaly check: correlation of {first.name} and {second.name} in {table.bare}",
        f"Do {first.name} and {second.name} move together?",
        f"""SELECT {both} AS "rows_with_both",
        ROUND(CAST(CORR(CAST({a} AS DOUBLE), CAST({b} AS DOUBLE)) AS DOUBLE), 3) AS "correlation"
        FROM {table_ref(table)} AS t""",
    )


def bucket_width(low: float, high: float) -> float:
    """A round width that cuts a range into at most ten buckets."""
    span = (high - low) / 10
    if span <= 0:
        return 1
    unit = 10.0 ** len(str(int(span))) / 10 if span >= 1 else 0.1
    while unit > span:
        unit /= 10
    width = next((unit * k for k in (1, 2, 5, 10) if unit * k >= span), unit * 10)
    return round(width, 6)


def _buckets(roles: Roles, first: Column, second: Column, weight: float) -> Question:
    table, a, b = roles.table, f"t.{quote(first.name)}", f"t.{quote(second.name)}"
    low = number_of(roles.facts.low.get(first.name)) or 0
    high = number_of(roles.facts.high.get(first.name)) or 10
    width = bucket_width(float(low), float(high))
    step = int(width) if width == int(width) else width
    bucket = f"FLOOR({a} / {step}) * {step}"
    if isinstance(step, int):
        bucket = f"CAST({bucket} AS BIGINT)"
    else:
        bucket = f"ROUND(CAST({bucket} AS DOUBLE), 6)"
    name, output = alias(first.name, "from"), alias("avg", second.name)
    return ask(
        Theme.ANOMALIES,
        weight,
        table,
        (first.name, second.name),
        f"Anomaly check: average {second.name} by bucket of {first.name} (width {step}) in"
        f" {table.bare}, highest first",
        f"At which {first.name} is the average {second.name} highest?",
        f"""SELECT {bucket} AS {name}, COUNT({b}) AS "row_count", {mean(b)} AS {output}
        FROM {table_ref(table)} AS t WHERE {a} IS NOT NULL GROUP BY {bucket}
        HAVING COUNT({b}) >= {MIN_GROUP} ORDER BY {output} DESC, {name} LIMIT {RANK_LIMIT}""",
    )
