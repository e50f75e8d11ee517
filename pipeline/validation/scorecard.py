"""What a run's validation came to, in counts and shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.records import (
    CLAIM_STATUSES,
    ClaimVerdict,
    Insight,
    Recommendation,
    Status,
    StructuredVerdict,
    VerdictStats,
)

UNVALIDATED = "unvalidated"
UNATTESTED = "unattested"
_LARGEST = {"step_read_max_offset"}
"""Counters of which a total is the largest, not the sum."""


def scorecard(docs: Iterable[Insight | Recommendation]) -> dict[str, Any]:
    """Counts and shares over a run's documents, ready for JSON.

    ``documents`` counts them by combined status; ``claims`` counts what the verifier said of each
    claim, ``shares`` the same as parts of 1. A claim is ``unattested`` when its evidence row was
    not returned by any tool, whatever its status. ``totals`` adds up the stats of all verdicts.
    """
    every = list(docs)
    validations = [doc.validation for doc in every if doc.validation is not None]
    combined = Counter(v.combined.value if v.combined else UNVALIDATED for v in validations)
    combined[UNVALIDATED] += len(every) - len(validations)
    verifiers = [v.verifier for v in validations if v.verifier is not None]
    refuters = [v.refuter for v in validations if v.refuter is not None]
    claims = _claims(verifiers)
    counted = claims["total"]
    return {
        "documents": {
            "total": len(every),
            **{name: combined[name] for name in [*(s.value for s in Status), UNVALIDATED]},
        },
        "claims": claims,
        "shares": {
            name: round(count / counted, 4) if counted else 0.0
            for name, count in claims.items()
            if name != "total"
        },
        "refuter_claims": _claims(refuters),
        "overall_conflicts": sum(1 for v in [*verifiers, *refuters] if v.overall_conflict),
        "totals": totals(v.stats for v in [*verifiers, *refuters]).model_dump(),
    }


def totals(stats: Iterable[VerdictStats]) -> VerdictStats:
    """The sum of all stats; of offsets, the deepest."""
    total = dict.fromkeys(VerdictStats.model_fields, 0)
    for each in stats:
        for name, value in each.model_dump().items():
            total[name] = max(total[name], value) if name in _LARGEST else total[name] + value
    return VerdictStats.model_validate(total)


def _claims(verdicts: Sequence[StructuredVerdict]) -> dict[str, int]:
    claims = [claim for verdict in verdicts for claim in verdict.claim_verdicts]
    found = Counter(claim.status for claim in claims)
    known = [status.value for status in Status if status in CLAIM_STATUSES]
    return {
        "total": len(claims),
        **{name: found[name] for name in known},
        "invalid": len(claims) - sum(found[name] for name in known),
        UNATTESTED: sum(map(_unattested, claims)),
    }


def _unattested(claim: ClaimVerdict) -> bool:
    provenance = claim.evidence.provenance
    return provenance is not None and not provenance.attested
