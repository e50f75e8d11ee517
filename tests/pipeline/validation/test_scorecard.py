"""The per-run scorecard: shares of claims, and the totals of all stats."""

from __future__ import annotations

import json
from typing import Any

from pipeline.records import (
    ClaimEvidence,
    ClaimVerdict,
    Insight,
    InsightValidation,
    Provenance,
    Status,
    StructuredVerdict,
    VerdictStats,
)
from pipeline.validation.scorecard import scorecard
from tests.pipeline.validation.world import insight_of, recommendation_of


def verdict_with(*statuses: str, unattested: int = 0, **stats: Any) -> StructuredVerdict:
    claims = [
        ClaimVerdict(
            status=status,
            evidence=ClaimEvidence(provenance=Provenance(attested=i >= unattested)),
        )
        for i, status in enumerate(statuses)
    ]
    return StructuredVerdict(claim_verdicts=claims, stats=VerdictStats(**stats))


def judged(combined: Status, verifier: StructuredVerdict | None = None) -> Insight:
    return insight_of(validation=InsightValidation(combined=combined, verifier=verifier))


def test_documents_and_claims_are_counted_and_shared_out() -> None:
    first = verdict_with("confirmed", "supported", "supported", "rejected", unattested=1)
    second = verdict_with("partial", "unverifiable", "spported", "supported")
    card = scorecard(
        [
            judged(Status.SUPPORTED, first),
            judged(Status.PARTIAL, second),
            judged(Status.SKIPPED_BUDGET_CAP),
            recommendation_of(),
        ]
    )
    documents = card["documents"]
    assert (documents["total"], documents["supported"], documents["partial"]) == (4, 1, 1)
    assert (documents["skipped_budget_cap"], documents["unvalidated"]) == (1, 1)
    assert card["claims"] == {
        "total": 8,
        "confirmed": 1,
        "supported": 3,
        "partial": 1,
        "rejected": 1,
        "unverifiable": 1,
        "invalid": 1,
        "unattested": 1,
    }
    assert card["shares"]["supported"] == 0.375
    assert card["shares"]["unattested"] == 0.125


def test_stats_of_both_agents_are_totalled() -> None:
    insight = judged(
        Status.SUPPORTED,
        verdict_with(queries_issued=2, step_reads_used=1, step_read_max_offset=50, llm_tokens_in=7),
    )
    assert insight.validation is not None
    insight.validation.refuter = verdict_with(
        queries_issued=1, step_read_max_offset=10, llm_tokens_in=5, llm_tokens_cached=4
    )
    insight.validation.refuter.overall_conflict = "confirmed"
    card = scorecard([insight])
    assert card["totals"]["queries_issued"] == 3
    assert card["totals"]["step_read_max_offset"] == 50
    assert (card["totals"]["llm_tokens_in"], card["totals"]["llm_tokens_cached"]) == (12, 4)
    assert card["overall_conflicts"] == 1


def test_nothing_validated_is_a_scorecard_too() -> None:
    card = scorecard([])
    assert card["shares"]["confirmed"] == 0.0
    assert json.loads(json.dumps(card)) == card
