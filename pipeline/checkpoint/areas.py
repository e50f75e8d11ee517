"""Completed analysis areas: brought back into a resumed run as findings of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pipeline.records import (
    AnalysisStep,
    Insight,
    InsightValidation,
    StructuredVerdict,
    ValidationResult,
)


def new_id() -> str:
    return str(uuid.uuid4())


def restored(step: AnalysisStep, fresh: Callable[[], str] = new_id) -> AnalysisStep:
    """A copy of a completed area whose insights have fresh ids.

    No identity crosses attempts: an insight's id keys its document of its own and its vector, which
    the earlier attempt may have written before it died. Every reference to an insight is
    re-pointed: its validation results, and the verdicts in them and on the insight itself.
    """
    copy = step.model_copy(deep=True)
    ids = {insight.id: fresh() for insight in copy.insights}
    for insight in copy.insights:
        _readdress(insight, ids)
    for result in copy.validation_results:
        result.id = result.discovery_id = ""
        result.insight_id = ids.get(result.insight_id, result.insight_id)
        _readdress_verdicts(result, ids)
    copy.id = copy.discovery_id = ""
    return copy


def _readdress(insight: Insight, ids: dict[str, str]) -> None:
    insight.id = ids[insight.id]
    if insight.validation is not None:
        _readdress_verdicts(insight.validation, ids)


def _readdress_verdicts(judged: InsightValidation | ValidationResult, ids: dict[str, str]) -> None:
    for verdict in (judged.verifier, judged.refuter):
        if isinstance(verdict, StructuredVerdict):
            verdict.doc_id = ids.get(verdict.doc_id, verdict.doc_id)
