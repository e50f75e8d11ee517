"""What is wrong with the data: gaps, duplicates, blanks, keys that point nowhere."""

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
    rows_word,
    share_of,
)
from adapters.llm.offline.roles import Roles
from adapters.llm.offline.schema import Column, Kind
from adapters.llm.offline.sqltext import literal, quote, table_ref

_COLUMNS = 20
_PLACEHOLDERS = ("", "na", "n/a", "null", "none", "unknown", "-", "?")


def quality(roles: Roles, links: Mapping[str, Link]) -> Iterator[Question]:
    """Missing values, duplicate rows and keys, orphans, coverage, blanks, gaps by group."""
    yield _missing(roles, 1)
    for i, link in enumerate(links.values()):
        yield _orphans(roles, link, 1.5 + i)
        yield _unused(roles, link, 2.8 + i)
    columns = roles.table.columns
    if len(columns) > 2 and all(c.kind is not Kind.OTHER for c in columns):
        yield _duplicates(roles, 2.2)
    texts = [c for c in roles.table.columns if c.kind is Kind.TEXT][:8]
    if texts:
        yield _blanks(roles, texts, 2.6)
    for i, key in enumerate(roles.keys[:2]):
        yield _repeats(roles, key, 3 + i)
    gappy = [*roles.measures, *roles.keys][:3]
    for i, group in enumerate(roles.groups[:2]):
        for j, column in enumerate(gappy):
            if column.name != group.name:
                yield _gaps_by(roles, group, column, 2.4 + 1.3 * j + 1.1 * i)
    for i, first in enumerate(gappy):
        for second in gappy[i + 1 :]:
            yield _missing_together(roles, first, second, 3.6 + i)


def _missing(roles: Roles, weight: float) -> Question:
    table = roles.table
    branches = [
        f"""SELECT {literal(c.name)} AS "column_name", COUNT(*) AS "row_count",
        COUNT(*) - COUNT({quote(c.name)}) AS "missing_rows",
        {share_of(f"(COUNT(*) - COUNT({quote(c.name)}))", "COUNT(*)", 2)} AS "missing_pct"
        FROM {table_ref(table)} AS t"""
        for c in table.columns[:_COLUMNS]
    ]
    return ask(
        Theme.QUALITY,
        weight,
        table,
        tuple(c.name for c in table.columns[:_COLUMNS]),
        f"Data quality: missing values (nulls) in each column of {table.bare}, most gaps first",
        f"Which columns of {table.bare} have gaps, and how many rows are affected?",
        " UNION ALL ".join(branches) + ' ORDER BY "missing_rows" DESC, "column_name"',
    )


def _orphans(roles: Roles, link: Link, weight: float) -> Question:
    table, column, key = roles.table, f"t.{quote(link.column)}", quote(link.key)
    lost = "o.k IS NULL"
    rows = count_where(lost)
    return ask(
        Theme.QUALITY,
        weight,
        table,
        (link.column, link.other.bare),
        f"Data quality: orphan values, rows of {table.bare} whose {link.column} is not found in"
        f" {link.other.bare}.{link.key}",
        f"Does every {link.column} of {table.bare} exist in {link.other.bare}?",
        f"""SELECT COUNT(*) AS "rows_with_value", {rows} AS "orphan_rows",
        COUNT(DISTINCT CASE WHEN {lost} THEN {column} END) AS "orphan_values",
        {share_of(rows, "COUNT(*)")} AS "orphan_pct" FROM {table_ref(table)} AS t
        LEFT JOIN (SELECT DISTINCT {key} AS k FROM {table_ref(link.other)}) AS o
        ON o.k = {column} WHERE {column} IS NOT NULL""",
    )


def _unused(roles: Roles, link: Link, weight: float) -> Question:
    table, column, key = roles.table, quote(link.column), f"t.{quote(link.key)}"
    rows = count_where("o.k IS NULL")
    return ask(
        Theme.QUALITY,
        weight,
        link.other,
        (link.key, table.bare),
        f"Data quality: coverage, rows of {link.other.bare} whose {link.key} never occurs in"
        f" {table.bare}.{link.column}",
        f"Is every {link.key} of {link.other.bare} used in {table.bare}?",
        f"""SELECT COUNT(*) AS "rows_with_value", {rows} AS "unused_rows",
        {share_of(rows, "COUNT(*)")} AS "unused_pct" FROM {table_ref(link.other)} AS t
        LEFT JOIN (SELECT DISTINCT {column} AS k FROM {table_ref(table)}) AS o
        ON o.k = {key} WHERE {key} IS NOT NULL""",
    )


def _duplicates(roles: Roles, weight: float) -> Question:
    table = roles.table
    names = ", ".join(quote(c.name) for c in table.columns)
    inner = f"SELECT {names}, COUNT(*) AS n FROM {table_ref(table)} GROUP BY {names}"
    return ask(
        Theme.QUALITY,
        weight,
        table,
        (),
        f"Data quality: exact duplicate rows in {table.bare} (all columns equal)",
        f"Are there rows of {table.bare} that are exact copies of another?",
        f"""SELECT COUNT(*) AS "distinct_rows", COUNT(CASE WHEN d.n > 1 THEN 1 END) AS
        "duplicated_rows", COALESCE(MAX(d.n), 0) AS "most_copies" FROM ({inner}) AS d""",
    )


def _repeats(roles: Roles, key: Column, weight: float) -> Question:
    table, name = roles.table, quote(key.name)
    inner = (
        f"SELECT {name} AS k, COUNT(*) AS n FROM {table_ref(table)}"
        f" WHERE {name} IS NOT NULL GROUP BY {name}"
    )
    return ask(
        Theme.QUALITY,
        weight,
        table,
        (key.name,),
        f"Data quality: duplicate keys, values of {key.name} that occur in more than one row of"
        f" {table.bare}",
        f"Is {key.name} unique in {table.bare}?",
        f"""SELECT COUNT(*) AS "distinct_values", COUNT(CASE WHEN d.n > 1 THEN 1 END) AS
        "repeated_values", COALESCE(MAX(d.n), 0) AS "most_rows" FROM ({inner}) AS d""",
    )


def _blanks(roles: Roles, texts: list[Column], weight: float) -> Question:
    table = roles.table
    words = ", ".join(literal(w) for w in _PLACEHOLDERS)
    branches: list[str] = []
    for column in texts:
        name = quote(column.name)
        hit = count_where(f"LOWER(TRIM(CAST({name} AS VARCHAR))) IN ({words})")
        branches.append(
            f"""SELECT {literal(column.name)} AS "column_name", COUNT({name}) AS "rows_with_value",
            {hit} AS "placeholder_rows" FROM {table_ref(table)} AS t"""
        )
    return ask(
        Theme.QUALITY,
        weight,
        table,
        tuple(c.name for c in texts),
        f"Data quality: blank or placeholder text in the text columns of {table.bare}",
        f"Do text columns of {table.bare} hold blanks or words such as unknown in place of a"
        " value?",
        " UNION ALL ".join(branches) + ' ORDER BY "placeholder_rows" DESC, "column_name"',
    )


def _gaps_by(roles: Roles, group: Column, column: Column, weight: float) -> Question:
    table, name, value = roles.table, quote(group.name), f"t.{quote(column.name)}"
    missing = f"(COUNT(*) - COUNT({value}))"
    return ask(
        Theme.QUALITY,
        weight,
        table,
        (group.name, column.name),
        f"Data quality: rate of missing {column.name} by {group.name} in {table.bare} (groups of at"
        f" least {MIN_GROUP} rows)",
        f"For which {group.name} is {column.name} missing most often?",
        f"""SELECT t.{name} AS {name}, COUNT(*) AS "row_count", {missing} AS "missing_rows",
        {share_of(missing, "COUNT(*)", 2)} AS "missing_pct" FROM {table_ref(table)} AS t
        WHERE t.{name} IS NOT NULL GROUP BY t.{name} HAVING COUNT(*) >= {MIN_GROUP}
        ORDER BY "missing_pct" DESC, {name} LIMIT {RANK_LIMIT}""",
    )


def _missing_together(roles: Roles, first: Column, second: Column, weight: float) -> Question:
    table, a, b = roles.table, f"t.{quote(first.name)}", f"t.{quote(second.name)}"
    rows = {
        "only_first_missing": f"{a} IS NULL AND {b} IS NOT NULL",
        "only_second_missing": f"{a} IS NOT NULL AND {b} IS NULL",
        "both_missing": f"{a} IS NULL AND {b} IS NULL",
    }
    counts = ", ".join(f"{count_where(c)} AS {quote(n)}" for n, c in rows.items())
    return ask(
        Theme.QUALITY,
        weight,
        table,
        (first.name, second.name),
        f"Data quality: are {first.name} and {second.name} missing in the same {rows_word(table)}?",
        f"Do the gaps of {first.name} and {second.name} fall together?",
        f"""SELECT COUNT(*) AS "row_count", {counts} FROM {table_ref(table)} AS t""",
    )
