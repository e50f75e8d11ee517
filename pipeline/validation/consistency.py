"""The overall status of a verdict must agree with its own claims (design, decision 3)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.records import CLAIM_STATUSES, ClaimVerdict, Status, StructuredVerdict

CAUTION = (
    Status.REJECTED,
    Status.UNVERIFIABLE,
    Status.PARTIAL,
    Status.SUPPORTED,
    Status.CONFIRMED,
)
"""Most cautious first."""


def derive(claims: Sequence[ClaimVerdict]) -> Status:
    """The overall that the claims amount to (finaliser, step 6)."""
    found = {claim.status for claim in claims}
    if Status.REJECTED.value in found:
        return Status.REJECTED
    if Status.SUPPORTED.value in found:
        return Status.SUPPORTED
    if Status.CONFIRMED.value in found:
        return Status.CONFIRMED
    return Status.UNVERIFIABLE


def more_cautious(one: Status, other: Status) -> Status:
    """The one that promises less, in the order of ``CAUTION``."""
    return min(one, other, key=CAUTION.index)


def amounts_to(claims: Sequence[ClaimVerdict]) -> Status:
    """``derive``, except that a headline judged partial allows no more than partial."""
    derived = derive(claims)
    headline_partial = any(c.is_headline and c.status == Status.PARTIAL.value for c in claims)
    if headline_partial and derived is not Status.REJECTED:
        return Status.PARTIAL
    return derived


def contradicts(overall: str, claims: Sequence[ClaimVerdict]) -> bool:
    """True when a known ``overall`` cannot stand beside its claims.

    A more modest overall is no contradiction (supported over claims that are all confirmed), nor
    is partial beside a rejected claim that is not the headline. An overall that only the run may
    give (disabled, skipped) always is.
    """
    if overall not in set(Status):
        return False
    if overall not in CLAIM_STATUSES:
        return True
    given, bears_out = Status(overall), amounts_to(claims)
    if given is Status.PARTIAL and bears_out is Status.REJECTED:
        return any(c.is_headline and c.status == Status.REJECTED.value for c in claims)
    if given is Status.REJECTED:
        return bears_out is not Status.REJECTED
    if given is Status.UNVERIFIABLE:
        return all(c.status != Status.UNVERIFIABLE.value for c in claims)
    return CAUTION.index(given) > CAUTION.index(bears_out)


def agree(finalised: StructuredVerdict, given: str) -> StructuredVerdict:
    """``finalised`` with an overall that its claims bear out; ``given`` is what the agent wrote.

    A contradiction is recorded in ``overall_conflict`` and settled for the more cautious of the
    two. The verdict is not changed in place.
    """
    if not contradicts(given, finalised.claim_verdicts):
        return finalised
    bears_out = amounts_to(finalised.claim_verdicts)
    standing = Status(finalised.overall)
    settled = more_cautious(standing, bears_out) if standing in CLAIM_STATUSES else bears_out
    reason = f"consistency: overall {given} contradicts the claims, which amount to {bears_out}"
    return finalised.model_copy(
        update={
            "overall": settled.value,
            "overall_conflict": given,
            "overall_reason": append_reason(finalised.overall_reason, reason),
        }
    )


def append_reason(before: str, reason: str) -> str:
    """``before; reason``, or the reason alone."""
    return f"{before}; {reason}" if before else reason
