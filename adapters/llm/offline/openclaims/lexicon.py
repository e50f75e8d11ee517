"""Which words of a claim mean which table, column or value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from adapters.llm.offline.openclaims.vocabulary import (
    HINTS,
    NUMBER_WORDS,
    PLAIN,
    UNITS,
)
from adapters.llm.offline.roles import MONTHS, is_key, same_word, singular, time_part
from adapters.llm.offline.schema import Column, Facts, Kind, TableInfo

_WORD = re.compile(r"[^\W\d_]+(?:[_-]\w+)*|\w*\d\w*_\w+")
_QUOTED = re.compile(r"[\"'“‘`]([^\"'”’`]{1,60})[\"'”’`]")
_CODE = re.compile(r"(?<![\w-])(?=[A-Z0-9]*[A-Z])[A-Z0-9]{2,12}(?![\w-])")
_NAME = re.compile(r"(?<![\w-])[A-Z][\w&.]*(?:\s+(?:[A-Z][\w&.]*|of|de))*(?![\w-])")
_YEAR = re.compile(r"(?<![\w.,-])(?:19|20)\d{2}(?![\w.,]\d|\w)")
_UNKNOWN_AS_VALUES = 2
"""So many words may be values that the claim does not mark as such; the data must have them."""


@dataclass(frozen=True, slots=True)
class Value:
    """A name, code, month or year that a claim filters or groups by."""

    text: str
    start: int
    kind: str
    """``text``, ``word`` (a text that nothing marks as a name), ``month`` or ``year``."""
    number: int = 0


@dataclass(slots=True)
class Reading:
    """One claim against one table."""

    text: str
    table: TableInfo
    score: float = 0.0
    columns: dict[str, float] = field(default_factory=dict[str, float])
    """How much of a column's name the claim spells out, 0 to 1, or 2 for the very name."""
    spots: dict[str, int] = field(default_factory=dict[str, int])
    """Where a column is named."""
    values: list[Value] = field(default_factory=list[Value])
    unknown: list[str] = field(default_factory=list[str])
    """Content words that nothing in the schema explains."""
    names_table: bool = False


def words_in(text: str) -> list[tuple[str, int]]:
    """Lower-case words with their positions."""
    return [(m.group(0).lower(), m.start()) for m in _WORD.finditer(text)]


def column_match(column: Column, spoken: Sequence[tuple[str, int]]) -> tuple[float, int]:
    """The share of a column's words that the claim uses (2 for its very name), and where."""
    for word, at in spoken:
        if word == column.name.lower():
            return 2.0, at
    spoken = [(w, at) for w, at in spoken if "_" not in w]
    parts = column.words
    joined = "".join(parts)
    for (first, at), (second, _) in pairwise(spoken):
        pair = first + second
        if len(joined) > 4 and (pair == joined or pair.startswith(joined)):
            return 1.0, at
    found = [next((at for w, at in spoken if same_word(p, w)), -1) for p in parts]
    hits = [at for at in found if at >= 0]
    if not parts or not hits:
        return 0.0, -1
    return len(hits) / len(parts), min(hits)


def read_claim_for(text: str, table: TableInfo, tables: Sequence[TableInfo]) -> Reading:
    """What the words of a claim mean if it speaks of this table."""
    reading = Reading(text, table)
    spoken = words_in(text)
    hinted = spoken + [(HINTS[w], at) for w, at in spoken if w in HINTS]
    for column in table.columns:
        score, at = column_match(column, hinted)
        if score > 0 and singular(column.name) != singular(table.bare):
            reading.columns[column.name] = score
            reading.spots[column.name] = at
    stem = singular(table.bare)
    reading.names_table = any(singular(w) == stem for w, _ in spoken)
    reading.values = values_in(text, reading, tables)
    reading.unknown = _unknown(spoken, reading, tables)
    if len(reading.unknown) <= _UNKNOWN_AS_VALUES:
        spots = dict(spoken)
        words = [Value(w, spots[w], "word") for w in dict.fromkeys(reading.unknown)]
        reading.values = sorted([*reading.values, *words], key=lambda v: v.start)
        reading.unknown = []
    full = sum(1 for s in reading.columns.values() if s >= 1.0)
    partial = sum(s for s in reading.columns.values() if s < 1.0)
    reading.score = 3.0 * reading.names_table + 2.0 * min(full, 3) + 0.5 * min(partial, 2.0)
    return reading


def values_in(text: str, reading: Reading, tables: Sequence[TableInfo]) -> list[Value]:
    """Quoted texts, codes, proper names, months and years, in the order of the text."""
    found: list[Value] = []
    taken: list[tuple[int, int]] = []

    def add(match: re.Match[str], value: Value) -> None:
        if not any(match.start() < end and start < match.end() for start, end in taken):
            taken.append(match.span())
            found.append(value)

    for match in _QUOTED.finditer(text):
        add(match, Value(match.group(1), match.start(1), "text"))
    for match in re.finditer(r"[A-Za-z]+", text):
        month = MONTHS.get(match.group(0).lower())
        if month and match.group(0)[0].isupper():
            add(match, Value(match.group(0), match.start(), "month", month))
    for match in _YEAR.finditer(text):
        number = int(match.group(0))
        before = text[: match.start()].lower()
        if re.search(r"\b(in|of|during|for|since|year|than in|and)\s*$", before):
            add(match, Value(match.group(0), match.start(), "year", number))
    for match in _CODE.finditer(text):
        add(match, Value(match.group(0), match.start(), "text"))
    for match in _NAME.finditer(text):
        name = match.group(0).rstrip(".")
        first = name.split()[0].lower()
        if match.start() == 0 and _is_word(first, reading, tables):
            rest = name.partition(" ")[2]
            if rest and rest[0].isupper():
                add(match, Value(rest, match.start() + len(first) + 1, "text"))
            continue
        if not _is_word(name.lower(), reading, tables):
            add(match, Value(name, match.start(), "text"))
    return sorted(found, key=lambda v: v.start)


def _is_word(word: str, reading: Reading, tables: Sequence[TableInfo]) -> bool:
    """A word of the language or of the schema rather than a name."""
    if word in PLAIN or word in UNITS or word in NUMBER_WORDS:
        return True
    return any(
        singular(table.bare) == singular(word)
        or any(any(same_word(p, word) for p in c.words) for c in table.columns)
        for table in tables
    )


def _unknown(
    spoken: Sequence[tuple[str, int]], reading: Reading, tables: Sequence[TableInfo]
) -> list[str]:
    """Words that are neither the language's, nor this table's, nor a value's."""
    own = {p for c in reading.table.columns for p in c.words}
    inside = [(v.start, v.start + len(v.text)) for v in reading.values]
    joined = {"".join(c.words) for c in reading.table.columns}
    paired: set[int] = set()
    for (first, at), (second, next_at) in pairwise(spoken):
        if any(len(j) > 4 and (first + second).startswith(j) for j in joined):
            paired |= {at, next_at}
    unknown: list[str] = []
    for word, at in spoken:
        if at in paired:
            continue
        if word in PLAIN or word in UNITS or word in NUMBER_WORDS or word in HINTS:
            continue
        if any(start <= at < end for start, end in inside):
            continue
        if any(same_word(p, word) for p in own) or singular(word) == singular(reading.table.bare):
            continue
        if any(word == c.name.lower() for c in reading.table.columns):
            continue
        unknown.append(word)
    return unknown


def best_column(reading: Reading, *, numeric: bool, near: int | None = None) -> Column | None:
    """The column that the claim names most fully, the nearest to a position first on a tie."""
    options = [
        (score, column)
        for name, score in reading.columns.items()
        if (column := reading.table.column(name)) is not None and score >= 0.5
    ]
    if numeric:
        options = [
            (s, c) for s, c in options if c.numeric and (s > 1 or measurable(c, reading.table))
        ]
    if not options:
        return None
    best = max(s for s, _ in options)
    kept = [c for s, c in options if s == best]
    kept.sort(
        key=lambda c: (
            -len(c.words),
            abs(reading.spots[c.name] - near) if near is not None else 0,
            reading.table.columns.index(c),
        )
    )
    return kept[0]


def measurable(column: Column, table: TableInfo) -> bool:
    """A number that is neither a part of a date nor an identifier."""
    return column.numeric and not time_part(column) and not is_key(column, table, Facts())


def text_columns(table: TableInfo) -> list[Column]:
    return [c for c in table.columns if c.kind is Kind.TEXT]
