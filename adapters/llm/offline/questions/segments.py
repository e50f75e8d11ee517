"""Which groups are largest, and how do they differ?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adapters.llm.offline.questions.question import (
    MIN_GROUP,
    RANK_LIMIT,
    Link,
    Question,
    Theme,
    ask,
    count_where,
    label_select,
    mean,
    rows_word,
    share_of,
    total,
)
from adapters.llm.offline.roles import Roles, additive, measure_rank
from adapters.llm.offline.schema import Column, Kind
from adapters.llm.offline.sqltext import alias, quote, table_ref

_GROUPS, _MEASURES = 6, 4


def segments(roles: Roles, links: Mapping[str, Link]) -> Iterator[Question]:
    """Rankings by count, by average, by sum, by rate, and of pairs of groups."""
    groups = roles.groups[:_GROUPS]
    measures = sorted(roles.measures, key=lambda m: measure_rank(roles, m))[:_MEASURES]
    for i, group in enumerate(groups):
        link = links.get(group.name)
        yield _count(roles, group, link, 1 + i)
        for j, measure in enumerate(measures):
            yield _average(roles, group, measure, link, 1.5 + i + 1.4 * j)
            if additive(measure):
                yield _sum(roles, group, measure, link, 2.6 + i + 1.5 * j)
        for k, flag in enumerate(roles.flags[:2]):
            if flag.name != group.name:
                yield _flag_rate(roles, group, flag, link, 1.8 + i + k)
    for i, first in enumerate(groups[:4]):
        for j, second in enumerate(groups[i + 1 : 4]):
            yield _pair(roles, first, second, 3.2 + i + j)


def _count(roles: Roles, group: Column, link: Link | None, weight: float) -> Question:
    table, name = roles.table, quote(group.name)
    whole = "SUM(COUNT(*)) OVER ()"
    rows = rows_word(table)
    return ask(
        Theme.SEGMENTS,
        weight,
        table,
        (group.name,),
        f"Ranking of {group.name} by number of {rows}: size and share of each segment",
        f"Which {group.name} has the most {rows}, and what share of all does each one hold?",
        f"""SELECT t.{name} AS {name}, {label_select(link, group)}COUNT(*) AS "row_count",
        CAST({whole} AS BIGINT) AS "total_rows", {share_of("COUNT(*)", whole)} AS "share_pct"
        FROM {table_ref(table)} AS t WHERE t.{name} IS NOT NULL GROUP BY t.{name}
        ORDER BY "row_count" DESC, {name} LIMIT {RANK_LIMIT}""",
    )


def _average(
    roles: Roles, group: Column, measure: Column, link: Link | None, weight: float
) -> Question:
    table, name, value = roles.table, quote(group.name), quote(measure.name)
    output = alias("avg", measure.name)
    return ask(
        Theme.SEGMENTS,
        weight,
        table,
        (group.name, measure.name),
        f"Ranking of {group.name} by average {measure.name} in {table.bare} (segments of at least"
        f" {MIN_GROUP} rows with a value)",
        f"For which {group.name} is the average {measure.name} highest, and for which lowest?",
        f"""SELECT t.{name} AS {name}, {label_select(link, group)}COUNT(t.{value}) AS "row_count",
        {mean(f"t.{value}")} AS {output} FROM {table_ref(table)} AS t
        WHERE t.{name} IS NOT NULL GROUP BY t.{name} HAVING COUNT(t.{value}) >= {MIN_GROUP}
        ORDER BY {output} DESC, {name} LIMIT {RANK_LIMIT}""",
    )


def _sum(
    roles: Roles, group: Column, measure: Column, link: Link | None, weight: float
) -> Question:
    table, name, value = roles.table, quote(group.name), f"t.{quote(measure.name)}"
    whole = f"SUM(SUM({value})) OVER ()"
    output = alias("total", measure.name)
    return ask(
        Theme.SEGMENTS,
        weight,
        table,
        (group.name, measure.name),
        f"Ranking of {group.name} by total {measure.name} in {table.bare}: share of each segment",
        f"Which {group.name} makes up most of the total {measure.name}?",
        f"""SELECT t.{name} AS {name}, {label_select(link, group)}COUNT({value}) AS "row_count",
        {total(value)} AS {output}, {share_of(f"SUM({value})", whole)} AS "share_pct"
        FROM {table_ref(table)} AS t WHERE t.{name} IS NOT NULL GROUP BY t.{name}
        HAVING COUNT({value}) > 0
        ORDER BY {output} DESC, {name} LIMIT {RANK_LIMIT}""",
    )


def condition_of(flag: Column) -> str:
    """When a flag counts as set."""
    name = f"t.{quote(flag.name)}"
    return f"{name} = TRUE" if flag.kind is Kind.BOOLEAN else f"{name} = 1"


def _flag_rate(
    roles: Roles, group: Column, flag: Column, link: Link | None, weight: float
) -> Question:
    table, name = roles.table, quote(group.name)
    hits, output = count_where(condition_of(flag)), alias("rows", "with", flag.name)
    present = f"COUNT(t.{quote(flag.name)})"
    return ask(
        Theme.SEGMENTS,
        weight,
        table,
        (group.name, flag.name),
        f"Rate of {flag.name} by {group.name} in {table.bare} (segments of at least {MIN_GROUP}"
        " rows)",
        f"In which {group.name} is {flag.name} set most often?",
        f"""SELECT t.{name} AS {name}, {label_select(link, group)}{present} AS "row_count",
        {hits} AS {output}, {share_of(hits, present)} AS "rate_pct"
        FROM {table_ref(table)} AS t WHERE t.{name} IS NOT NULL GROUP BY t.{name}
        HAVING {present} >= {MIN_GROUP}
        ORDER BY "rate_pct" DESC, {name} LIMIT {RANK_LIMIT}""",
    )


def _pair(roles: Roles, first: Column, second: Column, weight: float) -> Question:
    table, a, b = roles.table, quote(first.name), quote(second.name)
    whole = "SUM(COUNT(*)) OVER ()"
    return ask(
        Theme.SEGMENTS,
        weight,
        table,
        (first.name, second.name),
        f"Ranking of combinations of {first.name} and {second.name} by number of"
        f" {rows_word(table)}: largest segments",
        f"Which combinations of {first.name} and {second.name} are most frequent?",
        f"""SELECT t.{a} AS {a}, t.{b} AS {b}, COUNT(*) AS "row_count",
        CAST({whole} AS BIGINT) AS "total_rows", {share_of("COUNT(*)", whole)} AS "share_pct"
        FROM {table_ref(table)} AS t WHERE t.{a} IS NOT NULL AND t.{b} IS NOT NULL
        GROUP BY t.{a}, t.{b} ORDER BY "row_count" DESC, {a}, {b} LIMIT {RANK_LIMIT}""",
    )
