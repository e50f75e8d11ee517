"""What a claim is about, read against one table: its figures, its measure, its filters."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise

from adapters.llm.offline.judging.claims import Figure, figures_in
from adapters.llm.offline.openclaims.lexicon import (
    Reading,
    best_column,
    measurable,
    words_in,
)
from adapters.llm.offline.openclaims.meaning import Condition, Metric
from adapters.llm.offline.openclaims.vocabulary import (
    AGGREGATES,
    LATE,
    MISSING,
    NUMBER_WORDS,
    ROW_NOUNS,
    UNITS,
)
from adapters.llm.offline.roles import same_word, singular
from adapters.llm.offline.schema import Column, Kind, TableInfo
from adapters.llm.offline.sqltext import literal, quote

_HALF = re.compile(r"\b(half|a third|one third|a quarter|one quarter)\b", re.IGNORECASE)
_FRACTIONS = {"half": "50", "third": "33.3", "quarter": "25"}


class Subject:
    """One claim against one table."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.table: TableInfo = reading.table
        self.text = reading.text
        self.masked = self._masked()
        self.figures: list[Figure] = figures_in(self.masked) or self._written_numbers()

    def _masked(self) -> str:
        """The text without its values, so that years and codes are not read as figures."""
        masked = self.text
        for value in self.reading.values:
            end = value.start + len(value.text)
            masked = masked[: value.start] + "\ue000" * len(value.text) + masked[end:]
        return masked

    def _written_numbers(self) -> list[Figure]:
        """Numbers and fractions written as words."""
        half = _HALF.search(self.masked)
        if half and not re.search(r"more than\s+$", self.masked[: half.start()], re.IGNORECASE):
            value = Decimal(_FRACTIONS[half.group(1).lower().split()[-1]])
            return [Figure(value, half.start(), half.end(), 0, True, True, "")]
        for word, at in words_in(self.masked):
            definite = re.search(r"\b(the|these|those|all)\s+$", self.masked[:at], re.IGNORECASE)
            end = at + len(word)
            if word in NUMBER_WORDS and not definite and self.counted(end) is not None:
                return [Figure(Decimal(NUMBER_WORDS[word]), at, end, 0, False, False, "")]
        return []

    # ------------------------------------------------------------ what is measured

    def metric(self, near: int | None = None) -> Metric | None:
        """An aggregate of a named column, a count of gaps, or rows; None if it cannot be told."""
        kind = next((k for p, k in AGGREGATES if p.search(self.masked)), "")
        column = best_column(self.reading, numeric=True, near=near)
        if kind and column is not None:
            return Metric(kind, column.name)
        if kind in {"avg", "median"}:
            return None
        if MISSING.search(self.masked):
            gap = self.missing_column()
            return Metric("missing", gap.name) if gap is not None else None
        return Metric("count")

    def missing_column(self) -> Column | None:
        """The column whose gaps the claim speaks of."""
        spot = MISSING.search(self.masked)
        if spot is None:
            return None
        ahead = spot.group(0).lower().startswith(("ha", "no", "without", "lack"))
        return best_column(self.reading, numeric=False, near=spot.end() if ahead else spot.start())

    def counts_rows(self) -> bool:
        """The claim counts rows of the table rather than comparing a measure."""
        spoken = {singular(w) for w, _ in words_in(self.masked)}
        counted = {singular(self.table.bare), *ROW_NOUNS}
        scores = {n: s for n, s in self.reading.columns.items() if self._numeric(n)}
        spelled = any(s >= 1.0 for s in scores.values())
        return (bool(spoken & counted) and not spelled) or not scores

    def _numeric(self, name: str) -> bool:
        column = self.table.column(name)
        return column is not None and measurable(column, self.table)

    def counted(self, end: int) -> Metric | None:
        """What follows a number: the table's rows, or the distinct values of a column."""
        for word, _ in words_in(self.masked[end:])[:3]:
            if singular(word) in {singular(self.table.bare), *ROW_NOUNS}:
                return Metric("count")
            if word in UNITS:
                return None
            for column in self.table.columns:
                exact = len(column.words) == 1 and same_word(column.words[0], word)
                if exact and column.kind is not Kind.FLOAT:
                    return Metric("distinct", column.name)
        return None

    # ------------------------------------------------------------ filters

    def flags(self) -> list[Condition]:
        """Boolean columns that the claim names: their rows are the ones meant."""
        return [
            Condition(f"t.{quote(c.name)} = TRUE", c.name)
            for c in self.table.columns
            if c.kind is Kind.BOOLEAN and self.reading.columns.get(c.name, 0) >= 1.0
        ]

    def bounds(self, others: list[Figure]) -> list[Condition] | None:
        """Thresholds on a measure: ``more than 60 minutes late``; ``late`` alone is above zero.
        None when a number of the claim stays unexplained."""
        if self._spelled_quantity():
            return None
        column = best_column(self.reading, numeric=True)
        found: list[Condition] = []
        for figure in others:
            if column is None or not figure.comparator or figure.percent:
                return None
            bound = f"t.{quote(column.name)} {figure.comparator} {literal(float(figure.value))}"
            found.append(Condition(bound, column.name))
        if not found and LATE.search(self.masked):
            if column is None:
                return None
            found.append(Condition(f"t.{quote(column.name)} > 0", column.name))
        return found

    def _spelled_quantity(self) -> bool:
        """``two hours``: a quantity in words, which no filter here expresses."""
        spoken = [w for w, _ in words_in(self.masked)]
        return any(a in NUMBER_WORDS and b in UNITS for a, b in pairwise(spoken))
