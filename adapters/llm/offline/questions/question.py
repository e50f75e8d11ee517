"""One question to the warehouse, and what all questions share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from adapters.llm.offline.roles import Roles, singular
from adapters.llm.offline.schema import Column, TableInfo
from adapters.llm.offline.sqltext import alias, quote, render, table_ref

RANK_LIMIT = 20
MIN_GROUP = 30
"""Averages and rates of fewer rows than this are not compared."""


class Theme(StrEnum):
    PROFILE = "profile"
    SEGMENTS = "segments"
    TRENDS = "trends"
    ANOMALIES = "anomalies"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class Question:
    theme: Theme
    weight: float
    """Within a theme, lower is asked earlier."""
    subject: tuple[str, ...]
    """Table and column names that the question is about."""
    purpose: str
    rationale: str
    sql: str
    datasource_id: str = "default"


def ask(
    theme: Theme,
    weight: float,
    table: TableInfo,
    columns: tuple[str, ...],
    purpose: str,
    rationale: str,
    sql: str,
) -> Question:
    """A question over one table, rendered for its dialect."""
    return Question(
        theme,
        weight,
        (table.bare, *columns),
        purpose,
        rationale,
        render(sql, table.dialect),
        table.datasource_id,
    )


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key: ``table.column`` points at ``other.key``."""

    table: TableInfo
    column: str
    other: TableInfo
    key: str
    name: Column | None
    """The column of ``other`` that tells people what the key stands for."""


def share_of(part: str, whole: str, digits: int = 1) -> str:
    """A percentage of two counts, rounded; NULL when there is nothing to share."""
    return f"ROUND(CAST(100.0 * {part} / NULLIF({whole}, 0) AS DOUBLE), {digits})"


def mean(expression: str, digits: int = 2) -> str:
    return f"ROUND(CAST(AVG({expression}) AS DOUBLE), {digits})"


def total(expression: str, digits: int = 2) -> str:
    return f"ROUND(CAST(SUM({expression}) AS DOUBLE), {digits})"


def count_where(condition: str) -> str:
    return f"COUNT(CASE WHEN {condition} THEN 1 END)"


def percentile(column: str, share: float, digits: int = 2) -> str:
    inner = f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {column})"
    return f"ROUND(CAST({inner} AS DOUBLE), {digits})"


def label_select(link: Link | None, group: Column) -> str:
    """A scalar subquery that reads a group's name from the table its key points at, or ''."""
    if link is None or link.name is None:
        return ""
    inner = (
        f"SELECT MIN(l.{quote(link.name.name)}) FROM {table_ref(link.other)} AS l"
        f" WHERE l.{quote(link.key)} = t.{quote(group.name)}"
    )
    return f"({inner}) AS {alias(group.name, link.name.name)}, "


def rows_word(table: TableInfo) -> str:
    """What rows of a table are called: its own name if that is a plural, else 'rows'."""
    name = table.bare.lower()
    plain = name.isascii() and name.isalpha() and singular(name) != name
    return name if plain else f"rows of {table.bare}"


def has_percentiles(roles: Roles) -> bool:
    """Dialects in which ``PERCENTILE_CONT`` is an aggregate."""
    return roles.table.dialect not in {"tsql", "bigquery"}
