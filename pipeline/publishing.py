"""Phases 7 and 9: the finished discovery is saved, then its findings are embedded for search."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pipeline.errors import RunSuperseded
from pipeline.ports import Archive, Findings
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DocKind,
    ExplorationStep,
    Insight,
    Recommendation,
    RecommendationStep,
    StandaloneDoc,
    ValidationResult,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Logs:
    """The dialogues and steps of a run, stored beside its discovery."""

    exploration: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    analysis: list[AnalysisStep] = field(default_factory=list[AnalysisStep])
    validation: list[ValidationResult] = field(default_factory=list[ValidationResult])
    recommendation: RecommendationStep | None = None


async def save(archive: Archive, result: DiscoveryResult, logs: Logs) -> None:
    """Phase 7: write the discovery, then its split logs. Raises ``StoreUnavailable`` when the
    discovery itself cannot be kept; a log that cannot be written is the archive's to report."""
    await archive.save_discovery(
        result,
        exploration=logs.exploration,
        analysis=logs.analysis,
        validation=logs.validation,
        recommendation=logs.recommendation,
    )


async def publish(findings: Findings, archive: Archive, result: DiscoveryResult) -> str:
    """Phase 9: embed and index every finding, and keep it as a document of its own.

    Never fatal. Returns what went wrong as one sentence, empty when nothing did. Documents are kept
    even where embedding failed, so that lists are complete and embedding can be made up for.
    """
    docs = standalone_docs(result)
    problems: list[str] = []
    try:
        await findings.publish(docs, exclude_run=result.run_id)
    except RunSuperseded:
        raise
    except Exception as error:  # noqa: BLE001 - search can be made up for, a discovery cannot
        log.warning("embedding failed: %s", error)
        problems.append(f"the findings were saved but not indexed for search: {error}")
    try:
        await archive.save_standalone(docs)
    except RunSuperseded:
        raise
    except Exception as error:  # noqa: BLE001 - the discovery already holds all of them
        log.warning("standalone documents could not be written: %s", error)
        problems.append(f"the findings were saved but not listed one by one: {error}")
    return "; ".join(problems)


def standalone_docs(result: DiscoveryResult) -> list[StandaloneDoc]:
    """Each insight and recommendation as search and later runs read it."""
    insights = [_document(result, DocKind.INSIGHT, insight) for insight in result.insights]
    recommendations = [
        _document(result, DocKind.RECOMMENDATION, advice) for advice in result.recommendations
    ]
    return insights + recommendations


def _document(
    result: DiscoveryResult, kind: DocKind, doc: Insight | Recommendation
) -> StandaloneDoc:
    return StandaloneDoc(
        id=doc.id,
        kind=kind.value,
        discovery_id=result.id,
        project_id=result.project_id,
        run_id=result.run_id,
        domain=result.domain,
        category=result.category,
        doc=doc.model_dump(mode="json"),
        created_at=result.discovery_date,
    )
