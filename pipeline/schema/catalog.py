"""The catalog that a prompt carries: one line a table, within a budget of tokens.

``main.flights | 19 columns | 336.8K rows | keywords: delay | joins: main.airlines.carrier``

The cubes and views of a semantic layer have no rows; their lines name all their members, because
nothing else does: ``orders | cube | measures: orders.count number (count) | dimensions: …``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from pipeline.ports import WarehouseInfo
from pipeline.records import ColumnCategory, Shape, Table, TableKind
from pipeline.schema.joins import JoinHints
from pipeline.schema.names import bare

DEFAULT_BUDGET = 150_000
"""Tokens."""
MAX_KEYWORDS = 3
MAX_ABOUT = 200
"""Characters of a cube's description."""
EMPTY = "(no tables)"
CELL = " | "
"""Between the cells of a line."""
_NOTICE_SIZE = 140
"""Characters of the line that tells what is not listed."""

_ARCHIVE = re.compile(
    r"_((19|20)\d{2}(\d{2}){0,2}|LOGS?|ARCHIVED?|BKP|BACKUP|TMP|TEMP|STG|STAGING)(?=_|\d|$)",
    re.IGNORECASE,
)
Catalogs = Mapping[WarehouseInfo, list[Table]] | Iterable[tuple[WarehouseInfo, list[Table]]]


def render_catalog(
    tables_by_datasource: Catalogs,
    keywords: Sequence[str] = (),
    budget_tokens: int = DEFAULT_BUDGET,
) -> str:
    """Catalog lines grouped by datasource, in the order given, tables by name.

    Over budget, tables whose names look like archives, logs and copies go first, then those with
    the fewest rows (unknown counts as most); a last line says how many went. The header of a
    datasource always stays.
    """
    pairs = _pairs(tables_by_datasource)
    headers = [_header(info, tables) for info, tables in pairs]
    lines = [table_lines(tables, keywords) for _, tables in pairs]
    kept = _within(pairs, lines, budget_tokens, sum(len(h) + 1 for h in headers))
    text: list[str] = []
    for header, group, keep in zip(headers, lines, kept, strict=True):
        text.append(header)
        text.extend(line for line, stays in zip(group, keep, strict=True) if stays)
        if not group:
            text.append(EMPTY)
    dropped = sum(len(keep) - sum(keep) for keep in kept)
    if dropped:
        text.append(
            f"({dropped} tables are not listed, archives and the smallest first; "
            "search_tables and lookup_schema still find them)"
        )
    return "\n".join(text) or EMPTY


def table_lines(tables: Sequence[Table], keywords: Sequence[str] = ()) -> list[str]:
    """One line for each table, by name."""
    hints = JoinHints([table for table in tables if table.kind is TableKind.TABLE])
    wanted = [word for word in dict.fromkeys(k.strip().lower() for k in keywords) if word]
    return [_line(table, wanted, hints) for table in _by_name(tables)]


def rows_text(count: int) -> str:
    """``unknown``, ``999``, ``336.8K``, ``1.2M``, ``3B``."""
    if count < 0:
        return "unknown"
    if count < 1000:
        return str(count)
    for size, letter in ((10**3, "K"), (10**6, "M"), (10**9, "B")):
        scaled = round(count / size, 1)
        if scaled < 1000 or letter == "B":
            return f"{scaled:.1f}".removesuffix(".0") + letter
    raise AssertionError("unreachable")


def tokens(characters: int) -> float:
    """The reference's estimate: a quarter of the characters, and a quarter more for safety."""
    return characters / 4 * 1.25


def looks_archived(name: str) -> bool:
    """True for names with a year, or with a word for logs, copies or staging."""
    return _ARCHIVE.search(bare(name)) is not None


def _pairs(given: Catalogs) -> list[tuple[WarehouseInfo, list[Table]]]:
    if isinstance(given, Mapping):
        return list(cast("Mapping[WarehouseInfo, list[Table]]", given).items())
    return list(given)


def _by_name(tables: Sequence[Table]) -> list[Table]:
    return sorted(tables, key=lambda table: table.name)


def _header(info: WarehouseInfo, tables: Sequence[Table]) -> str:
    if info.shape is Shape.CUBE:
        count = f"{len(tables)} cubes and views"
        return f"datasource {one_line(info.id)} | {info.query_language} | {count}"
    return f"datasource {one_line(info.id)} | dialect {info.dialect} | {len(tables)} tables"


def members_text(table: Table) -> str:
    """The measures, dimensions and segments of a cube, with their types."""
    groups: dict[str, list[str]] = {"measures": [], "dimensions": [], "segments": []}
    for column in table.columns:
        shown = one_line(f"{column.name} {column.type}")
        if column.category is ColumnCategory.METRIC:
            groups["measures"].append(shown)
        elif column.type == "segment":
            groups["segments"].append(one_line(column.name))
        else:
            groups["dimensions"].append(shown)
    return CELL.join(f"{key}: {', '.join(names)}" for key, names in groups.items() if names)


def _cube_line(table: Table, keywords: Sequence[str]) -> str:
    parts = [one_line(table.name), table.kind.value, members_text(table)]
    about = one_line(" ".join(table.description.split()))[:MAX_ABOUT]
    parts += [_keywords(table, keywords), f"about: {about}" if about else ""]
    return CELL.join(part for part in parts if part)


def _keywords(table: Table, keywords: Sequence[str]) -> str:
    lowered = table.name.lower()
    found = [word for word in keywords if word in lowered][:MAX_KEYWORDS]
    return f"keywords: {', '.join(found)}" if found else ""


def _line(table: Table, keywords: Sequence[str], hints: JoinHints) -> str:
    if table.kind is not TableKind.TABLE:
        return _cube_line(table, keywords)
    parts = [
        one_line(table.name),
        f"{len(table.columns)} columns",
        f"{rows_text(table.row_count)} rows",
    ]
    found = _keywords(table, keywords)
    if found:
        parts.append(found)
    joins = hints.of(table)
    if joins:
        parts.append(f"joins: {', '.join(one_line(join) for join in joins)}")
    return CELL.join(parts)


def one_line(name: str) -> str:
    """A name that cannot start a new line of the catalog, or a new cell of its line."""
    if not name.isprintable():
        name = "".join(c if c.isprintable() else " " for c in name)
    return name.replace(CELL, " ¦ ") if CELL in name else name


def _within(
    pairs: Sequence[tuple[WarehouseInfo, list[Table]]],
    lines: Sequence[Sequence[str]],
    budget: int,
    fixed: int,
) -> list[list[bool]]:
    """Which lines stay."""
    keep = [[True] * len(group) for group in lines]
    size = fixed + sum(len(line) + 1 for group in lines for line in group)
    if tokens(size) <= budget:
        return keep
    size += _NOTICE_SIZE
    order: list[tuple[bool, float, str, int, int]] = []
    for g, (_, tables) in enumerate(pairs):
        for i, table in enumerate(_by_name(tables)):
            rows = float("inf") if table.row_count < 0 else table.row_count
            order.append((not looks_archived(table.name), rows, table.name, g, i))
    for _, _, _, g, i in sorted(order):
        if tokens(size) <= budget:
            break
        keep[g][i] = False
        size -= len(lines[g][i]) + 1
    return keep
