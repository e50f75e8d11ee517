"""Phases 4.5 and 5.5: every insight and every recommendation is judged, or says why not."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipeline.errors import RunSuperseded
from pipeline.records import (
    AgentMode,
    DocKind,
    Insight,
    InsightValidation,
    Recommendation,
    Status,
    StructuredVerdict,
    ValidationResult,
)
from pipeline.settings import ValidationSettings
from pipeline.validation.agents import ValidationAgents
from pipeline.validation.bundle import Bundle, BundleSource
from pipeline.validation.combine import combine
from pipeline.validation.policy import SequentialValidation, ValidationPolicy

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Budget:
    """How many more documents of one kind this run may judge; threaded through all areas."""

    limit: int
    used: int = 0
    """A resumed run sets this to what its restored areas have used."""

    def take(self) -> bool:
        """Claim one document's place; False when the cap is reached."""
        if self.used >= self.limit:
            return False
        self.used += 1
        return True


@dataclass(frozen=True, slots=True)
class Judged:
    """A document and what came of it, as a listener sees it."""

    doc: Insight | Recommendation
    validation: InsightValidation
    position: int
    """Counted from 1 within the call."""
    total: int


async def _unheard(_: Judged) -> None:
    """No listener."""


Listener = Callable[[Judged], Awaitable[None]]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Validator:
    """What both phases need besides the documents."""

    source: BundleSource
    agents: ValidationAgents | None
    """None when validation is switched off or there is no model."""
    settings: ValidationSettings = field(default_factory=ValidationSettings)
    policy: ValidationPolicy = field(default_factory=SequentialValidation)
    clock: Callable[[], datetime] = _now
    listener: Listener = _unheard

    @property
    def refuter_disabled(self) -> bool:
        return not self.settings.VALIDATION_REFUTER_ENABLED


async def validate_insights(
    insights: Sequence[Insight], validator: Validator, budget: Budget
) -> list[ValidationResult]:
    """Phase 4.5 for one area: stamp ``insight.validation`` and return the log rows.

    Insights go by ``affected_count``, largest first, equal ones in the order given; those beyond
    the budget are stamped ``skipped_budget_cap``. The writer's figures are never touched.
    """
    ordered = sorted(insights, key=lambda insight: -insight.affected_count)
    jobs = [_Job(insight, validator.source.for_insight) for insight in ordered]
    return await _run(jobs, validator, budget)


async def validate_recommendations(
    recommendations: Sequence[Recommendation],
    insights: Sequence[Insight],
    validator: Validator,
    budget: Budget,
) -> list[ValidationResult]:
    """Phase 5.5: stamp ``recommendation.validation`` in the order given and return the log rows.

    ``insights`` are those that the recommendations may cite, by id or ref.
    """

    def bundle(rec: Recommendation) -> Bundle:
        return validator.source.for_recommendation(rec, insights)

    return await _run([_Job(rec, bundle) for rec in recommendations], validator, budget)


async def judge(
    bundle: Bundle, agents: ValidationAgents, *, refuter_disabled: bool
) -> InsightValidation:
    """Verifier, then refuter (if enabled) with the verifier's claims, then ``combine``.

    An agent that dies costs the document one retry; the second death ends as an unverifiable
    verdict with the reason. ``RunSuperseded`` and cancellation pass through.
    """
    calls = _Calls(agents)
    verifier = await calls.ask(AgentMode.VERIFIER, bundle)
    refuter: StructuredVerdict | None = None
    if not refuter_disabled:
        prior = bundle.model_copy(update={"prior_claims": list(verifier.claims_considered)})
        refuter = await calls.ask(AgentMode.REFUTER, prior)
    verdicts = [v for v in (verifier, refuter) if v is not None]
    return InsightValidation(
        verifier=verifier,
        refuter=refuter,
        combined=combine(verifier, refuter, refuter_disabled=refuter_disabled),
        refuter_disabled=refuter_disabled,
        warehouse_id=bundle.warehouse.datasource_id,
        query=_headline_query(verifier),
        input_tokens=sum(v.stats.llm_tokens_in for v in verdicts),
        output_tokens=sum(v.stats.llm_tokens_out for v in verdicts),
    )


# ---------------------------------------------------------------- inside


@dataclass(frozen=True)
class _Job:
    doc: Insight | Recommendation
    build: Callable[..., Bundle]


class _Calls:
    """The calls for one document, which share one retry."""

    def __init__(self, agents: ValidationAgents) -> None:
        self._agents = agents
        self._retries_left = 1

    async def ask(self, mode: AgentMode, bundle: Bundle) -> StructuredVerdict:
        call = self._agents.verify if mode is AgentMode.VERIFIER else self._agents.refute
        while True:
            try:
                return await call(bundle)
            except RunSuperseded:
                raise
            except Exception as error:  # noqa: BLE001 - an actor may die of anything
                reason = str(error) or type(error).__name__
                log.warning("%s of %s failed: %s", mode.value, bundle.doc.id, reason)
                if not self._retries_left:
                    return _gave_up(mode, bundle, reason)
                self._retries_left -= 1


def _gave_up(mode: AgentMode, bundle: Bundle, reason: str) -> StructuredVerdict:
    return StructuredVerdict(
        doc_id=bundle.doc.id,
        doc_kind=bundle.doc.kind.value,
        mode=mode.value,
        overall=Status.UNVERIFIABLE.value,
        overall_reason=f"the {mode.value} failed after one retry: {reason}",
    )


async def _run(
    jobs: Sequence[_Job], validator: Validator, budget: Budget
) -> list[ValidationResult]:
    agents = validator.agents
    if agents is None:
        for job in jobs:
            job.doc.validation = _disabled(validator)
        return []
    within = {id(job) for job in jobs if budget.take()}
    rows: list[ValidationResult] = []

    async def work(job: _Job) -> tuple[_Job, InsightValidation]:
        if id(job) not in within:
            return job, _skipped(validator)
        return job, await _judged(job, agents, validator)

    async def settled(result: tuple[_Job, InsightValidation]) -> None:
        job, validation = result
        validation.validated_at = validator.clock()
        _stamp(job.doc, validation)
        rows.append(_log_row(job.doc, validation, validator))
        await validator.listener(Judged(job.doc, validation, len(rows), len(jobs)))

    await validator.policy.run(jobs, work, settled)
    return rows


async def _judged(job: _Job, agents: ValidationAgents, validator: Validator) -> InsightValidation:
    try:
        bundle = job.build(job.doc)
    except Exception as error:  # noqa: BLE001 - lost rows of one document must not end the run
        log.warning("the evidence of %s cannot be put together: %s", job.doc.id, error)
        kind = DocKind.INSIGHT if isinstance(job.doc, Insight) else DocKind.RECOMMENDATION
        verdict = StructuredVerdict(
            doc_id=job.doc.id,
            doc_kind=kind.value,
            mode=AgentMode.VERIFIER.value,
            overall=Status.UNVERIFIABLE.value,
            overall_reason=f"the evidence cannot be put together: {str(error) or repr(error)}",
        )
        return InsightValidation(
            verifier=verdict,
            combined=combine(verdict, None, refuter_disabled=validator.refuter_disabled),
            refuter_disabled=validator.refuter_disabled,
        )
    return await judge(bundle, agents, refuter_disabled=validator.refuter_disabled)


def _disabled(validator: Validator) -> InsightValidation:
    """No log row, no tokens; the legacy status is filled for lists that still read it."""
    return InsightValidation(
        combined=Status.VALIDATION_DISABLED,
        status=Status.VALIDATION_DISABLED.value,
        refuter_disabled=validator.refuter_disabled,
    )


def _skipped(validator: Validator) -> InsightValidation:
    return InsightValidation(
        combined=Status.SKIPPED_BUDGET_CAP, refuter_disabled=validator.refuter_disabled
    )


def _stamp(doc: Insight | Recommendation, validation: InsightValidation) -> None:
    """Legacy ``status`` and ``reasoning`` are filled for judged insights only."""
    if isinstance(doc, Insight):
        validation.original_count = doc.affected_count
        if validation.verifier is not None and validation.combined is not None:
            validation.status = validation.combined.value
            validation.reasoning = validation.verifier.overall_reason
    doc.validation = validation


def _log_row(
    doc: Insight | Recommendation, validation: InsightValidation, validator: Validator
) -> ValidationResult:
    is_insight = isinstance(doc, Insight)
    verifier = validation.verifier
    return ValidationResult(
        project_id=validator.source.discovery.project_id,
        insight_id=doc.id,
        analysis_area=doc.analysis_area if is_insight else "",
        doc_kind=DocKind.INSIGHT if is_insight else DocKind.RECOMMENDATION,
        claimed_count=doc.affected_count if is_insight else doc.segment_size,
        claimed_metric="affected_count" if is_insight else "segment_size",
        status=validation.combined.value if validation.combined else "",
        combined=validation.combined,
        refuter_disabled=validation.refuter_disabled,
        verifier=verifier,
        refuter=validation.refuter,
        warehouse_id=validation.warehouse_id,
        reasoning=verifier.overall_reason if verifier else "",
        query=validation.query,
        validated_at=validation.validated_at,
        input_tokens=validation.input_tokens,
        output_tokens=validation.output_tokens,
    )


def _headline_query(verdict: StructuredVerdict) -> str:
    claims = sorted(verdict.claim_verdicts, key=lambda claim: not claim.is_headline)
    return next((c.evidence.query_sql for c in claims if c.evidence.query_sql), "")
