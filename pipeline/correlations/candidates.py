"""Pairs of columns of two datasources that may be the same key, by their names. Pure rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipeline.records import Column, ColumnCategory, KeyColumn, KeyPair, Table, TableKind

MAX_PAIRS = 20
MAX_PER_SOURCE = 2
"""Columns of one datasource that are tried for one thing."""
LEAST_STEM = 4
"""Letters by which a shortened name is recognised: ``cust_id`` and ``customer_id``."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_]+")
_SUFFIXES = frozenset(
    {"id", "ids", "key", "code", "uuid", "guid", "no", "nr", "num", "number", "sku", "ref"}
)
_BY_ITSELF = frozenset({"sku", "email", "isbn", "ean", "vin", "iban", "iata", "icao", "fips"})
"""Words that identify something without any suffix."""


@dataclass(frozen=True, slots=True)
class Key:
    """A column that looks like a key, and the thing that it seems to identify."""

    column: KeyColumn
    stem: str
    """``customer`` for ``customer_id``, ``customerId`` and ``customers.id``."""
    primary: bool
    rows: int


def candidates(
    tables: Sequence[Table], order: Sequence[str], limit: int = MAX_PAIRS
) -> list[KeyPair]:
    """Pairs worth measuring between every two datasources of ``order``, likeliest first.

    Both columns must look like keys of the same thing, or one must be a primary key and the other
    have its very name.
    """
    keys = {source: list(_keys(tables, source)) for source in order}
    named = {source: list(_plain(tables, source)) for source in order}
    found: dict[tuple[str, ...], tuple[int, KeyPair]] = {}
    for a, b in combinations(order, 2):
        for rank, left, right in (
            *_alike(keys[a], keys[b]),
            *_same_name(keys[a], named[b]),
            *((rank, left, right) for rank, right, left in _same_name(keys[b], named[a])),
        ):
            pair = KeyPair(left=left, right=right)
            found.setdefault(identity(pair), (rank, pair))
    ranked = sorted(found.values(), key=lambda item: (item[0], identity(item[1])))
    return [pair for _, pair in ranked[:limit]]


def identity(pair: KeyPair) -> tuple[str, ...]:
    """The same for a pair and for its mirror image."""
    sides = sorted((k.datasource_id, k.table, k.column) for k in (pair.left, pair.right))
    return (*sides[0], *sides[1])


def stem_of(column: str, table: str) -> str:
    """What a column seems to identify, "" when its name does not look like a key's."""
    words = [word.lower() for word in _WORD.findall(column)]
    if len(words) == 1 and words[0] in _BY_ITSELF:
        return words[0]
    if not words or words[-1] not in _SUFFIXES:
        return ""
    owner = [word.lower() for word in _WORD.findall(table.rpartition(".")[2])]
    stem = words[:-1] or owner
    return "_".join(_singular(word) for word in stem)


def _keys(tables: Sequence[Table], source: str) -> Iterator[Key]:
    for table, column in _columns(tables, source):
        stem = stem_of(_bare(column.name), table.name)
        primary = column.category is ColumnCategory.PRIMARY_KEY
        if primary and not stem:
            stem = _singular(_bare(column.name).lower())
        if stem:
            yield Key(_reference(table, column), stem, primary, table.row_count)


def _plain(tables: Sequence[Table], source: str) -> Iterator[KeyColumn]:
    for table, column in _columns(tables, source):
        if column.category is ColumnCategory.DIMENSION:
            yield _reference(table, column)


def _columns(tables: Sequence[Table], source: str) -> Iterator[tuple[Table, Column]]:
    """Columns that may hold keys: no times, no measures of a cube, no segments."""
    for table in tables:
        if table.datasource_id != source:
            continue
        for column in table.columns:
            cube = table.kind is not TableKind.TABLE
            measured = cube and column.category is ColumnCategory.METRIC
            if (
                not measured
                and column.category is not ColumnCategory.TIME
                and column.type != "segment"
            ):
                yield table, column


def _alike(left: Sequence[Key], right: Sequence[Key]) -> Iterator[tuple[int, KeyColumn, KeyColumn]]:
    """Keys of the same thing; those with the very same stem first."""
    for stem in sorted({key.stem for key in left}):
        mine = _best([key for key in left if key.stem == stem])
        for other in sorted({key.stem for key in right if _similar(stem, key.stem)}):
            theirs = _best([key for key in right if key.stem == other])
            rank = 0 if stem == other else 2
            yield from ((rank, a.column, b.column) for a in mine for b in theirs)


def _same_name(
    keys: Sequence[Key], columns: Sequence[KeyColumn]
) -> Iterator[tuple[int, KeyColumn, KeyColumn]]:
    """A primary key, and columns elsewhere that are called the same without looking like keys."""
    for key in keys:
        name = _bare(key.column.column).lower()
        if key.primary and name not in _SUFFIXES:
            same = [column for column in columns if _bare(column.column).lower() == name]
            yield from ((1, key.column, column) for column in same[:MAX_PER_SOURCE])


def _best(keys: Sequence[Key]) -> list[Key]:
    """Primary keys and small tables first: these are the ones that are referred to."""
    ranked = sorted(
        keys,
        key=lambda k: (
            not k.primary,
            k.rows if k.rows >= 0 else 1 << 62,
            k.column.table,
            k.column.column,
        ),
    )
    return ranked[:MAX_PER_SOURCE]


def _similar(one: str, other: str) -> bool:
    if one == other:
        return True
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= LEAST_STEM and longer.startswith(shorter)


def _reference(table: Table, column: Column) -> KeyColumn:
    return KeyColumn(datasource_id=table.datasource_id, table=table.name, column=column.name)


def _bare(column: str) -> str:
    return column.rpartition(".")[2]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
