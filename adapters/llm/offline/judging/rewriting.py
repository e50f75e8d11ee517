"""Rewriting a measure: the verifier's conditions inside aggregates, the refuter's subqueries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import sqlglot
from sqlglot import exp

from adapters.llm.offline.sqlshape import Shape


class Unsupported(Exception):
    """The figure cannot be asked for again from its step's SQL."""


def sql_of(node: exp.Expr, shape: Shape) -> str:
    return node.sql(dialect=shape.dialect)


def base_of(shape: Shape, clause: str, *conditions: str) -> str:
    """``FROM … WHERE …`` with the step's own filter, the tenant's and more."""
    parts = [f"({sql_of(shape.where, shape)})"] if shape.where is not None else []
    parts += [f"({clause})"] if clause and clause not in shape.source else []
    parts += [c for c in conditions if c]
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    return f"{shape.source}{where}"


# ---------------------------------------------------------------- the verifier's way


def by_condition(node: exp.Expr, condition: str, shape: Shape) -> exp.Expr:
    """The measure over the whole base: aggregates see only rows that meet the condition."""
    wanted = sqlglot.parse_one(condition, dialect=shape.dialect) if condition else None
    return _rebuild(node, lambda agg, inside: _conditional(agg, wanted if inside else None))


def _rebuild(
    node: exp.Expr, change: Callable[[exp.Expr, bool], exp.Expr], inside: bool = True
) -> exp.Expr:
    """Replace every aggregate; a window over all groups becomes its aggregate unfiltered."""
    if isinstance(node, exp.Window):
        outer = node.this
        if node.args.get("partition_by") or node.args.get("order"):
            raise Unsupported
        if not isinstance(outer, exp.Sum) or not outer.this.find(exp.AggFunc):
            raise Unsupported
        return _rebuild(outer.this, change, inside=False)
    if isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter):
        return change(node, inside)
    if isinstance(node, exp.Column | exp.Subquery):
        raise Unsupported
    copy = node.copy()
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, _rebuild(value, change, inside))
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            copy.set(
                key,
                [_rebuild(v, change, inside) if isinstance(v, exp.Expr) else v for v in items],
            )
    return copy


def _when(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """The value where the condition holds, NULL elsewhere."""
    if condition is None:
        return value.copy()
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def _and(*conditions: exp.Expr | None) -> exp.Expr | None:
    kept = [c for c in conditions if c is not None]
    return exp.and_(*[c.copy() for c in kept]) if kept else None


def _conditional(agg: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    if isinstance(agg, exp.Filter):
        where = agg.expression
        extra = where.this if isinstance(where, exp.Where) else None
        return _conditional(agg.this, _and(condition, extra))
    if isinstance(agg, exp.WithinGroup):
        copy = agg.copy()
        for ordered in copy.find_all(exp.Ordered):
            ordered.set("this", _when(condition, ordered.this))
        return copy
    inner = agg.this
    if isinstance(agg, exp.Count):
        return _conditional_count(inner, condition)
    if not isinstance(inner, exp.Expr) or isinstance(inner, exp.Distinct):
        raise Unsupported
    if isinstance(agg, exp.Avg):
        total = exp.Sum(this=_when(condition, exp.cast(inner.copy(), "DOUBLE")))
        count = exp.Count(this=_when(condition, inner))
        zero = exp.Literal.number(0)
        return exp.Paren(
            this=exp.Div(this=total, expression=exp.Nullif(this=count, expression=zero))
        )
    copy = agg.copy()
    copy.set("this", _when(condition, inner))
    return copy


def _conditional_count(inner: Any, condition: exp.Expr | None) -> exp.Expr:
    one = exp.Literal.number(1)
    if isinstance(inner, exp.Star | exp.Literal):
        return exp.Count(this=exp.Star() if condition is None else _when(condition, one))
    if isinstance(inner, exp.Distinct):
        values = [_when(condition, v) for v in inner.expressions]
        return exp.Count(this=exp.Distinct(expressions=values))
    if not isinstance(inner, exp.Expr):
        raise Unsupported
    if isinstance(inner, exp.Case):
        return exp.Count(this=_when(condition, inner))
    present = exp.Not(this=exp.Is(this=inner.copy(), expression=exp.Null()))
    return exp.Count(this=_when(_and(condition, present), one))


# ---------------------------------------------------------------- the refuter's way


def by_filter(node: exp.Expr, shape: Shape, condition: str, clause: str) -> exp.Expr:
    """The measure from subqueries, each with its condition in WHERE."""

    def subquery(agg: exp.Expr, inside: bool) -> exp.Expr:
        conditions = [condition] if condition and inside else []
        counted = _counted_condition(agg)
        if counted is not None:
            conditions.append(sql_of(counted, shape))
            agg = exp.Count(this=exp.Star())
        base = base_of(shape, clause, *conditions)
        text = f"({shape.prefix}SELECT {sql_of(agg, shape)} {base})"
        return sqlglot.parse_one(text, dialect=shape.dialect)

    return _rebuild(node, subquery)


def _counted_condition(agg: exp.Expr) -> exp.Expr | None:
    """The condition of ``COUNT(CASE WHEN c THEN 1 END)`` or of ``COUNT(x)``, for a WHERE."""
    if not isinstance(agg, exp.Count):
        return None
    inner = agg.this
    if isinstance(inner, exp.Case) and inner.this is None and inner.args.get("default") is None:
        ifs = cast("list[exp.If]", inner.args.get("ifs") or [])
        if len(ifs) == 1 and isinstance(ifs[0].args.get("true"), exp.Literal):
            return ifs[0].this
    if isinstance(inner, exp.Column):
        return exp.Not(this=exp.Is(this=inner.copy(), expression=exp.Null()))
    return None
