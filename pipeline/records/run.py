"""A run, its lifecycle, and the live feed of what it is doing."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field


class RunStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


class RunPhase(StrEnum):
    INIT = "init"
    SCHEMA_DISCOVERY = "schema_discovery"
    EXPLORATION = "exploration"
    ANALYSIS = "analysis"
    VALIDATION = "validation"
    RECOMMENDATIONS = "recommendations"
    SAVING = "saving"
    EMBED_INDEX = "embed_index"
    COMPLETE = "complete"


class LifecycleEvent(BaseModel):
    status: RunStatus
    at: datetime
    reason: str = ""
    attempt: int = 1
    llm_provider: str = ""
    llm_model: str = ""


class DiscoveryRun(BaseModel):
    id: str
    project_id: str
    status: RunStatus = RunStatus.PENDING
    phase: RunPhase = RunPhase.INIT
    phase_detail: str = ""
    progress: int = 0
    """Per cent."""
    started_at: datetime
    updated_at: datetime | None = None
    completed_at: datetime | None = None
    error: str = ""
    discovery_id: str = ""
    total_queries: int = 0
    successful_queries: int = 0
    failed_queries: int = 0
    insights_found: int = 0
    schema_tokens: int = 0
    schema_table_count: int = 0
    schema_lookup_calls: int = 0
    schema_search_calls: int = 0
    correlation_lookup_calls: int = 0
    analysis_step_index_upserts: int = 0
    analysis_step_index_search_calls: int = 0
    analysis_steps_dropped: int = 0
    attempt: int = 1
    last_resumed_at: datetime | None = None
    last_checkpoint_step: int = 0
    active_ms: int = 0
    lifecycle: list[LifecycleEvent] = Field(default_factory=list)
    max_steps: int = 100
    min_steps: int = 0
    areas: list[str] = Field(default_factory=list)
    """Selected area ids; empty means all that the project enables."""
    effort: str = ""
    skip_cache: bool = False
    """True: the tables are read from the warehouse, whatever is kept of them."""
    job_id: str = ""
    owner: str = ""
    """``host:pid:start`` of the process that drives the run."""
    heartbeat_at: datetime | None = None

    @property
    def resumable(self) -> bool:
        """True for a failed run that kept a step. Checkpoints expire, so whoever resumes it looks
        whether they are still there."""
        return self.status is RunStatus.FAILED and self.last_checkpoint_step > 0


class RunStepType(StrEnum):
    QUERY = "query"
    LOOKUP_SCHEMA = "lookup_schema"
    SEARCH_TABLES = "search_tables"
    GET_CORRELATIONS = "get_correlations"
    COMPLETE_REJECTED = "complete_rejected"
    INSIGHT = "insight"
    ANALYSIS = "analysis"
    VALIDATION = "validation"
    RECOMMENDATION = "recommendation"
    PHASE = "phase"
    ERROR = "error"


class RunStep(BaseModel):
    """One row of the live feed."""

    id: str = ""
    """Set by the store; ascending within one writer. Serves as the ``since_id`` cursor."""
    run_id: str = ""
    project_id: str = ""
    attempt: int = 1
    phase: str = ""
    step_num: int = 0
    step_total: int = 0
    timestamp: datetime
    type: RunStepType
    message: str = ""
    llm_thinking: str = ""
    llm_query: str = ""
    query: str = ""
    query_result: str = ""
    """A short summary in words."""
    row_count: int = 0
    query_time_ms: int = 0
    query_fixed: bool = False
    insight_name: str = ""
    insight_severity: str = ""
    analysis_area: str = ""
    combined: str = ""
    error: str = ""
    duration_ms: int = 0
    tokens: int = 0
    warehouse_id: str = ""
