"""Judging a stored discovery again: the same bundles from its stored steps, no exploration."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pipeline.errors import BadRequest, NotFound
from pipeline.records import (
    DiscoveryResult,
    ExplorationStep,
    Insight,
    InsightValidation,
    Quality,
    QualityKind,
    Recommendation,
    StructuredVerdict,
    ValidationResult,
)
from pipeline.validation.phase import (
    Budget,
    Validator,
    validate_insights,
    validate_recommendations,
)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that came out differently. Empty text: it was not there."""

    what: str
    """``combined``, ``verifier overall``, ``refuter overall`` or ``verifier claim: …``."""
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """A document with its stored validation and the new one."""

    doc: Insight | Recommendation
    """A copy that carries the new validation; the stored document is untouched."""
    row: ValidationResult
    """The new log row."""
    before: InsightValidation | None
    after: InsightValidation
    changes: list[Change] = field(default_factory=list[Change])


def as_stored(steps: Sequence[ExplorationStep]) -> list[ExplorationStep]:
    """The steps of a log as bundles should show them: one that kept fewer rows than its query
    returned carries a caveat that says so."""
    return [_with_caveat(step) for step in steps]


def _with_caveat(step: ExplorationStep) -> ExplorationStep:
    kept = len(step.query_result)
    if not step.succeeded or kept >= step.row_count:
        return step
    detail = f"the log kept {kept:,} of the {step.row_count:,} rows that this query returned"
    caveat = Quality(kind=QualityKind.TRUNCATED, detail=detail)
    return step.model_copy(update={"quality": [*step.quality, caveat]})


async def replay(
    discovery: DiscoveryResult, validator: Validator, *, only: Collection[str] = ()
) -> list[Replayed]:
    """Verify and refute the documents of ``discovery`` again, insights first.

    ``validator.source`` is built from the stored steps. ``only`` picks documents by id or ref;
    empty means all. No cap applies. Raises ``NotFound`` for an unknown id and ``BadRequest``
    without agents.
    """
    if validator.agents is None:
        raise BadRequest("a replay needs a model; this one has none")
    insights = [i for i in discovery.insights if not only or {i.id, i.ref} & set(only)]
    recs = [r for r in discovery.recommendations if not only or r.id in only]
    known = {key for i in insights for key in (i.id, i.ref)} | {r.id for r in recs}
    if missing := sorted(set(only) - known):
        raise NotFound(f"discovery {discovery.id} has no document {', '.join(missing)}")
    fresh_insights = [insight.model_copy(deep=True) for insight in insights]
    fresh_recs = [rec.model_copy(deep=True) for rec in recs]
    rows = await validate_insights(fresh_insights, validator, Budget(len(fresh_insights)))
    rows += await validate_recommendations(
        fresh_recs, discovery.insights, validator, Budget(len(fresh_recs))
    )
    stored = {doc.id: doc.validation for doc in [*insights, *recs]}
    fresh = {doc.id: doc for doc in [*fresh_insights, *fresh_recs]}
    return [_replayed(fresh[row.insight_id], row, stored[row.insight_id]) for row in rows]


def _replayed(
    doc: Insight | Recommendation, row: ValidationResult, before: InsightValidation | None
) -> Replayed:
    after = doc.validation or InsightValidation()
    return Replayed(doc, row, before, after, changes(before, after))


def changes(before: InsightValidation | None, after: InsightValidation) -> list[Change]:
    """What differs: the combined status, both overalls, and the status of each claim."""
    old = before or InsightValidation()
    pairs = [("combined", old.combined or old.status, after.combined or after.status)]
    for name, was, now in (
        ("verifier", old.verifier, after.verifier),
        ("refuter", old.refuter, after.refuter),
    ):
        pairs.append((f"{name} overall", _overall(was), _overall(now)))
        pairs += _claim_pairs(name, was, now)
    return [Change(what, str(one), str(two)) for what, one, two in pairs if one != two]


def _overall(verdict: StructuredVerdict | None) -> str:
    return verdict.overall if verdict else ""


def _claim_pairs(
    name: str, was: StructuredVerdict | None, now: StructuredVerdict | None
) -> Sequence[tuple[str, str, str]]:
    one, two = (
        {claim.claim_text: claim.status for claim in verdict.claim_verdicts} if verdict else {}
        for verdict in (was, now)
    )
    texts = dict.fromkeys([*one, *two])
    return [(f"{name} claim: {text}", one.get(text, ""), two.get(text, "")) for text in texts]
