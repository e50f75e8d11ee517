"""Caveats that the text of a query puts on its result."""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp

from pipeline.errors import UnsafeSql
from pipeline.records import Quality, QualityKind
from pipeline.sql.script import one_query


def query_caveats(
    sql: str, dialect: str, rows_returned: int, *, cut: Quality | None = None
) -> tuple[Quality, ...]:
    """What the text of ``sql`` says about its result: that its own cap ended it, that it read a
    sample. ``cut`` is the caveat of a cap of ours, which then ended the result first."""
    tree = _tree(sql, dialect)
    found = (cut or _truncated(tree, rows_returned), _sampled(tree))
    return tuple(caveat for caveat in found if caveat is not None)


def row_cap(sql: str, dialect: str, rows_returned: int) -> Quality | None:
    """A ``truncated`` caveat when the query's own cap is what ended its result, else None.

    Caps are LIMIT n, SELECT TOP n (not PERCENT, not WITH TIES), FETCH FIRST n ROWS ONLY (not WITH
    TIES) and ``ROWNUM <= n`` of the outermost query; a cap counts when n rows came back. A cap of
    one row is an answer ("the largest"), yet it is named all the same: other rows may exist.
    """
    return _truncated(_tree(sql, dialect), rows_returned)


def _sampled(tree: exp.Expr | None) -> Quality | None:
    samples: list[exp.TableSample] = []
    if tree is not None:
        samples.extend(tree.find_all(exp.TableSample))
    if all(_is_whole(sample) for sample in samples):
        return None
    return Quality(
        kind=QualityKind.SAMPLED,
        detail="the query read a random sample of a table; counts and sums are of the sample only",
    )


def _is_whole(sample: exp.TableSample) -> bool:
    return _number(sample.args.get("percent")) == 100


def _tree(sql: str, dialect: str) -> exp.Expr | None:
    try:
        return one_query(sql, dialect)
    except (UnsafeSql, ValueError):
        return None


def _truncated(tree: exp.Expr | None, rows_returned: int) -> Quality | None:
    cap = _cap(tree)
    if cap is None or cap != rows_returned or rows_returned == 0:
        return None
    return Quality(
        kind=QualityKind.TRUNCATED,
        detail=f"the query asked for at most {cap} rows and got {cap}; more may exist",
    )


def _cap(tree: Any) -> int | None:
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
    limits = [_rownum_limit(part) for part in cast("list[Any]", list(parts))]
    found = [limit for limit in limits if limit is not None]
    return min(found) if found else None


def _rownum_limit(part: Any) -> int | None:
    """The cap that ``ROWNUM <= n``, ``n >= ROWNUM``, ``ROWNUM < n`` or ``ROWNUM = 1`` sets."""
    if not isinstance(part, exp.LTE | exp.LT | exp.GTE | exp.GT | exp.EQ):
        return None
    turned = isinstance(part, exp.GTE | exp.GT)
    name, number = (part.expression, part.this) if turned else (part.this, part.expression)
    limit = _number(number) if name.name.upper() == "ROWNUM" else None
    if limit is None or (isinstance(part, exp.EQ) and limit != 1):
        return None
    return limit - 1 if isinstance(part, exp.LT | exp.GT) else limit


def _number(node: Any) -> int | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string:
        text = str(node.this)
        return int(text) if text.isdigit() else None
    return None
