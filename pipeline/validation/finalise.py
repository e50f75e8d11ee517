"""The coverage finaliser: deterministic checks on the verdict that an agent submitted.

The first failing check decides; its reason is appended to the agent's own. Checks are numbered as
in the specification (0 to 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.records import CLAIM_STATUSES, ClaimVerdict, Status, StructuredVerdict
from pipeline.validation.consistency import agree, append_reason, derive
from pipeline.validation.evidence import Returned, attest
from pipeline.validation.reading import VerdictLike, as_verdict

ProvenanceMode = Literal["enforce", "record", "off"]

EVIDENCE_KINDS = frozenset({"step_row", "warehouse_query"})
NEEDS_EVIDENCE = frozenset({Status.CONFIRMED, Status.SUPPORTED, Status.REJECTED})
UNATTESTED = "evidence row was not returned by any tool"


@dataclass(frozen=True, slots=True)
class _Failure:
    overall: Status
    reason: str
    final: bool = True
    """False for a check that judges the claims' content rather than the verdict's form: the
    overall must still agree with the claims."""


def finalise(verdict: VerdictLike) -> StructuredVerdict:
    """Steps 0 to 6. Pure: the input is never changed; a dict is accepted."""
    return _apply(as_verdict(verdict), ())[0]


def settle(
    verdict: VerdictLike, returned: Returned, provenance: ProvenanceMode = "enforce"
) -> StructuredVerdict:
    """The finaliser with attestation as part of step 4, then consistency (decisions 2 and 3).

    ``returned`` is every row that a tool returned in the agent's loop or that its bundle showed.
    """
    checked = as_verdict(verdict)
    unattested: list[int] = []
    if provenance != "off":
        checked, unattested = attest(checked, returned)
    given = checked.overall
    settled, failure = _apply(checked, unattested if provenance == "enforce" else ())
    if failure is not None and failure.final:
        return settled
    return agree(settled, given if given in set(Status) else settled.overall)


def _apply(
    verdict: StructuredVerdict, unattested: Collection[int]
) -> tuple[StructuredVerdict, _Failure | None]:
    failure = _first_failure(verdict, unattested)
    if failure is not None:
        verdict.overall = failure.overall.value
        verdict.overall_reason = append_reason(
            verdict.overall_reason, f"coverage: {failure.reason}"
        )
    return verdict, failure


def _first_failure(verdict: StructuredVerdict, unattested: Collection[int]) -> _Failure | None:
    checks: Sequence[Callable[[StructuredVerdict], _Failure | None]] = (
        _step_1_claims_enumerated,
        _step_0_no_duplicates,
        _step_2_headline,
        _step_3_sets_match,
        lambda v: _step_4_evidence(v.claim_verdicts, unattested),
        _step_4_5_known_status,
        _step_5_unverifiable_claims,
        _step_6_overall,
    )
    return next((failure for check in checks if (failure := check(verdict))), None)


def _step_1_claims_enumerated(verdict: StructuredVerdict) -> _Failure | None:
    if verdict.claims_considered:
        return None
    return _Failure(Status.UNVERIFIABLE, "no claims enumerated")


def _step_0_no_duplicates(verdict: StructuredVerdict) -> _Failure | None:
    texts = [claim.claim_text for claim in verdict.claim_verdicts]
    if _repeats(verdict.claims_considered):
        return _Failure(Status.PARTIAL, "duplicate claims_considered entries")
    if _repeats(texts):
        return _Failure(Status.PARTIAL, "duplicate claim_verdicts.claim_text entries")
    return None


def _repeats(texts: Sequence[str]) -> bool:
    """Compared in lower case with white space collapsed; two empty texts are duplicates."""
    return len({" ".join(text.lower().split()) for text in texts}) < len(texts)


def _step_2_headline(verdict: StructuredVerdict) -> _Failure | None:
    headlines = [claim for claim in verdict.claim_verdicts if claim.is_headline]
    match = any(claim.claim_text == verdict.claims_considered[0] for claim in headlines)
    if len(headlines) == 1 and match:
        return None
    count = len(headlines)
    reason = f"headline rule violated (count {count}, match {str(match).lower()})"
    return _Failure(Status.PARTIAL, reason)


def _step_3_sets_match(verdict: StructuredVerdict) -> _Failure | None:
    judged = Counter(claim.claim_text for claim in verdict.claim_verdicts)
    if judged == Counter(verdict.claims_considered):
        return None
    return _Failure(Status.PARTIAL, "claim_verdicts does not match claims_considered set")


def _step_4_evidence(
    claims: Sequence[ClaimVerdict], unattested: Collection[int]
) -> _Failure | None:
    for i, claim in enumerate(claims):
        if claim.status not in NEEDS_EVIDENCE:
            continue
        if claim.evidence.kind not in EVIDENCE_KINDS or claim.evidence.row is None:
            return _Failure(Status.PARTIAL, f"missing evidence on claim_verdicts[{i}]")
        if i in unattested:
            return _Failure(Status.PARTIAL, UNATTESTED)
    return None


def _step_4_5_known_status(verdict: StructuredVerdict) -> _Failure | None:
    for i, claim in enumerate(verdict.claim_verdicts):
        if claim.status not in CLAIM_STATUSES:
            reason = f'invalid status "{claim.status[:40]}" on claim_verdicts[{i}]'
            return _Failure(Status.PARTIAL, reason)
    return None


def _step_5_unverifiable_claims(verdict: StructuredVerdict) -> _Failure | None:
    open_claims = [c for c in verdict.claim_verdicts if c.status == Status.UNVERIFIABLE.value]
    if any(claim.is_headline for claim in open_claims):
        return _Failure(Status.UNVERIFIABLE, "headline unverifiable")
    if len(open_claims) == len(verdict.claim_verdicts):
        return _Failure(Status.UNVERIFIABLE, "all claims unverifiable")
    if open_claims and verdict.overall != Status.REJECTED.value:
        return _Failure(Status.PARTIAL, "some claims unverifiable", final=False)
    return None


def _step_6_overall(verdict: StructuredVerdict) -> _Failure | None:
    if verdict.overall in set(Status):
        return None
    wrote = f'returned invalid "{verdict.overall[:40]}"' if verdict.overall else "omitted it"
    reason = f"overall derived from per-claim verdicts (model {wrote})"
    return _Failure(derive(verdict.claim_verdicts), reason, final=False)
