"""What is kept of a project's schemas between runs, and how far indexing is."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field

from pipeline.records.schema import Table


class IndexedTable(BaseModel):
    """A table as it is kept between runs."""

    table: Table
    fingerprint: str
    """Changes when its columns do."""
    sampled: bool = False
    """False: its rows were not looked at yet."""
    complete: bool = False
    """True: read by indexing, with its time span."""
    read_at: datetime | None = None
    """When it was asked for in the warehouse; None: now."""


class IndexOrigin(StrEnum):
    """What read the tables of a datasource."""

    INDEX = "index"
    """Indexing as a step of its own: with sample rows and time spans."""
    DISCOVERY = "discovery"
    """A run that found nothing fresh: names, columns and row counts."""


class SchemaIndexRun(BaseModel):
    """One whole reading of a datasource's tables."""

    id: str = ""
    project_id: str
    datasource: str
    fingerprint: str
    """Of the datasource as it was configured."""
    origin: IndexOrigin = IndexOrigin.INDEX
    table_count: int = 0
    failed: dict[str, str] = Field(default_factory=dict)
    """Tables that could not be read, with the reason; at most a hundred."""
    failed_count: int = 0
    started_at: datetime
    finished: datetime | None = None


class IndexPhase(StrEnum):
    LISTING = "listing_tables"
    TABLES = "schema_discovery"
    EMBEDDING = "embedding"
    KEYS = "key_pairs"
    DONE = "done"


class IndexProgress(BaseModel):
    """How far the indexing of a project is."""

    project_id: str = ""
    datasource: str = ""
    phase: IndexPhase = IndexPhase.LISTING
    done: int = 0
    total: int = 0
    """Tables; 0 while they are being listed."""
    failed: int = 0
    table: str = ""
    """The one that was finished last."""
    updated_at: datetime | None = None
