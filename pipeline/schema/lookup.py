"""Which table a name means, and how much of a table a prompt shows."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.records import Table
from pipeline.schema.catalog import one_line

MAX_COLUMNS, MAX_SAMPLES, MAX_CHARS = 50, 3, 80
MAX_NEAR = 5
_LIKELY = 40
"""Names that are compared in full; the rest share too few pairs of letters."""
_QUOTES = "\"'`[]"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The table that a name means, or names that exist and look like it."""

    table: Table | None
    near: list[str] = field(default_factory=list[str])


def resolve(name: str, tables: Sequence[Table]) -> Resolved:
    """Exact, or as a catalog line writes it, then the bare name after the last dot if only one
    table has it, then either of the two whatever the case if only one table fits. Quotes around
    names are ignored.

    Of several datasources the first wins where names are equal: give the primary's tables first.
    """
    wanted, shown = _clean(name), one_line(name).strip()
    exact = [table for table in tables if table.name in (name, wanted)]
    exact = exact or [table for table in tables if one_line(table.name).strip() == shown]
    if exact:
        return Resolved(exact[0])
    for same in (_equal, _equal_folded):
        for found in _by_precision(wanted, tables, same):
            if len(found) == 1:
                return Resolved(found[0])
            if found:
                return Resolved(None, sorted({table.name for table in found})[:MAX_NEAR])
    return Resolved(None, near_names(wanted, tables))


def near_names(name: str, tables: Sequence[Table], limit: int = MAX_NEAR) -> list[str]:
    """Names of tables that look like ``name``, nearest first."""
    bare = _bare(name).lower()
    if not bare:
        return []
    pairs = _letter_pairs(bare)
    holding = [t.name for t in tables if bare in t.name.lower() or _bare(t.name).lower() in bare]
    by_bare: dict[str, list[str]] = {}
    for table in tables:
        by_bare.setdefault(_bare(table.name).lower(), []).append(table.name)
    likely = heapq.nlargest(_LIKELY, by_bare, key=lambda name: _overlap(pairs, name))
    similar = difflib.get_close_matches(bare, likely, n=limit, cutoff=0.6)
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


def _by_precision(
    wanted: str, tables: Sequence[Table], same: Callable[[str, str], bool]
) -> list[list[Table]]:
    """Tables whose full name fits, then those whose end or bare name fits."""
    full = [table for table in tables if same(table.name, wanted)]
    ends = [table for table in tables if same(*_shared_ending(table.name, wanted))]
    bare = [table for table in tables if same(_bare(table.name), _bare(wanted))]
    return [full, ends, [] if ends else bare]


def _letter_pairs(name: str) -> set[str]:
    return {name[i : i + 2] for i in range(len(name) - 1)} or {name}


def _overlap(pairs: set[str], name: str) -> float:
    """Shared pairs of letters as a part of all pairs."""
    other = _letter_pairs(name)
    return 2 * len(pairs & other) / (len(pairs) + len(other))


def _shared_ending(name: str, wanted: str) -> tuple[str, str]:
    """The last parts of both, as many as the shorter has."""
    parts, asked = name.split("."), wanted.split(".")
    count = min(len(parts), len(asked))
    return ".".join(parts[-count:]), ".".join(asked[-count:])


def _equal(left: str, right: str) -> bool:
    return left == right


def _equal_folded(left: str, right: str) -> bool:
    return left.casefold() == right.casefold()


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


def _clean(name: str) -> str:
    return ".".join(part.strip().strip(_QUOTES) for part in name.strip().split("."))
