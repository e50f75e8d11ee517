"""A recommendation: what to do about one or more insights."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from pipeline.records.verdict import InsightValidation


class ExpectedImpact(BaseModel):
    metric: str = ""
    estimated_improvement: str = ""
    reasoning: str = ""
    return_rate: str = ""
    conversion_rate: str = ""
    estimated_value: str = ""
    total_value: str = ""


class Recommendation(BaseModel):
    id: str
    category: str = ""
    title: str
    description: str = ""
    description_md: str | None = None
    priority: int = 3
    """1 is highest, 5 lowest."""
    target_segment: str = ""
    segment_size: int = 0
    expected_impact: ExpectedImpact = Field(default_factory=ExpectedImpact)
    actions: list[str] = Field(default_factory=list)
    related_insight_ids: list[str] = Field(default_factory=list)
    """UUIDs of eligible insights."""
    confidence: float = 0.0
    created_at: datetime | None = None
    validation: InsightValidation | None = None
