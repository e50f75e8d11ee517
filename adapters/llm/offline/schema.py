"""Tables as the explorer knows them: catalog lines, looked-up columns and what columns are for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from adapters.llm.offline.reading import Json, int_of, objects, text_of
from pipeline.schema.catalog import one_line
from pipeline.schema.lookup import UNREADABLE
from pipeline.schema.names import parts_of

_HEADER = re.compile(r"^datasource (\S+) \| dialect (\S+)")
_ROWS = re.compile(r"^([\d.,]+)\s*([KMB]?) rows?$", re.IGNORECASE)
_SCALE = {"": 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}

DIALECTS = ("duckdb", "postgres", "snowflake", "bigquery", "tsql", "databricks", "redshift")
"""Dialects that SQL can be written and read in, the likeliest first."""

_INTEGER = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE|MEDIUM|BYTE)?INT(EGER)?\d*|INT\d+|LONG|SERIAL)\b")
_FLOAT = re.compile(r"^(FLOAT\d*|DOUBLE|REAL|DECIMAL|NUMERIC|NUMBER|BIGNUMERIC|MONEY|SMALLMONEY)")
_STAMP = re.compile(r"^(TIMESTAMP|DATETIME|SMALLDATETIME)")
_TEXT = re.compile(
    r"^(VARCHAR|CHAR|TEXT|STRING|NVARCHAR|NCHAR|BPCHAR|CHARACTER|ENUM|NAME|UUID|CITEXT)"
)


class Kind(StrEnum):
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    STAMP = "timestamp"
    TEXT = "text"
    OTHER = "other"


def kind_of(type_name: str, dialect: str = "") -> Kind:
    """What a warehouse's type name amounts to; arrays, structs, blobs and strings of bits are
    ``other``."""
    name = type_name.strip().upper()
    if name.endswith("]") or name.startswith(("STRUCT", "MAP", "LIST", "ARRAY", "RECORD", "UNION")):
        return Kind.OTHER
    for pattern, kind in (
        (_INTEGER, Kind.INTEGER),
        (_FLOAT, Kind.FLOAT),
        (_STAMP, Kind.STAMP),
        (_TEXT, Kind.TEXT),
    ):
        if pattern.match(name):
            return kind
    if name in {"BOOL", "BOOLEAN"} or (name == "BIT" and dialect in {"", "tsql"}):
        return Kind.BOOLEAN
    return Kind.DATE if name == "DATE" else Kind.OTHER


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    kind: Kind
    primary: bool = False

    @property
    def numeric(self) -> bool:
        return self.kind in {Kind.INTEGER, Kind.FLOAT}

    @property
    def zoned(self) -> bool:
        """A timestamp with a time zone, whose text depends on the session."""
        name = self.type.upper()
        return self.kind is Kind.STAMP and ("TIME ZONE" in name or name.endswith("TZ"))

    @property
    def words(self) -> list[str]:
        return name_words(self.name)


def word_set(text: str) -> frozenset[str]:
    """A set of words, written as a line of text."""
    return frozenset(text.split())


def name_words(name: str) -> list[str]:
    """Lower-case words of an identifier: ``depDelay_min`` gives dep, delay, min."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [w for w in re.split(r"[\W_]+", spaced.lower()) if w]


def shown_name(table: str) -> str:
    """The name of a table as the catalog shows it."""
    return one_line(table).strip()


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table. Until it was looked up, ``columns`` is empty and ``name`` is what the catalog
    shows of it, which may lack line breaks and the like."""

    name: str
    datasource_id: str
    dialect: str
    row_count: int = -1
    joins: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    samples: tuple[Json, ...] = ()
    readable: bool = True
    """False when its sample rows could not be read."""

    @property
    def parts(self) -> tuple[str, ...]:
        return parts_of(self.name, self.dialect)

    @property
    def shown(self) -> str:
        """The name as the catalog shows it."""
        return shown_name(self.name)

    @property
    def bare(self) -> str:
        return self.parts[-1]

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def sample(self, column: str) -> list[Any]:
        """Sample values that are not null."""
        return [r[column] for r in self.samples if r.get(column) is not None]


def parse_catalog(text: str) -> list[TableInfo]:
    """The tables of a ``<catalog>`` block; lines of another shape, and tables of datasources that
    do not speak SQL, are passed over."""
    tables: list[TableInfo] = []
    source, dialect = "default", "duckdb"
    for line in text.splitlines():
        header = _HEADER.match(line.strip())
        if header:
            source, dialect = header.group(1), header.group(2)
            continue
        name, *cells = [c.strip() for c in line.split(" | ")]
        if (
            not name
            or dialect not in DIALECTS
            or not any(re.match(r"^\d+ columns?$", c) for c in cells)
        ):
            continue
        joins: list[str] = []
        rows = -1
        for cell in cells:
            if cell.startswith("joins:"):
                joins = [j.strip() for j in cell[6:].split(",") if j.strip()]
            elif match := _ROWS.match(cell):
                number = float(match.group(1).replace(",", "") or 0)
                rows = int(number * _SCALE[match.group(2).upper()])
        tables.append(TableInfo(name, source, dialect, rows, tuple(joins)))
    return tables


def with_lookup(table: TableInfo, entry: Json) -> TableInfo:
    """The table with the name, columns, samples and row count that ``lookup_schema`` gave."""
    columns = tuple(
        Column(
            text_of(c.get("name")),
            text_of(c.get("type")),
            kind_of(text_of(c.get("type")), table.dialect),
            text_of(c.get("category")) == "primary_key",
        )
        for c in objects(entry.get("columns"))
        if text_of(c.get("name"))
    )
    rows = int_of(entry.get("row_count"), -1)
    return replace(
        table,
        name=text_of(entry.get("table")) or table.name,
        readable=not text_of(entry.get("description")).startswith(UNREADABLE),
        columns=columns,
        samples=tuple(objects(entry.get("sample_rows"))),
        row_count=rows if rows >= 0 else table.row_count,
    )


@dataclass(frozen=True, slots=True)
class Facts:
    """What earlier queries said about one table, by column."""

    rows: int = -1
    distinct: dict[str, int] = field(default_factory=dict[str, int])
    low: dict[str, Any] = field(default_factory=dict[str, Any])
    high: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def known(self) -> bool:
        return self.rows >= 0


def largest_first(tables: Sequence[TableInfo]) -> list[TableInfo]:
    """By datasource in the order of the catalog, which has the primary first, then by rows."""
    sources = list(dict.fromkeys(t.datasource_id for t in tables))
    return sorted(tables, key=lambda t: (sources.index(t.datasource_id), -t.row_count, t.name))
