"""Wire types of validation: what each agent emits and what is stamped on a document."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Status(StrEnum):
    """The seven terminal statuses; a single claim uses only the first five."""

    CONFIRMED = "confirmed"
    SUPPORTED = "supported"
    PARTIAL = "partial"
    REJECTED = "rejected"
    UNVERIFIABLE = "unverifiable"
    VALIDATION_DISABLED = "validation_disabled"
    SKIPPED_BUDGET_CAP = "skipped_budget_cap"


CLAIM_STATUSES = frozenset(
    {
        Status.CONFIRMED,
        Status.SUPPORTED,
        Status.PARTIAL,
        Status.REJECTED,
        Status.UNVERIFIABLE,
    }
)


class DocKind(StrEnum):
    INSIGHT = "insight"
    RECOMMENDATION = "recommendation"


class AgentMode(StrEnum):
    VERIFIER = "verifier"
    REFUTER = "refuter"


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", validate_assignment=False)


class Provenance(_Wire):
    """Where an evidence row was found among what the tools really returned."""

    attested: bool
    source: str = ""
    """For example ``bundle step 3``, ``read_step_rows step 3`` or ``query_warehouse #2``."""


class ClaimEvidence(_Wire):
    kind: str = ""
    """``step_row``, ``warehouse_query`` or ``none``; anything else fails coverage."""
    step_id: int | None = None
    query_sql: str = ""
    row: dict[str, Any] | None = None
    additional_rows: int = 0
    provenance: Provenance | None = None


class ClaimVerdict(_Wire):
    claim_text: str = ""
    claim_kind: str = ""
    is_headline: bool = False
    status: str = ""
    """One of ``CLAIM_STATUSES``; kept as written so that the finaliser can judge a typo."""
    reasoning: str = ""
    evidence: ClaimEvidence = Field(default_factory=ClaimEvidence)


class VerdictStats(_Wire):
    lookups_used: int = 0
    queries_issued: int = 0
    step_reads_used: int = 0
    step_read_max_offset: int = 0
    step_read_beyond_retained: int = 0
    llm_tokens_in: int = 0
    llm_tokens_cached: int = 0
    llm_tokens_out: int = 0
    rounds: int = 0
    duration_millis: int = 0


class StructuredVerdict(_Wire):
    doc_id: str = ""
    doc_kind: str = ""
    mode: str = ""
    claims_considered: list[str] = Field(default_factory=list)
    claim_verdicts: list[ClaimVerdict] = Field(default_factory=list)
    overall: str = ""
    overall_reason: str = ""
    overall_conflict: str = ""
    """The overall that the agent gave, when its own claims contradict it (design, decision 3)."""
    stats: VerdictStats = Field(default_factory=VerdictStats)


class InsightValidation(_Wire):
    """The summary on a document: the two verdicts, what they amount to, and legacy fields."""

    verifier: StructuredVerdict | None = None
    refuter: StructuredVerdict | None = None
    combined: Status | None = None
    refuter_disabled: bool = False
    warehouse_id: str = ""
    status: str = ""
    reasoning: str = ""
    verified_count: int | None = None
    original_count: int | None = None
    query: str = ""
    validated_at: datetime | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class ValidationResult(_Wire):
    """One row of the validation log."""

    id: str = ""
    discovery_id: str = ""
    project_id: str = ""
    insight_id: str = ""
    """Id of the judged document, insight or recommendation."""
    analysis_area: str = ""
    doc_kind: DocKind = DocKind.INSIGHT
    claimed_count: int | None = None
    claimed_metric: str = ""
    verified_count: int | None = None
    status: str = ""
    combined: Status | None = None
    refuter_disabled: bool = False
    verifier: StructuredVerdict | None = None
    refuter: StructuredVerdict | None = None
    warehouse_id: str = ""
    reasoning: str = ""
    query: str = ""
    validated_at: datetime | None = None
    input_tokens: int = 0
    output_tokens: int = 0
