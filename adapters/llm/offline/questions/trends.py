"""How do counts, averages and rates move over time?"""

from __future__ import annotations

from collections.abc import Iterator

from adapters.llm.offline.questions.question import (
    MIN_GROUP,
    RANK_LIMIT,
    Question,
    Theme,
    ask,
    count_where,
    mean,
    rows_word,
    share_of,
    total,
)
from adapters.llm.offline.questions.segments import condition_of
from adapters.llm.offline.roles import Axis, Roles, additive, measure_rank, moment, time_part
from adapters.llm.offline.schema import Column, Kind
from adapters.llm.offline.sqltext import alias, quote, table_ref

_MEASURES = 4


def trends(roles: Roles) -> Iterator[Question]:
    """Counts, averages, totals and rates by period, then patterns of the clock and the week."""
    measures = sorted(roles.measures, key=lambda m: measure_rank(roles, m))[:_MEASURES]
    for i, axis in enumerate(roles.axes[:2]):
        yield _count(roles, axis, 1 + 4 * i)
        for j, measure in enumerate(measures):
            yield _measure(roles, axis, measure, "avg", 1.5 + j + 4 * i)
            if additive(measure):
                yield _measure(roles, axis, measure, "total", 3.6 + j + 4 * i)
        for j, flag in enumerate(roles.flags[:2]):
            yield _rate(roles, axis, condition_of(flag), flag.name, f"{flag.name} set", 2.2 + j)
        for j, column in enumerate(_gappy(roles)[:2]):
            missing = f"t.{quote(column.name)} IS NULL"
            yield _rate(roles, axis, missing, column.name, f"{column.name} missing", 2.3 + 2 * j)
        for j, group in enumerate(roles.groups[:2]):
            yield _by_group(roles, axis, group, 4.4 + j + 4 * i)
        for j, key in enumerate([*roles.keys, *roles.groups][:2]):
            yield _distinct(roles, axis, key, 3.4 + 2 * j + 4 * i)
    for i, pattern in enumerate(_patterns(roles)):
        yield _pattern(roles, *pattern, None, 2 + i)
        for j, measure in enumerate(measures[:3]):
            yield _pattern(roles, *pattern, measure, 2.4 + 0.8 * i + 1.1 * j)


def _gappy(roles: Roles) -> list[Column]:
    """Columns worth asking for their gaps: measures first."""
    return list(roles.measures)


def _count(roles: Roles, axis: Axis, weight: float) -> Question:
    table = roles.table
    return ask(
        Theme.TRENDS,
        weight,
        table,
        axis.columns,
        f"Trend over time: number of {rows_word(table)} per {axis.grain} ({axis.label})",
        f"How does the number of {rows_word(table)} change from {axis.grain} to {axis.grain}?",
        f"""SELECT {axis.expression} AS "period", COUNT(*) AS "row_count"
        FROM {table_ref(table)} AS t {_present(axis)} GROUP BY {axis.expression}
        ORDER BY "period\"""",
    )


def _present(axis: Axis) -> str:
    return "WHERE " + " AND ".join(f"{quote(c)} IS NOT NULL" for c in axis.columns)


def _measure(roles: Roles, axis: Axis, measure: Column, how: str, weight: float) -> Question:
    table, value = roles.table, f"t.{quote(measure.name)}"
    output = alias(how, measure.name)
    word = "average" if how == "avg" else "total"
    figure = mean(value) if how == "avg" else total(value)
    floor = MIN_GROUP if how == "avg" else 1
    return ask(
        Theme.TRENDS,
        weight,
        table,
        (*axis.columns, measure.name),
        f"Trend over time: {word} {measure.name} per {axis.grain} in {table.bare} ({axis.label})",
        f"Does the {word} {measure.name} rise or fall from {axis.grain} to {axis.grain}?",
        f"""SELECT {axis.expression} AS "period", COUNT({value}) AS "row_count",
        {figure} AS {output} FROM {table_ref(table)} AS t {_present(axis)}
        GROUP BY {axis.expression} HAVING COUNT({value}) >= {floor} ORDER BY "period\"""",
    )


def _rate(
    roles: Roles, axis: Axis, condition: str, column: str, words: str, weight: float
) -> Question:
    table, hits = roles.table, count_where(condition)
    output = alias("rows", "with", *words.split(" "))
    return ask(
        Theme.TRENDS,
        weight,
        table,
        (*axis.columns, column),
        f"Trend over time: share of {rows_word(table)} with {words} per {axis.grain}"
        f" ({axis.label})",
        f"Does the share of {rows_word(table)} with {words} change over time?",
        f"""SELECT {axis.expression} AS "period", COUNT(*) AS "row_count", {hits} AS {output},
        {share_of(hits, "COUNT(*)", 2)} AS "rate_pct" FROM {table_ref(table)} AS t
        {_present(axis)} GROUP BY {axis.expression} HAVING COUNT(*) >= {MIN_GROUP}
        ORDER BY "period\"""",
    )


def _distinct(roles: Roles, axis: Axis, key: Column, weight: float) -> Question:
    table = roles.table
    output = alias("distinct", key.name)
    return ask(
        Theme.TRENDS,
        weight,
        table,
        (*axis.columns, key.name),
        f"Trend over time: distinct values of {key.name} in {table.bare} per {axis.grain}"
        f" ({axis.label})",
        f"How many different {key.name} values are active in each {axis.grain}?",
        f"""SELECT {axis.expression} AS "period", COUNT(*) AS "row_count",
        COUNT(DISTINCT t.{quote(key.name)}) AS {output} FROM {table_ref(table)} AS t
        {_present(axis)} GROUP BY {axis.expression} ORDER BY "period\"""",
    )


def _by_group(roles: Roles, axis: Axis, group: Column, weight: float) -> Question:
    table, name = roles.table, quote(group.name)
    return ask(
        Theme.TRENDS,
        weight,
        table,
        (*axis.columns, group.name),
        f"Busiest combinations of {axis.grain} and {group.name} in {table.bare} by number of rows"
        " over time",
        f"In which {axis.grain} and for which {group.name} are there most {rows_word(table)}?",
        f"""SELECT {axis.expression} AS "period", t.{name} AS {name}, COUNT(*) AS "row_count"
        FROM {table_ref(table)} AS t {_present(axis)} AND t.{name} IS NOT NULL
        GROUP BY {axis.expression}, t.{name}
        ORDER BY "row_count" DESC, "period", {name} LIMIT {RANK_LIMIT}""",
    )


def _patterns(roles: Roles) -> list[tuple[str, str, tuple[str, ...]]]:
    """Expressions for hour of day and day of week: (expression, name, columns)."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    parts = {time_part(c): c for c in reversed(roles.parts)}
    stamps = [c for c in roles.table.columns if c.kind is Kind.STAMP]
    dates = [c for c in roles.table.columns if c.kind in {Kind.DATE, Kind.STAMP}]
    if "hour" in parts:
        name = parts["hour"].name
        found.append((f"t.{quote(name)}", "hour", (name,)))
    elif stamps:
        hour = f"CAST(EXTRACT(HOUR FROM CAST({moment(stamps[0])} AS TIMESTAMP)) AS INTEGER)"
        found.append((hour, "hour_of_day", (stamps[0].name,)))
    day = _date_of(parts, dates)
    if day:
        number = f"CAST(EXTRACT(DOW FROM {day[0]}) AS INTEGER)"
        name = f"STRFTIME(CAST({day[0]} AS TIMESTAMP), '%A')"
        found.append((name if roles.table.dialect == "duckdb" else number, "weekday", day[1]))
    if "month" in parts and not any("month" in a.grain for a in roles.axes):
        name = parts["month"].name
        found.append((f"t.{quote(name)}", "month", (name,)))
    return found


def _date_of(parts: dict[str, Column], dates: list[Column]) -> tuple[str, tuple[str, ...]] | None:
    if {"year", "month", "day"} <= parts.keys():
        names = tuple(parts[p].name for p in ("year", "month", "day"))
        return f"MAKE_DATE({', '.join(f't.{quote(n)}' for n in names)})", names
    if dates:
        return f"CAST({moment(dates[0])} AS DATE)", (dates[0].name,)
    return None


def _pattern(
    roles: Roles,
    expression: str,
    name: str,
    columns: tuple[str, ...],
    measure: Column | None,
    weight: float,
) -> Question:
    table, output = roles.table, quote(name)
    words = name.replace("_", " ")
    value = f"t.{quote(measure.name)}" if measure else "*"
    figure = f", {mean(value)} AS {alias('avg', measure.name)}" if measure else ""
    order = alias("avg", measure.name) if measure else '"row_count"'
    what = f"average {measure.name}" if measure else f"number of {rows_word(table)}"
    source = " and ".join(columns)
    present = " AND ".join(f"t.{quote(c)} IS NOT NULL" for c in columns)
    return ask(
        Theme.TRENDS,
        weight,
        table,
        (*columns, measure.name) if measure else columns,
        f"Pattern over time: {what} in {table.bare} by {words} (from {source}), highest first",
        f"At which {words} is the {what} highest?",
        f"""SELECT {expression} AS {output}, COUNT({value}) AS "row_count"{figure}
        FROM {table_ref(table)} AS t WHERE {present}
        GROUP BY {expression} HAVING COUNT({value}) >= {MIN_GROUP if measure else 1}
        ORDER BY {order} DESC, {output} LIMIT 24""",
    )
