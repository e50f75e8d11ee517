"""SQL as text: identifiers always quoted, literals escaped, rendered for the catalog's dialect.

Questions are written in DuckDB's SQL and rendered through sqlglot for any other dialect.
"""

from __future__ import annotations

import re
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from adapters.llm.offline.schema import TableInfo

_BETWEEN = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\s*\n\s*""")
"""Quoted names and texts, which stay as they are, and line ends between them."""


def quote(name: str) -> str:
    """A quoted identifier in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def table_ref(table: TableInfo) -> str:
    """The qualified, quoted name of a table."""
    return ".".join(quote(part) for part in table.parts)


def reference(table: TableInfo) -> str:
    """The qualified name of a table as a rendered statement has it."""
    named = exp.Table()
    for key, part in zip(("this", "db", "catalog"), reversed(table.parts), strict=False):
        named.set(key, exp.to_identifier(part, quoted=True))
    return named.sql(dialect=table.dialect)


def literal(value: Any, dialect: str = "duckdb") -> str:
    """A literal; strings are escaped by sqlglot for the dialect."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    if dialect == "duckdb":
        return "'" + str(value).replace("'", "''") + "'"
    return exp.Literal.string(str(value)).sql(dialect=dialect)


def alias(*words: str) -> str:
    """A quoted output name made of words."""
    return quote("_".join(w for w in words if w))


def render(sql: str, dialect: str) -> str:
    """The statement in the catalog's dialect; unchanged if sqlglot cannot read it."""
    flat = _on_one_line(sql.strip())
    if dialect == "duckdb":
        return flat
    try:
        return sqlglot.transpile(flat, read="duckdb", write=dialect, identify=True)[0]
    except (SqlglotError, RecursionError):
        return flat


def _on_one_line(sql: str) -> str:
    lines = sql.split("\n")
    if all(line.count('"') % 2 == 0 == line.count("'") % 2 for line in lines):
        return " ".join(line.strip() for line in lines)
    return _BETWEEN.sub(lambda found: found.group(1) or " ", sql)
