"""Checks: what must hold for a claim, over figures that can be asked for again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from adapters.llm.offline.judging.claims import Figure
from adapters.llm.offline.judging.probes import (
    Beyond,
    ColumnSum,
    GroupCount,
    Leader,
    Probe,
    Scalar,
)

Values = Mapping[Probe, float | int | None]


class Outcome(StrEnum):
    EXACT = "exact"
    ROUNDED = "rounded"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Formula(StrEnum):
    CELL = "cell"
    CHANGE = "change in per cent"
    DIFFERENCE = "difference"
    SHARE = "share in per cent"
    TIMES = "ratio"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class FigureCheck:
    """A number in the text must be what its formula gives."""

    figure: Figure
    formula: Formula
    probes: tuple[Probe, ...]
    unsigned: bool = False
    """Per cents of a rise or a fall are written without a sign."""

    def outcome(self, values: Values) -> Outcome:
        actual = self.actual(values)
        if actual is None:
            return Outcome.UNKNOWN
        if self.unsigned:
            actual = abs(actual)
        agreed = self.figure.agrees(actual)
        return Outcome(agreed) if agreed else Outcome.WRONG

    def actual(self, values: Values) -> float | int | None:
        """What the figures amount to, or None when one of them is missing."""
        numbers = [values.get(p) for p in self.probes]
        known = [n for n in numbers if n is not None]
        if len(known) != len(numbers) or not known:
            return None
        return _compute(self.formula, known)


def _compute(formula: Formula, numbers: list[float | int]) -> float | int | None:
    if formula is Formula.CELL:
        return numbers[0]
    if formula is Formula.SUM:
        return sum(numbers)
    first, last = numbers[0], numbers[-1]
    if formula is Formula.DIFFERENCE:
        return round(last - first, 6)
    if first == 0:
        return None
    if formula is Formula.CHANGE:
        return (last - first) / first * 100
    return last / first * (100 if formula is Formula.SHARE else 1)


@dataclass(frozen=True, slots=True)
class RankCheck:
    """A claimed first, second … or last must have that many groups before it, no more, no less."""

    beyond: Beyond
    above: int
    leaders: tuple[Leader, ...]

    @property
    def probes(self) -> tuple[Probe, ...]:
        return (self.beyond,)

    def outcome(self, values: Values) -> Outcome:
        count = values.get(self.beyond)
        if count is None:
            return Outcome.UNKNOWN
        return Outcome.EXACT if count == self.above else Outcome.WRONG


@dataclass(frozen=True, slots=True)
class MovementCheck:
    """A rise must rise and a fall must fall, between two rows."""

    first: Scalar
    last: Scalar
    direction: int

    @property
    def probes(self) -> tuple[Probe, ...]:
        return (self.first, self.last)

    def outcome(self, values: Values) -> Outcome:
        before, after = values.get(self.first), values.get(self.last)
        if before is None or after is None:
            return Outcome.UNKNOWN
        return Outcome.EXACT if (after - before) * self.direction > 0 else Outcome.WRONG


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The text itself names something that the rows do not have, or contradicts itself; ``probe``
    shows what they have."""

    probe: Probe
    reason: str
    holds: bool = False
    """True when there is none: the rows were looked at and agree."""

    @property
    def probes(self) -> tuple[Probe, ...]:
        return (self.probe,)

    def outcome(self, values: Values) -> Outcome:
        if values.get(self.probe) is None:
            return Outcome.UNKNOWN
        return Outcome.EXACT if self.holds else Outcome.WRONG


Check = FigureCheck | RankCheck | MovementCheck | Contradiction

__all__ = [
    "Check",
    "ColumnSum",
    "Contradiction",
    "FigureCheck",
    "Formula",
    "GroupCount",
    "MovementCheck",
    "Outcome",
    "RankCheck",
    "Values",
]
