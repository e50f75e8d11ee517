"""What a claim says, as a check over cells that one query can compute."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.llm.offline.judging.claims import Figure
from adapters.llm.offline.reading import Json, number_of
from adapters.llm.offline.schema import TableInfo
from adapters.llm.offline.sqltext import quote, table_ref


@dataclass(frozen=True, slots=True)
class Metric:
    """``count``, ``distinct``, ``missing``, ``avg``, ``sum``, ``min``, ``max`` or ``median``."""

    kind: str
    column: str = ""

    def over(self, condition: str = "") -> str:
        """The aggregate over the rows that meet a condition, as a conditional aggregate."""
        column = f"t.{quote(self.column)}"
        if self.kind in {"count", "missing"}:
            wanted = [c for c in (condition, self._missing()) if c]
            return f"COUNT(CASE WHEN {' AND '.join(wanted)} THEN 1 END)" if wanted else "COUNT(*)"
        inner = f"CASE WHEN {condition} THEN {column} END" if condition else column
        return self._aggregate(inner)

    def plain(self) -> str:
        """The aggregate inside a query whose WHERE and GROUP BY do the selecting."""
        if self.kind == "count":
            return "COUNT(*)"
        if self.kind == "missing":
            return f"COUNT(*) - COUNT(t.{quote(self.column)})"
        return self._aggregate(f"t.{quote(self.column)}")

    def _missing(self) -> str:
        return f"t.{quote(self.column)} IS NULL" if self.kind == "missing" else ""

    def _aggregate(self, inner: str) -> str:
        if self.kind == "distinct":
            return f"COUNT(DISTINCT {inner})"
        if self.kind == "median":
            return f"PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {inner})"
        function = self.kind.upper()
        return f"CAST({function}({inner}) AS DOUBLE)"


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter, and whether the data must have rows of it for the claim to mean anything."""

    sql: str
    label: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric over some rows of a table: one cell."""

    table: TableInfo
    metric: Metric
    conditions: tuple[Condition, ...] = ()

    def sql(self, *, refute: bool) -> str:
        """A scalar subquery: conditions inside the aggregate, or in WHERE for the refuter."""
        where = " AND ".join(c.sql for c in self.conditions)
        source = f"FROM {table_ref(self.table)} AS t"
        if refute:
            suffix = f" WHERE {where}" if where else ""
            return f"(SELECT {self.metric.plain()} {source}{suffix})"
        return f"(SELECT {self.metric.over(where)} {source})"


@dataclass(frozen=True, slots=True)
class RankOf:
    """How many groups stand at or above (or below) the group of a condition, itself left out."""

    table: TableInfo
    metric: Metric
    group: str
    """The group key, an expression over ``t``."""
    subject: Condition
    conditions: tuple[Condition, ...]
    direction: int

    def sql(self) -> str:
        source = f"FROM {table_ref(self.table)} AS t"
        rest = " AND ".join([f"{self.group} IS NOT NULL", *(c.sql for c in self.conditions)])
        own_rows = " AND ".join([self.subject.sql, *(c.sql for c in self.conditions)])
        own = f"(SELECT {self.metric.plain()} {source} WHERE {own_rows})"
        groups = (
            f"SELECT {self.group} AS k, {self.metric.plain()} AS m {source} WHERE {rest}"
            f" AND NOT ({self.subject.sql}) GROUP BY {self.group}"
        )
        sign = ">=" if self.direction > 0 else "<="
        return f"(SELECT COUNT(*) FROM ({groups}) AS g WHERE g.m {sign} {own})"


Cell = Measured | RankOf


@dataclass(frozen=True, slots=True)
class Equal:
    """A figure of the claim against one cell, or one cell in per cent of another."""

    figure: Figure
    cell: Cell
    whole: Cell | None = None

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.cell,) if self.whole is None else (self.cell, self.whole)

    def outcome(self, numbers: list[float | int | None]) -> str:
        value = numbers[0]
        if self.whole is not None and value is not None:
            whole = numbers[1]
            value = value / whole * 100 if whole else None
        if value is None:
            return ""
        agreed = self.figure.agrees(value)
        return agreed or "wrong"


@dataclass(frozen=True, slots=True)
class Compare:
    """The first cell must be larger (1) or smaller (-1) than the second."""

    first: Cell
    second: Cell
    direction: int

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.first, self.second)

    def outcome(self, numbers: list[float | int | None]) -> str:
        first, second = numbers
        if first is None or second is None:
            return ""
        return "exact" if (first - second) * self.direction > 0 else "wrong"


@dataclass(frozen=True, slots=True)
class Same:
    """Both cells must be equal."""

    first: Cell
    second: Cell

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.first, self.second)

    def outcome(self, numbers: list[float | int | None]) -> str:
        first, second = numbers
        if first is None or second is None:
            return ""
        return "exact" if first == second else "wrong"


@dataclass(frozen=True, slots=True)
class First:
    """As many other groups as claimed, mostly none, may stand level with the subject or beyond."""

    rank: RankOf
    above: int = 0

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.rank,)

    def outcome(self, numbers: list[float | int | None]) -> str:
        if numbers[0] is None:
            return ""
        return "exact" if numbers[0] == self.above else "wrong"


@dataclass(frozen=True, slots=True)
class Share:
    """All (1.0), most (0.5) or none (0.0) of the whole."""

    part: Cell
    whole: Cell
    level: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.part, self.whole)

    def outcome(self, numbers: list[float | int | None]) -> str:
        part, whole = numbers
        if part is None or not whole:
            return ""
        ratio = part / whole
        holds = ratio == self.level if self.level in {0.0, 1.0} else ratio > self.level
        return "exact" if holds else "wrong"


Check = Equal | Compare | Same | First | Share


@dataclass(frozen=True, slots=True)
class Meaning:
    """One way to read a claim. ``present`` are rows that must exist for it to make sense."""

    checks: tuple[Check, ...]
    present: tuple[Measured, ...] = ()

    @property
    def cells(self) -> list[Cell]:
        found: list[Cell] = [*self.present]
        for check in self.checks:
            found += check.cells
        return list(dict.fromkeys(found))

    def outcome(self, row: Json, names: dict[Cell, str]) -> str:
        """``exact``, ``rounded``, ``wrong``, or '' when the row does not settle it."""

        def value(cell: Cell) -> float | int | None:
            return number_of(row.get(names.get(cell, "")))

        if any(not value(p) for p in self.present):
            return ""
        found = [check.outcome([value(c) for c in check.cells]) for check in self.checks]
        if "wrong" in found:
            return "wrong"
        if not found or "" in found:
            return ""
        return "rounded" if "rounded" in found else "exact"
