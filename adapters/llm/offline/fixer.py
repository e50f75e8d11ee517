"""The SQL fixer: mends names, quotes and foreign dialects; says so when it knows no repair."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from adapters.llm.offline.reading import find_text
from adapters.llm.offline.schema import DIALECTS
from pipeline.ports import ChatRequest
from pipeline.schema.names import parts_of

NO_REPAIR = "No repair of this query is known to the offline analyst."
_SPOKEN = {
    "duckdb": "duckdb",
    "postgresql": "postgres",
    "redshift": "redshift",
    "bigquery": "bigquery",
    "snowflake": "snowflake",
    "sql server": "tsql",
    "databricks": "databricks",
}
_UNKNOWN_COLUMN = (
    r'Referenced column "([^"]+)" not found',
    r'does not have a column named "([^"]+)"',
    r'column "?(?:\w+\.)?([\w ]+?)"? does not exist',
    r"Unrecognized name: `?([\w.]+)`?",
    r"invalid identifier '\"?([\w.]+)\"?'",
    r"Invalid column name '([^']+)'",
    r"name `([\w.]+)` cannot be resolved",
)
_UNKNOWN_TABLE = (
    r"Table with name ([\w. ]+?) does not exist",
    r'relation "([^"]+)" does not exist',
    r"Not found: Table (?:[\w-]+[:.])?([\w.]+)",
    r"Object '([\w.\"]+)' does not exist",
    r"Invalid object name '([^']+)'",
    r"table or view `?([\w.`]+)`? cannot be found",
)
DOUBLE_QUOTED_TEXT = ("bigquery", "databricks")
"""Dialects in which "a" is a text: read as one of them, a query with quoted names would still run,
and count texts instead of columns."""
_AMBIGUOUS = (
    r'Ambiguous reference to column name "([^"]+)"',
    r'column reference "([^"]+)" is ambiguous',
    r"ambiguous column name '?([\w.]+)'?",
    r"Column name ([\w]+) is ambiguous",
)
_UNKNOWN_FUNCTION = (
    r"Scalar Function with name ([\w]+) does not exist",
    r"function ([\w]+)\(.*\) does not exist",
    r"Unknown function ([\w]+)",
    r"Function not found: ([\w]+)",
    r"function[s]? [`'\"]?([\w]+)[`'\"]? (?:is|are) not (?:allowed|supported)",
)
_FUNCTIONS = {
    "nvl": "COALESCE",
    "ifnull": "COALESCE",
    "isnull": "COALESCE",
    "len": "LENGTH",
    "getdate": "CURRENT_TIMESTAMP",
    "substr": "SUBSTRING",
    "ceil": "CEILING",
    "stdev": "STDDEV",
    "var": "VARIANCE",
}


def repair(request: ChatRequest) -> str:
    """The repaired query in a fence, or a plain sentence."""
    sql = find_text(request, "sql").strip()
    error = find_text(request, "error")
    schema = find_text(request, "schema")
    dialect = _dialect(request.system)
    tried = {_flat(m.content) for m in request.messages}
    for attempt in _attempts(sql, error, schema, dialect):
        flat = _flat(attempt)
        if attempt and flat != _flat(sql) and not any(flat in t for t in tried):
            return f"```sql\n{attempt}\n```"
    return NO_REPAIR


def _flat(text: str) -> str:
    return " ".join(text.split())


def _dialect(system: str) -> str:
    """The dialect that the instructions speak of, by its product name."""
    tail = system.rpartition("## The dialect")[2].lower()
    spots = {tail.find(word): name for word, name in _SPOKEN.items() if word in tail}
    return spots[min(spots)] if spots else "duckdb"


def _attempts(sql: str, error: str, schema: str, dialect: str) -> Iterator[str]:
    tree = _parse(sql, dialect)
    if tree is None:
        yield from _translated(sql, dialect)
        return
    if name := _first(_AMBIGUOUS, error):
        yield _qualified(tree, name, dialect)
    if name := _first(_UNKNOWN_COLUMN, error):
        yield _renamed(tree, exp.Column, name, _columns(schema, error), dialect)
    if name := _first(_UNKNOWN_TABLE, error):
        yield _renamed(tree, exp.Table, name, _tables(schema), dialect)
    if name := _first(_UNKNOWN_FUNCTION, error):
        yield _other_function(tree, name, dialect)
    yield from _translated(sql, dialect)


def _parse(sql: str, dialect: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(sql, dialect=dialect)
    except (SqlglotError, RecursionError, ValueError):
        return None


def _first(patterns: tuple[str, ...], error: str) -> str:
    for pattern in patterns:
        match = re.search(pattern, error, re.IGNORECASE)
        if match:
            return match.group(1).strip("`\"' ").rsplit(".", 1)[-1]
    return ""


def _translated(sql: str, dialect: str) -> Iterator[str]:
    """The query read as another dialect, or with brackets and stray ends mended."""
    for other in DIALECTS:
        if other == dialect or ('"' in sql and other in DOUBLE_QUOTED_TEXT):
            continue
        if _parse(sql, other) is not None:
            try:
                yield sqlglot.transpile(sql, read=other, write=dialect)[0]
            except (SqlglotError, RecursionError):
                continue
    short = sql.rstrip().rstrip(";, ")
    missing = short.count("(") - short.count(")")
    for candidate in (short, short + ")" * max(0, missing), re.sub(r",\s*(FROM)\b", r" \1", short)):
        if _parse(candidate, dialect) is not None:
            yield candidate


def _columns(schema: str, error: str) -> list[str]:
    """Column names from schema lines ``table: name TYPE, …`` and from the error's own hints."""
    found: list[str] = re.findall(r'"([^"]+)"', error.partition("Candidate bindings")[2])
    for line in schema.splitlines():
        _, colon, rest = line.partition(": ")
        if colon and not line.startswith(("near ", "tables: ")):
            found += [part.strip().rsplit(" ", 1)[0] for part in re.split(r",(?![^(]*\))", rest)]
    return list(dict.fromkeys(f.rsplit(".", 1)[-1].strip('"') for f in found if f))


def _tables(schema: str) -> list[str]:
    found: list[str] = []
    for line in schema.splitlines():
        head, _, rest = line.partition(": ")
        if head == "tables" or head.startswith("near "):
            found += [t.strip() for t in rest.split(",")]
        elif rest or " | " in line:
            found.append(head.split(" | ")[0])
    return list(dict.fromkeys(f for f in found if f))


def _near(name: str, options: list[str]) -> str:
    """The option most like the name, compared without case, dashes and underscores."""

    def plain(text: str) -> str:
        return re.sub(r"[\W_]+", "", text.rsplit(".", 1)[-1].lower())

    by_plain: dict[str, str] = {}
    for option in options:
        by_plain.setdefault(plain(option), option)
    close = difflib.get_close_matches(plain(name), list(by_plain), n=1, cutoff=0.6)
    if close:
        return by_plain[close[0]]
    inside = [
        o for p, o in by_plain.items() if len(p) > 3 and (p in plain(name) or plain(name) in p)
    ]
    return inside[0] if len(inside) == 1 else ""


def _renamed(
    tree: exp.Expr,
    kind: type[exp.Column] | type[exp.Table],
    name: str,
    options: list[str],
    dialect: str,
) -> str:
    near = _near(name, [o for o in options if o.lower() != name.lower()])
    if not near:
        return ""

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, kind) or node.name.lower() != name.lower():
            return node
        copy = node.copy()
        if isinstance(copy, exp.Column):
            copy.set("this", exp.to_identifier(near, quoted=True))
            return copy
        parts = parts_of(near, dialect)
        copy.set("this", exp.to_identifier(parts[-1], quoted=True))
        if len(parts) > 1:
            copy.set("db", exp.to_identifier(parts[-2], quoted=True))
        if not copy.alias:
            copy.set("alias", exp.TableAlias(this=exp.to_identifier(node.name)))
        return copy

    return _written(tree, change, dialect)


def _qualified(tree: exp.Expr, name: str, dialect: str) -> str:
    """Give an ambiguous column the first table of the query."""
    source = tree.find(exp.Table)
    if source is None:
        return ""
    owner = source.alias_or_name

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() == name.lower():
            copy = node.copy()
            copy.set("table", exp.to_identifier(owner, quoted=True))
            return copy
        return node

    return _written(tree, change, dialect)


def _other_function(tree: exp.Expr, name: str, dialect: str) -> str:
    """Replace a function that does not exist here by its common equivalent."""
    other = _FUNCTIONS.get(name.lower())
    if other is None:
        return ""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.name.lower() == name.lower():
            return exp.func(other, *[e.copy() for e in node.expressions], dialect=dialect)
        return node

    return _written(tree, change, dialect)


def _written(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr], dialect: str) -> str:
    try:
        return tree.copy().transform(change).sql(dialect=dialect)
    except (SqlglotError, RecursionError, ValueError):
        return ""
