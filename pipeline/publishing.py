"""Phases 7 and 9: the finished discovery is saved, then its findings are embedded for search. What
a resumed run supersedes is retired afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.errors import RunSuperseded, VeridicalError
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


class Forgetful(Protocol):
    """The vectors of published findings."""

    async def forget(self, *, discovery_id: str) -> None: ...


class Shelf(Protocol):
    """Where discoveries and what was derived from them lie."""

    async def delete_discovery(self, discovery_id: str) -> None: ...


async def retire(findings: Forgetful, shelf: Shelf, discovery_ids: Iterable[str]) -> list[str]:
    """Remove discoveries with their vectors, documents and logs; returns those that are gone.

    All or nothing: ids of documents are the ids of their vectors, so a vector that outlived its
    document would be found and could not be shown. Where the vectors stay, everything stays: two
    results of one run, which everybody can see and a later attempt can retire.
    """
    gone: list[str] = []
    for discovery_id in discovery_ids:
        try:
            await findings.forget(discovery_id=discovery_id)
            await shelf.delete_discovery(discovery_id)
        except VeridicalError as error:
            log.warning("the superseded discovery %s stays: %s", discovery_id, error)
        else:
            gone.append(discovery_id)
    return gone


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
