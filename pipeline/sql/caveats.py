"""Caveats that the text of a query puts on its result."""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from pipeline.records import Quality, QualityKind


def row_cap(sql: str, dialect: str, rows_returned: int) -> Quality | None:
    """A ``truncated`` caveat when the query's own cap is what ended its result, else None.

    Caps are LIMIT n, SELECT TOP n (not PERCENT, not WITH TIES), FETCH FIRST n ROWS ONLY (not WITH
    TIES) and ``ROWNUM <= n`` of the outermost query; a cap counts when n rows came back. A cap of
    one row is an answer ("the largest"), yet it is named all the same: other rows may exist.
    """
    cap = _cap(sql, dialect)
    if cap is None or cap != rows_returned or rows_returned == 0:
        return None
    return Quality(
        kind=QualityKind.TRUNCATED,
        detail=f"the query asked for at most {cap} rows and got {cap}; more may exist",
    )


def _cap(sql: str, dialect: str) -> int | None:
    try:
        tree = Dialect.get_or_raise(dialect).parse(sql)[0]
    except (SqlglotError, ValueError, RecursionError, IndexError):
        return None
    while isinstance(tree, exp.Subquery) and tree.args.get("limit") is None:
        tree = tree.this
    if not isinstance(tree, exp.Query):
        return None
    caps = [cap for cap in (_limit(tree.args.get("limit")), _rownum(tree)) if cap is not None]
    return min(caps) if caps else None


def _limit(node: Any) -> int | None:
    if isinstance(node, exp.Limit):
        options = node.args.get("limit_options")
        return None if _open_ended(options) else _number(node.expression)
    if isinstance(node, exp.Fetch):
        count = node.args.get("count")
        if _open_ended(node.args.get("limit_options")):
            return None
        return 1 if count is None else _number(count)
    return None


def _open_ended(options: Any) -> bool:
    if not isinstance(options, exp.Expr):
        return False
    return bool(options.args.get("percent") or options.args.get("with_ties"))


def _rownum(tree: exp.Query) -> int | None:
    where = tree.args.get("where")
    if not isinstance(where, exp.Where):
        return None
    parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    for part in cast("list[Any]", list(parts)):
        if isinstance(part, exp.LTE | exp.LT) and part.this.name.upper() == "ROWNUM":
            limit = _number(part.expression)
            if limit is not None:
                return limit if isinstance(part, exp.LTE) else limit - 1
    return None


def _number(node: Any) -> int | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string:
        text = str(node.this)
        return int(text) if text.isdigit() else None
    return None
