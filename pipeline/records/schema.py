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


class Table(BaseModel):
    datasource_id: str = "default"
    name: str
    """Qualified: ``dataset.table``."""
    columns: list[Column] = Field(default_factory=list)
    row_count: int = -1
    """Approximate; -1 when unknown."""
    sample_rows: list[dict[str, Any]] = Field(default_factory=list)
    description: str = ""


class TableHit(BaseModel):
    table: str
    datasource_id: str = "default"
    score: float
    row_count: int = -1
    column_count: int = 0
    description: str = ""


class SchemaLookup(BaseModel):
    tables: list[Table] = Field(default_factory=list)
    not_found: list[dict[str, Any]] = Field(default_factory=list)
    """``{"table": asked, "near": [names that exist]}``."""
