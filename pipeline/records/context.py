"""What people said of findings, and what a project remembers from run to run."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field


class Feedback(BaseModel):
    id: str
    project_id: str
    discovery_id: str
    target_type: Literal["insight", "recommendation", "exploration_step"]
    target_id: str
    rating: Literal["like", "dislike"]
    comment: str = ""
    created_at: datetime


class ContextNote(BaseModel):
    text: str
    relevance: float = 1.0
    """0 to 1; a prompt shows notes from 0.5 on."""
    created_at: datetime | None = None
    run_id: str = ""
    """The run that left it."""


class ProjectContext(BaseModel):
    project_id: str
    notes: list[ContextNote] = Field(default_factory=list)
    historical_patterns: list[dict[str, Any]] = Field(default_factory=list)
    """``{name, analysis_area, severity, combined, first_seen, last_seen, times_seen, run_id}``, the
    last being the run that saw it last."""
    discoveries: int = 0
    """Runs that left a result; one that was resumed counts once."""
    run_ids: list[str] = Field(default_factory=list)
    """The runs that ``discoveries`` has counted, the newest last."""
    last_discovery_at: datetime | None = None
    updated_at: datetime | None = None
