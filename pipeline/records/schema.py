"""Tables and columns as the exploring model sees them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


class ColumnCategory(StrEnum):
    PRIMARY_KEY = "primary_key"
    TIME = "time"
    METRIC = "metric"
    DIMENSION = "dimension"


class Column(BaseModel):
    name: str
    type: str
    nullable: bool = True
    category: ColumnCategory = ColumnCategory.DIMENSION


class TableKind(StrEnum):
    """What a catalogued item is. Cubes and views of a semantic layer are no tables: their columns
    are measures (category metric), dimensions and segments, and they have no rows to look at."""

    TABLE = "table"
    CUBE = "cube"
    VIEW = "view"


class TimeSpan(BaseModel):
    """The first and the last value of a time column, as texts."""

    column: str
    first: str
    last: str


class Table(BaseModel):
    datasource_id: str = "default"
    name: str
    """Qualified: ``dataset.table``."""
    kind: TableKind = TableKind.TABLE
    columns: list[Column] = Field(default_factory=list)
    row_count: int = -1
    """Approximate; -1 when unknown."""
    sample_rows: list[dict[str, Any]] = Field(default_factory=list)
    description: str = ""
    time_span: TimeSpan | None = None
    """Known once the table was indexed."""
    error: str = ""
    """Why the table could not be read when it was indexed; its columns may still be right."""


class TableHit(BaseModel):
    table: str
    datasource_id: str = "default"
    kind: TableKind = TableKind.TABLE
    score: float
    row_count: int = -1
    column_count: int = 0
    description: str = ""


class SchemaLookup(BaseModel):
    tables: list[Table] = Field(default_factory=list)
    not_found: list[dict[str, Any]] = Field(default_factory=list)
    """``{"table": asked, "near": [names that exist]}``."""
