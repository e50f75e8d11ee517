"""An exploration step: one action of the exploring model and what came of it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field


class StepAction(StrEnum):
    QUERY_DATA = "query_data"
    LOOKUP_SCHEMA = "lookup_schema"
    SEARCH_TABLES = "search_tables"
    GET_CORRELATIONS = "get_correlations"
    COMPLETE = "complete"
    COMPLETE_REJECTED = "complete_rejected"


class QualityKind(StrEnum):
    WITHHELD = "withheld"
    """The source gave no values where it has some."""
    SAMPLED = "sampled"
    """It read a part of the data by chance."""
    TRUNCATED = "truncated"
    """There are more rows, or may be."""
    RESTRICTED = "restricted"
    """It looked at less than was asked about. A project's own row filter is none: within it the
    project is whole."""


class Quality(BaseModel):
    """A caveat on a result: why it may not be the whole answer."""

    kind: QualityKind
    detail: str = ""


class FixAttempt(BaseModel):
    """One round of the SQL repair loop, kept for the audit log."""

    step: int
    attempt: int
    """Counted from 0."""
    sql_before: str
    error_in: str
    prompt_in: str = ""
    response_out: str = ""
    sql_after: str = ""
    fixer_error: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    duration_ms: int = 0
    timestamp: datetime | None = None


class ExplorationStep(BaseModel):
    step: int
    """Counted from 1; insights cite this number."""
    timestamp: datetime
    action: StepAction
    warehouse_id: str = ""
    thinking: str = ""
    query_purpose: str = ""
    query: str = ""
    """The SQL that ran, after healing, guard and filter."""
    query_result: list[dict[str, Any]] = Field(default_factory=list)
    """Normalised rows, at most what the log keeps; ``row_count`` is authoritative."""
    result_columns: list[str] = Field(default_factory=list)
    row_count: int = 0
    execution_time_ms: int = 0
    compact_result: dict[str, Any] | None = None
    """The digest that the analysis phase renders."""
    error: str = ""
    fix_attempts: int = 0
    fixed: bool = False
    fix_history: list[FixAttempt] = Field(default_factory=list)
    quality: list[Quality] = Field(default_factory=list)
    lookup_tables: list[str] = Field(default_factory=list)
    search_text: str = ""
    correlated: list[str] = Field(default_factory=list)
    """The two datasources of a ``get_correlations``, as asked."""
    asked: dict[str, Any] = Field(default_factory=dict)
    """The action's arguments as the model sent them, by the names of ``StepCheckpoint.args``: what
    a resumed run needs to say and do it again."""
    reject_reason: str = ""
    llm_request: str = ""
    llm_response: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    duration_ms: int = 0

    @property
    def succeeded(self) -> bool:
        """True for a query that returned a result."""
        return self.action is StepAction.QUERY_DATA and not self.error
