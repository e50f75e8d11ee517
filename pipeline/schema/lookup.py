"""Which table a name means, and how much of a table a prompt shows."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pipeline.records import Table
from pipeline.schema.catalog import one_line
from pipeline.schema.names import bare, composed, pieces

MAX_COLUMNS, MAX_SAMPLES, MAX_CHARS = 50, 3, 80
MAX_NEAR = 5
UNREADABLE = "It cannot be read: "
"""How the description of a looked-up table begins whose sample rows could not be read."""
_LIKELY = 40
"""Names that are compared in full; the rest share too few pairs of letters."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The table that a name means, or names that exist and look like it."""

    table: Table | None
    near: list[str] = field(default_factory=list[str])


class TableNames:
    """Finds tables by name. Made once for many names: a warehouse may have thousands of tables.

    Of several datasources the first wins where names are equal: give the primary's tables first.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._written: dict[str, Table] = {}
        self._shown: dict[str, Table] = {}
        for table in tables:
            self._written.setdefault(table.name, table)
            self._shown.setdefault(one_line(table.name).strip(), table)
        self._spelt = (_Spellings(tables, str), _Spellings(tables, _folded))

    def resolve(self, name: str) -> Resolved:
        """Exact, or as a catalog line writes it, then the bare name after the last dot if only one
        table has it, then either of the two whatever the case if only one table fits.

        Quotes of any kind, spaces around names, and how Unicode composes letters are ignored.
        """
        found = self._written.get(name) or self._shown.get(one_line(name).strip())
        if found is not None:
            return Resolved(found)
        parts = pieces(name)
        for spellings in self._spelt:
            for fitting in spellings.of(parts):
                names = {table.name for table in fitting}
                if len(names) == 1:
                    return Resolved(fitting[0])
                if names:
                    return Resolved(None, sorted(names)[:MAX_NEAR])
        return Resolved(None, near_names(".".join(parts), self._tables))


class _Spellings:
    """Tables by the parts of their names: as they are, or whatever the case."""

    def __init__(self, tables: Sequence[Table], fold: Callable[[str], str]) -> None:
        self._fold = fold
        self._full: dict[str, list[Table]] = {}
        self._ends: dict[str, list[tuple[list[str], frozenset[int], Table]]] = {}
        """By the last word: the words between dots, how many of them make whole parts."""
        self._bare: dict[str, list[Table]] = {}
        for table in tables:
            parts = pieces(table.name)
            flat = fold(".".join(parts))
            split = flat.split(".")
            self._full.setdefault(flat, []).append(table)
            whole = frozenset(accumulate(part.count(".") + 1 for part in reversed(parts)))
            self._ends.setdefault(split[-1], []).append((split, whole, table))
            self._bare.setdefault(fold(parts[-1]), []).append(table)

    def of(self, parts: Sequence[str]) -> Iterator[list[Table]]:
        """Tables whose full name fits, those whose end fits, and those whose bare name does."""
        flat = self._fold(".".join(parts))
        if flat.strip("."):
            split = flat.split(".")
            yield self._full.get(flat, [])
            ends = self._ends.get(split[-1], ())
            yield [table for known, whole, table in ends if _end_alike(known, whole, split)]
            yield self._bare.get(self._fold(parts[-1]), [])


def resolve(name: str, tables: Sequence[Table]) -> Resolved:
    """See ``TableNames.resolve``."""
    return TableNames(tables).resolve(name)


def near_names(name: str, tables: Sequence[Table], limit: int = MAX_NEAR) -> list[str]:
    """Names of tables that look like ``name``, nearest first."""
    asked = bare(name).lower()
    if not asked:
        return []
    pairs = _letter_pairs(asked)
    holding: list[str] = []
    by_bare: dict[str, list[str]] = {}
    for table in tables:
        known = bare(table.name).lower()
        by_bare.setdefault(known, []).append(table.name)
        if asked in table.name.lower() or (known and known in asked):
            holding.append(table.name)
    likely = heapq.nlargest(_LIKELY, by_bare, key=lambda name: _overlap(pairs, name))
    similar = difflib.get_close_matches(asked, likely, n=limit, cutoff=0.6)
    ordered = [name for close in similar for name in by_bare[close]] + sorted(holding, key=len)
    return list(dict.fromkeys(ordered))[:limit]


def detail(table: Table) -> dict[str, Any]:
    """L1 detail as a prompt shows it: at most 50 columns, 3 sample rows, 80 characters a value."""
    shown = table.columns[:MAX_COLUMNS]
    names = {column.name for column in shown}
    payload: dict[str, Any] = {
        "table": table.name,
        "row_count": table.row_count,
        "columns": [column.model_dump(mode="json") for column in shown],
        "sample_rows": [
            {key: _clip(value) for key, value in row.items() if key in names}
            for row in table.sample_rows[:MAX_SAMPLES]
        ],
    }
    if len(table.columns) > len(shown):
        payload["columns_total"] = len(table.columns)
    return payload


def trim(table: Table, rows: int = MAX_SAMPLES) -> Table:
    """The same limits on the record itself: sample rows of 50 columns and 80 characters a value."""
    names = {column.name for column in table.columns[:MAX_COLUMNS]}
    shown = [
        {key: _clip(value) for key, value in row.items() if key in names}
        for row in table.sample_rows[:rows]
    ]
    return table.model_copy(update={"sample_rows": shown})


def _clip(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    if len(text) <= MAX_CHARS:
        return value
    return f"{text[: MAX_CHARS - 1]}…"


def _letter_pairs(name: str) -> set[str]:
    return {name[i : i + 2] for i in range(len(name) - 1)} or {name}


def _overlap(pairs: set[str], name: str) -> float:
    """Shared pairs of letters as a part of all pairs."""
    other = _letter_pairs(name)
    return 2 * len(pairs & other) / (len(pairs) + len(other))


def _end_alike(name: Sequence[str], whole: Container[int], asked: Sequence[str]) -> bool:
    """True when the last words are equal, as many as the shorter has, and make whole parts."""
    count = min(len(name), len(asked))
    return count in whole and name[-count:] == asked[-count:]


def _folded(text: str) -> str:
    return composed(" ".join(text.casefold().split()))
