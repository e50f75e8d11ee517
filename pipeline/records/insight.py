"""An insight: one finding of one analysis area."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from pipeline.records.verdict import InsightValidation


class Severity(StrEnum):
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Insight(BaseModel):
    id: str
    """UUID, new in every attempt."""
    ref: str
    """``{area}-{n}``, the same in every attempt of a discovery; prompts show this one."""
    analysis_area: str
    name: str
    description: str = ""
    """Plain text."""
    description_md: str | None = None
    """The Markdown rendition, only when it differs from the plain text."""
    severity: Severity = Severity.MEDIUM
    affected_count: int = 0
    risk_score: float = 0.0
    confidence: float = 0.0
    metrics: dict[str, Any] = Field(default_factory=dict)
    indicators: list[str] = Field(default_factory=list)
    target_segment: str = ""
    source_steps: list[int] = Field(default_factory=list)
    sql_metadata: dict[str, Any] = Field(default_factory=dict)
    discovered_at: datetime | None = None
    validation: InsightValidation | None = None
    evidence_quality: list[str] = Field(default_factory=list)
    """Quality kinds of the cited steps; derived, never authored."""
