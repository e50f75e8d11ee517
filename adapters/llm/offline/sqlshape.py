"""What a step's SQL is made of: where rows come from, what groups them, what is measured.

A ``UNION ALL`` gives one shape a branch. SQL that cannot be read gives no shape, and whoever asks
falls back to the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


class Measure(StrEnum):
    """What an output amounts to."""

    ROWS = "rows"
    """A count of rows, with or without a condition."""
    DISTINCT = "distinct"
    AVERAGE = "average"
    SUM = "sum"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    PERCENTILE = "percentile"
    SHARE = "share"
    """A percentage or a ratio of two figures."""
    WHOLE = "whole"
    """The same figure over all groups: a window without partition."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    expression: exp.Expr
    measure: Measure
    columns: tuple[str, ...]
    """Names of the columns it reads."""


@dataclass(frozen=True, slots=True)
class Shape:
    dialect: str
    source: str
    """``FROM …`` with joins, in the dialect."""
    tables: tuple[str, ...]
    """Bare names of the tables it reads."""
    where: exp.Expr | None
    keys: tuple[Output, ...]
    labels: tuple[str, ...]
    """Outputs that only name a key."""
    measures: tuple[Output, ...]
    literals: dict[str, Any] = field(default_factory=dict[str, Any])
    """Constant outputs: what tells the branches of a union apart."""
    having: exp.Expr | None = None
    limit: int | None = None
    prefix: str = ""
    """``WITH …`` when the statement has common table expressions."""

    def measure(self, name: str) -> Output | None:
        return next((m for m in self.measures if m.name == name), None)

    @property
    def grouped(self) -> bool:
        return bool(self.keys)


def read_shapes(sql: str, dialect: str) -> tuple[Shape, ...]:
    """The shapes of a statement's branches, or nothing when it cannot be read."""
    try:
        tree = sqlglot.parse_one(sql, dialect=dialect)
    except (SqlglotError, RecursionError, ValueError):
        return ()
    selects = _branches(tree)
    limit = _limit(tree)
    with_ = tree.args.get("with_") or tree.args.get("with")
    prefix = with_.sql(dialect=dialect) + " " if isinstance(with_, exp.Expr) else ""
    found = [_shape(s, dialect, limit, prefix) for s in selects]
    return tuple(s for s in found if s is not None)


def _branches(tree: exp.Expr) -> list[exp.Select]:
    if isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.Union):
        branches: list[exp.Select] = []
        for side in (tree.this, tree.expression):
            if isinstance(side, exp.Subquery):
                side = side.this
            if isinstance(side, exp.Expr):
                branches += _branches(side)
        return branches
    return []


def _limit(tree: exp.Expr) -> int | None:
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit):
        size = limit.expression
    elif isinstance(limit, exp.Fetch):
        size = limit.args.get("count")
    else:
        return None
    return int(size.this) if isinstance(size, exp.Literal) and not size.is_string else None


def _shape(select: exp.Select, dialect: str, limit: int | None, prefix: str) -> Shape | None:
    from_ = select.args.get("from_") or select.args.get("from")
    if not isinstance(from_, exp.Expr) or select.args.get("distinct") or select.args.get("qualify"):
        return None
    joins = cast("list[exp.Join]", select.args.get("joins") or [])
    source = " ".join([from_.sql(dialect=dialect), *(j.sql(dialect=dialect) for j in joins)])
    names = [t.name for t in select.find_all(exp.Table)]
    where = select.args.get("where")
    having = select.args.get("having")
    grouped = _group_expressions(select)
    keys: list[Output] = []
    labels: list[str] = []
    measures: list[Output] = []
    literals: dict[str, Any] = {}
    for item in select.expressions:
        name = item.alias_or_name
        body = item.this if isinstance(item, exp.Alias) else item
        constant = _constant(body)
        if constant is not None:
            literals[name] = constant
        elif any(body == g for g in grouped):
            keys.append(_output(name, body))
        elif isinstance(body, exp.Subquery):
            labels.append(name)
        elif body.find(exp.AggFunc) or body.find(exp.Window):
            measures.append(_output(name, body))
        elif grouped:
            labels.append(name)
        else:
            return None
    return Shape(
        dialect,
        source,
        tuple(dict.fromkeys(names)),
        where.this if isinstance(where, exp.Where) else None,
        tuple(keys),
        tuple(labels),
        tuple(measures),
        literals,
        having.this if isinstance(having, exp.Having) else None,
        limit,
        prefix,
    )


def _group_expressions(select: exp.Select) -> list[exp.Expr]:
    """Group keys as expressions; positions and output names are resolved."""
    group = select.args.get("group")
    if not isinstance(group, exp.Group):
        return []
    outputs = {i.alias: i.this for i in select.expressions if isinstance(i, exp.Alias)}
    if group.args.get("all"):
        return [
            i.this if isinstance(i, exp.Alias) else i
            for i in select.expressions
            if not (i.find(exp.AggFunc) or i.find(exp.Window))
        ]
    found: list[exp.Expr] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            position = int(key.this) - 1
            if 0 <= position < len(select.expressions):
                item = select.expressions[position]
                key = item.this if isinstance(item, exp.Alias) else item
        elif isinstance(key, exp.Column) and not key.table and key.name in outputs:
            aliased = outputs[key.name]
            key = key if aliased == key else aliased
        found.append(key)
    return found


def _constant(body: exp.Expr) -> Any:
    if isinstance(body, exp.Literal):
        return body.this if body.is_string else float(body.this)
    return None


def _output(name: str, body: exp.Expr) -> Output:
    columns = tuple(dict.fromkeys(c.name for c in body.find_all(exp.Column)))
    return Output(name, body, measure_of(body), columns)


def measure_of(body: exp.Expr) -> Measure:
    """Classify an aggregate expression; rounding and casts are looked through."""
    node = strip(body)
    if isinstance(node, exp.Window):
        return Measure.WHOLE
    if isinstance(node, exp.Div) or (isinstance(node, exp.Mul) and node.find(exp.Div)):
        return Measure.SHARE
    if isinstance(node, exp.Sub | exp.Add) and all(
        measure_of(side) is Measure.ROWS for side in (node.left, node.right)
    ):
        return Measure.ROWS
    if isinstance(node, exp.Filter):
        return measure_of(node.this)
    if isinstance(node, exp.Count):
        return Measure.DISTINCT if isinstance(node.this, exp.Distinct) else Measure.ROWS
    if isinstance(node, exp.CountIf):
        return Measure.ROWS
    if isinstance(node, exp.Sum):
        return Measure.ROWS if _counts(node.this) else Measure.SUM
    if isinstance(node, exp.WithinGroup):
        return Measure.PERCENTILE
    for kind, measure in (
        (exp.Avg, Measure.AVERAGE),
        (exp.Min, Measure.MINIMUM),
        (exp.Max, Measure.MAXIMUM),
        (exp.Median, Measure.PERCENTILE),
        (exp.PercentileCont, Measure.PERCENTILE),
        (exp.PercentileDisc, Measure.PERCENTILE),
        (exp.Quantile, Measure.PERCENTILE),
        (exp.ApproxQuantile, Measure.PERCENTILE),
    ):
        if isinstance(node, kind):
            return measure
    return Measure.OTHER


def _counts(body: Any) -> bool:
    """True for ``CASE WHEN … THEN 1 ELSE 0 END``, which makes a sum a count."""
    if isinstance(body, exp.Literal):
        return body.this == "1"
    if not isinstance(body, exp.Case):
        return False
    ifs = cast("list[exp.If]", body.args.get("ifs") or [])
    results: list[Any] = [i.args.get("true") for i in ifs]
    if body.args.get("default") is not None:
        results.append(body.args["default"])
    return all(isinstance(r, exp.Literal | exp.Null) and r.name in {"1", "0", ""} for r in results)


def strip(body: exp.Expr) -> exp.Expr:
    """Look through parentheses, casts, rounding and ``COALESCE(…, 0)``."""
    while isinstance(body, exp.Paren | exp.Cast | exp.TryCast | exp.Round | exp.Coalesce):
        body = body.this
    return body


def literals_in(shapes: Sequence[Shape]) -> list[float]:
    """Numbers that the SQL itself spells out: thresholds, limits, percentiles."""
    found: list[float] = []
    for shape in shapes:
        parts = [m.expression for m in shape.measures]
        parts += [p for p in (shape.where, shape.having) if p is not None]
        for part in parts:
            found += [float(n.this) for n in part.find_all(exp.Literal) if not n.is_string]
        if shape.limit is not None:
            found.append(float(shape.limit))
    return found
