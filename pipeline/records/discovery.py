"""The result of a run, and the split logs that are stored beside it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from pipeline.records.insight import Insight
from pipeline.records.recommendation import Recommendation
from pipeline.records.verdict import ValidationResult


class RunType(StrEnum):
    FULL = "full"
    PARTIAL = "partial"
    FAILED = "failed"


class PickedStep(BaseModel):
    step: int
    score: float
    source: str
    """``vector`` or ``exact_match``."""


class DroppedStep(BaseModel):
    step: int
    score: float
    reason: str
    """``below_min_score`` or ``over_budget``."""


class AnalysisStep(BaseModel):
    """The whole dialogue of one analysis area."""

    id: str = ""
    discovery_id: str = ""
    project_id: str = ""
    area_id: str
    area_name: str = ""
    run_at: datetime
    prompt: str = ""
    response: str = ""
    relevant_queries: int = 0
    query_results_chars: int = 0
    selected_steps: list[PickedStep] = Field(default_factory=list)
    dropped_steps: list[DroppedStep] = Field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    duration: int = 0
    """Milliseconds."""
    insights: list[Insight] = Field(default_factory=list)
    insight_count: int = 0
    validation_results: list[ValidationResult] = Field(default_factory=list)
    analysis_parse_retries: int = 0
    insights_dropped_parse: int = 0
    error: str = ""


class RecommendationStep(BaseModel):
    """The dialogue of the recommendation phase."""

    id: str = ""
    discovery_id: str = ""
    project_id: str = ""
    run_at: datetime
    prompt: str = ""
    response: str = ""
    insight_count: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    duration: int = 0
    """Milliseconds."""
    recommendations: list[Recommendation] = Field(default_factory=list)
    status: str = ""
    """Empty, ``skipped_no_eligible_insights`` or ``recommendation_parse_error``."""
    recommendations_dropped: int = 0
    recommendations_dropped_parse: int = 0
    recommendations_dropped_missing_ids: int = 0
    recommendations_dropped_unknown_id: int = 0
    recommendation_parse_retries: int = 0
    error: str = ""


class Summary(BaseModel):
    date: datetime | None = None
    text: str = ""
    key_findings: list[str] = Field(default_factory=list)
    top_recommendations: list[str] = Field(default_factory=list)
    total_insights: int = 0
    total_recommendations: int = 0
    queries_executed: int = 0
    errors: list[str] = Field(default_factory=list)
    scorecard: dict[str, Any] = Field(default_factory=dict)
    """Counts by combined status and by claim status, and the totals of the agents' stats."""


class DiscoveryResult(BaseModel):
    id: str
    project_id: str
    run_id: str
    attempt: int = 1
    warehouse_id: str = ""
    domain: str = ""
    category: str = ""
    llm_provider: str = ""
    llm_model: str = ""
    discovery_date: datetime
    run_type: RunType = RunType.FULL
    areas_requested: list[str] = Field(default_factory=list)
    total_steps: int = 0
    duration: int = 0
    """Milliseconds."""
    schemas: dict[str, Any] = Field(default_factory=dict)
    insights: list[Insight] = Field(default_factory=list)
    recommendations: list[Recommendation] = Field(default_factory=list)
    summary: Summary = Field(default_factory=Summary)
    failure: str = ""
    """Why the run counts as failed although this result is kept; empty when it completed."""
    created_at: datetime | None = None
    updated_at: datetime | None = None


class StandaloneDoc(BaseModel):
    """An insight or recommendation as search and later runs read it."""

    id: str
    kind: str
    """``insight`` or ``recommendation``."""
    discovery_id: str
    project_id: str
    run_id: str = ""
    domain: str = ""
    category: str = ""
    doc: dict[str, Any] = Field(default_factory=dict)
    """The whole insight or recommendation."""
    embedding_text: str = ""
    embedding_model: str = ""
    duplicate_of: str = ""
    similarity_score: float = 0.0
    created_at: datetime
