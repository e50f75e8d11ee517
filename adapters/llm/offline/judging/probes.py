"""Asking the warehouse again in another way than a step did.

A step grouped; the verifier counts through conditions over the whole table, and counts how many
groups stand above a claimed first. The refuter filters, groups and sorts instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from adapters.llm.offline.judging.rewriting import (
    Unsupported,
    base_of,
    by_condition,
    by_filter,
    sql_of,
)
from adapters.llm.offline.judging.steps import Step
from adapters.llm.offline.reading import number_of
from adapters.llm.offline.sqlshape import Shape
from adapters.llm.offline.sqltext import literal


@dataclass(frozen=True, slots=True)
class Scalar:
    """One figure of a step: an output of one row."""

    step: int
    row: int
    output: str


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many groups a step's query has."""

    step: int


@dataclass(frozen=True, slots=True)
class Beyond:
    """How many other groups stand at or above (1), or at or below (-1), a row by an output."""

    step: int
    row: int
    output: str
    direction: int


@dataclass(frozen=True, slots=True)
class Leader:
    """The best group by an output: its keys and its figure. Only the refuter asks for it."""

    step: int
    output: str
    direction: int
    part: str
    """A key's name, or the output's name."""
    skip: int = 0


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """The sum of an output over all groups."""

    step: int
    output: str


Probe = Scalar | GroupCount | Beyond | Leader | ColumnSum


@dataclass(frozen=True, slots=True)
class Part:
    """One probe of a query: what it selects from ('' for nothing), how, and under which name."""

    base: str
    expression: str
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    """One statement that answers several probes in one row."""

    parts: Mapping[Probe, Part]

    @property
    def sql(self) -> str:
        bases: dict[str, list[str]] = {}
        for part in self.parts.values():
            bases.setdefault(part.base, []).append(part.expression)
        selects = [f"SELECT {', '.join(outs)} {base}".strip() for base, outs in bases.items()]
        if len(selects) == 1:
            return selects[0]
        tables = [f"({s}) AS p{i}" for i, s in enumerate(selects, start=1)]
        return f"SELECT * FROM {' CROSS JOIN '.join(tables)}"

    def only(self, probes: Sequence[Probe]) -> Query:
        """The same statement cut down to some of its outputs; it gives the same cells."""
        return Query({p: part for p, part in self.parts.items() if p in probes})


def build(
    probes: Sequence[Probe], steps: Sequence[Step], *, refute: bool, clause: str = ""
) -> Query | None:
    """One query of one row for all probes that can be asked again; None when none can."""
    parts: dict[Probe, Part] = {}
    for probe in dict.fromkeys(probes):
        step = steps[probe.step]
        try:
            base, expression = _render(probe, step, refute, clause)
            _parses(f"SELECT {expression} {base}", step.dialect)
        except (Unsupported, SqlglotError, RecursionError):
            continue
        name = _name(probe, step, {p.name for p in parts.values()})
        quoted = exp.to_identifier(name, quoted=True).sql(dialect=step.dialect)
        parts[probe] = Part(base, f"{expression} AS {quoted}", name)
    return Query(parts) if parts else None


def _parses(sql: str, dialect: str) -> None:
    sqlglot.parse_one(sql, dialect=dialect)


def _name(probe: Probe, step: Step, taken: set[str]) -> str:
    match probe:
        case Scalar(row=row, output=output):
            keys = " ".join(str(v) for _, v in step.keys(row))
            name = f"{output} {keys}"
        case GroupCount():
            name = "groups"
        case Beyond(row=row, direction=direction):
            keys = " ".join(str(v) for _, v in step.keys(row))
            name = f"others {'above' if direction > 0 else 'below'} {keys}"
        case Leader(direction=direction, part=part, skip=skip):
            name = f"{'highest' if direction > 0 else 'lowest'} {skip + 1 if skip else ''} {part}"
        case ColumnSum(output=output):
            name = f"sum of {output}"
    name = re.sub(r"[^\w]+", "_", name).strip("_").lower()[:50] or "value"
    unique, n = name, 1
    while unique in taken:
        n += 1
        unique = f"{name}_{n}"
    return unique


def _render(probe: Probe, step: Step, refute: bool, clause: str) -> tuple[str, str]:
    """The base to select from ('' for a free-standing expression) and the expression."""
    shape = step.shape_of(probe.row if isinstance(probe, Scalar | Beyond) else None)
    if shape is None:
        raise Unsupported
    if isinstance(probe, GroupCount):
        gap = any(r.get(k.name) is None for r in step.rows for k in shape.keys)
        return _group_count(shape, refute or gap, clause)
    if isinstance(probe, Leader):
        return "", _leader(shape, probe, clause)
    output = shape.measure(probe.output)
    if output is None:
        raise Unsupported
    if isinstance(probe, ColumnSum):
        inner = _grouped(shape, f"{sql_of(output.expression, shape)} AS m", clause)
        return "", f"(SELECT SUM(g.m) FROM ({inner}) AS g)"
    if isinstance(probe, Beyond):
        return "", _beyond(shape, probe, step, output.expression, clause)
    condition = key_condition(shape, step.rows[probe.row])
    if refute:
        return "", sql_of(by_filter(output.expression, shape, condition, clause), shape)
    if shape.prefix:
        raise Unsupported
    rebuilt = by_condition(output.expression, condition, shape)
    return base_of(shape, clause), sql_of(rebuilt, shape)


def key_condition(shape: Shape, row: Mapping[str, Any], names: Sequence[str] = ()) -> str:
    """What selects one group, from its key expressions (or their ``names``) and its values."""
    parts: list[str] = []
    for i, key in enumerate(shape.keys):
        value = row.get(key.name)
        text = names[i] if names else sql_of(key.expression, shape)
        if value is None:
            parts.append(f"{text} IS NULL")
        elif isinstance(value, str) and _is_moment(key.expression, value):
            kind = "DATE" if len(value) == 10 else "TIMESTAMP"
            parts.append(f"CAST({text} AS {kind}) = CAST({literal(value)} AS {kind})")
        elif isinstance(value, str | bool | int | float):
            if isinstance(value, str) and value.endswith("…"):
                raise Unsupported
            parts.append(f"{text} = {literal(value, shape.dialect)}")
        else:
            raise Unsupported
    return " AND ".join(parts)


def _is_moment(expression: exp.Expr, value: str) -> bool:
    """A date that the row shows as text although its expression gives a date."""
    if not re.match(r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}:\d{2}.*)?$", value):
        return False
    textual = (exp.TimeToStr, exp.DPipe, exp.Concat, exp.ToChar)
    return not isinstance(expression, textual)


# ---------------------------------------------------------------- whole rankings


def _grouped(shape: Shape, outputs: str, clause: str) -> str:
    """The step's groups again, without its limit."""
    base = base_of(shape, clause)
    keys = ", ".join(sql_of(k.expression, shape) for k in shape.keys)
    having = f" HAVING {sql_of(shape.having, shape)}" if shape.having is not None else ""
    group = f" GROUP BY {keys}" if keys else ""
    return f"{shape.prefix}SELECT {outputs} {base}{group}{having}"


def _group_count(shape: Shape, refute: bool, clause: str) -> tuple[str, str]:
    if not shape.keys:
        raise Unsupported
    key = shape.keys[0].expression
    plain = len(shape.keys) == 1 and shape.having is None and not shape.prefix
    if plain and not refute:
        return base_of(shape, clause), f"COUNT(DISTINCT {sql_of(key, shape)})"
    inner = _grouped(shape, "COUNT(*) AS n", clause)
    return "", f"(SELECT COUNT(*) FROM ({inner}) AS g)"


def _unwindowed(node: exp.Expr) -> exp.Expr:
    """A measure that can be computed in a plain GROUP BY."""
    if node.find(exp.Window):
        raise Unsupported
    return node


def _beyond(shape: Shape, probe: Beyond, step: Step, node: exp.Expr, clause: str) -> str:
    if not shape.keys:
        raise Unsupported
    row = step.rows[probe.row]
    measure = sql_of(_unwindowed(node), shape)
    names = [f"k{i}" for i in range(len(shape.keys))]
    picked = [
        f"{sql_of(k.expression, shape)} AS {n}" for k, n in zip(shape.keys, names, strict=True)
    ]
    inner = _grouped(shape, ", ".join([f"{measure} AS m", *picked]), clause)
    own = f"({shape.prefix}SELECT {measure} {base_of(shape, clause, key_condition(shape, row))})"
    itself = key_condition(shape, row, [f"g.{n}" for n in names])
    sign = ">=" if probe.direction > 0 else "<="
    return f"(SELECT COUNT(*) FROM ({inner}) AS g WHERE g.m {sign} {own} AND NOT ({itself}))"


def _leader(shape: Shape, probe: Leader, clause: str) -> str:
    output = shape.measure(probe.output)
    if output is None or not shape.keys:
        raise Unsupported
    keys = [(f"k{i}", k) for i, k in enumerate(shape.keys)]
    picked = next((a for a, k in keys if k.name == probe.part), "m")
    columns = [f"{sql_of(_unwindowed(output.expression), shape)} AS m"]
    columns += [f"{sql_of(k.expression, shape)} AS {a}" for a, k in keys]
    inner = _grouped(shape, ", ".join(columns), clause)
    order = "DESC" if probe.direction > 0 else "ASC"
    ties = ", ".join(f"g.{a}" for a, _ in keys)
    tail = f" LIMIT 1 OFFSET {probe.skip}" if probe.skip else " LIMIT 1"
    if shape.dialect == "tsql":
        tail = f" OFFSET {probe.skip} ROWS FETCH NEXT 1 ROWS ONLY"
    return (
        f"(SELECT g.{picked} FROM ({inner}) AS g WHERE g.m IS NOT NULL"
        f" ORDER BY g.m {order}, {ties}{tail})"
    )


def value_in(row: Mapping[str, Any], name: str) -> float | int | None:
    """A figure of a returned row, whatever the case of its name."""
    if name in row:
        return number_of(row[name])
    for key, value in row.items():
        if key.lower() == name.lower():
            return number_of(value)
    return None
