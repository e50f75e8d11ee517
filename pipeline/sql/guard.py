"""The read-only guard: an allow-list over the syntax tree of one query.

What runs is never the text that came in but the text rendered from the tree that was checked, so
that comments, hints and anything a warehouse might read differently than the parser are gone.
The session and the warehouse's own grants are the second and third fence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, cast

from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from pipeline.errors import UnsafeSql
from pipeline.sql.calls import known_functions
from pipeline.sql.functions import function_names, words
from pipeline.sql.nodes import (
    ALLOWED,
    FORBIDDEN_FUNCTIONS,
    NAMED_FUNCTIONS,
    ROOTS,
    ROW_SOURCES,
    WHAT_IT_IS,
)
from pipeline.sql.relations import check_table
from pipeline.sql.script import one_query

DIALECTS = ("bigquery", "snowflake", "postgres", "redshift", "tsql", "databricks", "duckdb")
NAMESPACES: dict[str, frozenset[str]] = {
    "postgres": frozenset({"pg_catalog"}),
    "redshift": frozenset({"pg_catalog"}),
    "duckdb": frozenset({"main", "system", "pg_catalog"}),
}
"""Schemas that hold a dialect's own functions: ``pg_catalog.lower(x)`` is ``lower(x)``."""
_XML_METHODS = frozenset({"value", "exist", "query", "nodes"})
"""Methods of T-SQL's XML columns that read: ``(SELECT ... FOR XML PATH(''), TYPE).value(...)``."""
HARMLESS_TABLE_HINTS = words(
    """
    nolock readuncommitted readcommitted readpast nowait noexpand forceseek forcescan
    index
    """
)


def check_read_only(sql: str, dialect: str, *, extra_functions: Collection[str] = ()) -> str:
    """The query as it may run, rendered from its checked tree, without comments and hints.

    ``extra_functions`` are names that the operator allows beyond the dialect's list; a name such
    as ``dbo.margin`` allows the qualified call only. Raises ``UnsafeSql`` with a reason that the
    author of the query can act on, whatever ``sql`` holds.
    """
    return render(checked_tree(sql, dialect, extra_functions), dialect)


def checked_tree(sql: str, dialect: str, extra_functions: Collection[str] = ()) -> exp.Query:
    """The syntax tree of a query that only reads. Raises ``UnsafeSql``."""
    if dialect not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise UnsafeSql(f"no read-only guard exists for the dialect {dialect!r}; known: {known}")
    tree = one_query(sql, dialect)
    if not isinstance(tree, ROOTS):
        raise UnsafeSql(_root_refused(tree))
    if isinstance(tree, exp.Select) and not tree.expressions and tree.args.get("from_") is None:
        raise UnsafeSql("the query selects nothing; name columns after SELECT")
    try:
        _check(tree, dialect, frozenset(name.lower() for name in extra_functions))
    except RecursionError:
        raise UnsafeSql("the query is nested too deeply; write it flatter") from None
    return cast("exp.Query", tree)


def render(tree: exp.Expr, dialect: str) -> str:
    """The text of a checked tree, which is used up. Raises ``UnsafeSql`` if there is none."""
    try:
        # Without RAISE, a clause that the dialect does not have would be left out silently.
        text = tree.sql(
            dialect=dialect, copy=False, comments=False, unsupported_level=ErrorLevel.RAISE
        )
    except UnsupportedError as error:
        raise UnsafeSql(f"{dialect} cannot run this: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever the generator trips over is a refusal
        raise UnsafeSql(f"the query cannot be written for {dialect}: {error}") from None
    if "\0" in text:
        raise UnsafeSql("the query holds a function's name where no function may stand")
    return text


def _root_refused(tree: exp.Expr) -> str:
    name = type(tree).__name__
    what = WHAT_IT_IS.get(name, f"is a {name.upper()} statement")
    return f"only one SELECT query may run; this {what}"


def _check(tree: exp.Expr, dialect: str, extra: frozenset[str]) -> None:
    known = known_functions(dialect)
    hints: list[exp.Expr] = []
    for node in tree.walk():
        kind = type(node)
        if kind is exp.Table:
            check_table(cast("exp.Table", node), dialect)
            _check_table_function(node.args.get("this"), node, dialect, extra)
        elif kind is exp.TableFromRows or kind is exp.Lateral:
            _check_row_source(node, dialect, extra)
        elif kind in NAMED_FUNCTIONS:
            _check_named(node, dialect, known, extra)
        elif kind in FORBIDDEN_FUNCTIONS:
            _check_forbidden(cast("exp.Func", node), extra)
        elif kind is exp.Hint:
            hints.append(node)
        elif kind not in ALLOWED:
            _refuse_node(node, dialect)
        elif kind is exp.Column and dialect == "snowflake":
            _check_sequence(cast("exp.Column", node))
        elif kind is exp.Dot:
            _check_dot(cast("exp.Dot", node), dialect)
        elif kind is exp.WithTableHint:
            _check_table_hint(node)
    for hint in hints:
        hint.pop()


def _refuse_node(node: exp.Expr, dialect: str) -> None:
    name = type(node).__name__
    if dialect == "snowflake" and isinstance(node, exp.Parameter) and _is_number(node.this):
        return  # $1: a column by position
    if _inside_hint(node):
        return
    what = WHAT_IT_IS.get(name)
    if what is None:
        raise UnsafeSql(f"{_excerpt(node, dialect)} ({name}) is not allowed in a read-only query")
    raise UnsafeSql(f"only reading is allowed; {_excerpt(node, dialect)} {what}")


def _is_number(node: Any) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _inside_hint(node: exp.Expr) -> bool:
    return node.find_ancestor(exp.Hint) is not None


def _excerpt(node: exp.Expr, dialect: str) -> str:
    try:
        text = node.sql(dialect=dialect, comments=False)
    except Exception:  # noqa: BLE001 - only words for a refusal that stands already
        text = type(node).__name__
    return text if len(text) <= 80 else f"{text[:77]}..."


# ---------------------------------------------------------------- functions


def _function_name(node: Any) -> str:
    name = node.this
    return (name if isinstance(name, str) else str(getattr(name, "name", name))).lower()


def _check_named(
    node: exp.Expr, dialect: str, allowed: frozenset[str], extra: frozenset[str]
) -> None:
    """A call that sqlglot does not know: by name, with the schema before it if there is one."""
    if isinstance(node.parent, exp.WithTableHint):
        return  # INDEX(ix); the hint itself is checked
    name = _function_name(node)
    path = _path_before(node)
    if path:
        _check_qualified(path, name, dialect, allowed, extra)
    elif not (name in allowed or name in extra or _inside_hint(node)):
        if path == () and dialect == "tsql" and name in _XML_METHODS:
            return
        raise UnsafeSql(_unknown_function(name, dialect))


def _path_before(node: exp.Expr) -> tuple[str, ...] | None:
    """``("a", "b")`` for the call in ``a.b.f()``; None when nothing or a value stands before it."""
    parent = node.parent
    if isinstance(parent, exp.NetFunc):
        return ("net",)
    if not isinstance(parent, exp.Dot | exp.Table) or node.arg_key == "alias":
        return None
    if isinstance(parent, exp.Table):
        return tuple(part.name.lower() for part in parent.parts[:-1]) or None
    if parent.args.get("expression") is not node:
        return None
    return _identifiers(parent.this)


def _identifiers(node: Any) -> tuple[str, ...]:
    """The names of a dotted path; empty when it is a value, as in ``'a'.upper()``."""
    if isinstance(node, exp.Identifier):
        return (node.name.lower(),)
    if isinstance(node, exp.Dot | exp.Column):
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if len(parts) == len(node.parts):
            return tuple(part.name.lower() for part in parts)
    return ()


def _check_qualified(
    path: tuple[str, ...], name: str, dialect: str, allowed: frozenset[str], extra: frozenset[str]
) -> None:
    full = ".".join((*path, name))
    if full in allowed or full in extra or name in extra:
        return
    if name in allowed and (dialect == "duckdb" or path[-1] in NAMESPACES.get(dialect, ())):
        return  # in DuckDB, x.lower() is lower(x)
    if dialect == "tsql" and name in _XML_METHODS and "dbo" not in path:
        return
    raise UnsafeSql(_unknown_function(full, dialect))


def _sql_names(kind: Any) -> list[str]:
    return list(kind.sql_names())


def _check_dot(node: exp.Dot, dialect: str) -> None:
    """``schema.f(x)`` where sqlglot knows ``f``: the call may be somebody's own function."""
    call = node.expression
    if not isinstance(call, exp.Func) or type(call) in NAMED_FUNCTIONS:
        return
    path = _identifiers(node.this)
    if path and dialect != "duckdb" and path[-1] not in NAMESPACES.get(dialect, ()):
        raise UnsafeSql(_unknown_function(".".join((*path, call.sql_name().lower())), dialect))


def _check_forbidden(node: exp.Func, extra: frozenset[str]) -> None:
    names = {name.lower() for name in _sql_names(type(node))}
    if not names & extra:
        name = node.sql_name()
        what = WHAT_IT_IS.get(type(node).__name__, "reads files, calls a service or the session")
        raise UnsafeSql(f"the function {name} is not allowed: it {what}")


def _unknown_function(name: str, dialect: str) -> str:
    return (
        f"the function {name} is not on the list of functions that only compute ({dialect}); "
        "use a standard SQL function instead"
    )


# ---------------------------------------------------------------- functions that stand for a table


def _check_row_source(node: exp.Expr, dialect: str, extra: frozenset[str]) -> None:
    source = node.args.get("this")
    if isinstance(node, exp.TableFromRows) and not isinstance(source, exp.Func):
        raise UnsafeSql("TABLE(...) may only hold a function that computes rows, such as FLATTEN")
    _check_table_function(source, node, dialect, extra)


def _check_table_function(
    source: Any, holder: exp.Expr, dialect: str, extra: frozenset[str]
) -> None:
    if not isinstance(source, exp.Func):
        return
    typed = type(source) not in NAMED_FUNCTIONS
    name = source.sql_name().lower() if typed else _function_name(source)
    prefix = isinstance(holder, exp.Table) and ".".join(p.name.lower() for p in holder.parts[:-1])
    full = f"{prefix}.{name}" if prefix else name
    allowed = function_names(dialect).table
    own = name in allowed or type(source) in ROW_SOURCES
    own = own and (not prefix or prefix in NAMESPACES.get(dialect, ()))
    if not own and full not in extra and name not in extra:
        raise UnsafeSql(
            f"the table function {full} is not allowed; read tables, or one of: "
            + ", ".join(sorted(allowed))
        )


def _check_sequence(node: exp.Column) -> None:
    if node.table and node.name.lower() == "nextval" and not node.this.args.get("quoted"):
        raise UnsafeSql("only reading is allowed; NEXTVAL advances a sequence")


def _check_table_hint(node: exp.Expr) -> None:
    for hint in cast("Iterable[exp.Expr]", node.expressions):
        word = re.split(r"\W", hint.name or _excerpt(hint, "tsql"))[0].lower()
        if word not in HARMLESS_TABLE_HINTS:
            raise UnsafeSql(f"the table hint {word.upper()} locks or changes; leave it out")
