"""Phases 7 and 9: saving is what counts, search may fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.errors import RunSuperseded, StoreUnavailable, VectorsUnavailable
from pipeline.ports import VectorHit
from pipeline.publishing import publish, retire, standalone_docs
from pipeline.records import (
    DiscoveryResult,
    ExpectedImpact,
    Insight,
    Recommendation,
    Severity,
    StandaloneDoc,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)
INSIGHT = Insight(
    id="i1",
    ref="trends-1",
    analysis_area="trends",
    name="Delays rise",
    description="From 8 to 16.",
    severity=Severity.HIGH,
    target_segment="summer",
)
ADVICE = Recommendation(
    id="r1",
    title="Add staff",
    expected_impact=ExpectedImpact(metric="delay", estimated_improvement="-10 %"),
)
RESULT = DiscoveryResult(
    id="d",
    project_id="p",
    run_id="r",
    domain="general",
    category="any",
    discovery_date=NOW,
    insights=[INSIGHT],
    recommendations=[ADVICE],
)


class Shelf:
    """``Findings`` and ``Archive`` that keep or refuse."""

    def __init__(self, *, publishing: Exception | None = None, saving: Exception | None = None):
        self.publishing, self.saving = publishing, saving
        self.excluded, self.docs = "", list[StandaloneDoc]()

    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None:
        self.excluded = exclude_run
        if self.publishing:
            raise self.publishing
        for doc in docs:
            doc.embedding_model = "hash"

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]:
        return []

    async def save_discovery(self, result: DiscoveryResult, **logs: Any) -> None:
        raise AssertionError("not asked for")

    async def save_standalone(self, docs: Sequence[StandaloneDoc]) -> None:
        if self.saving:
            raise self.saving
        self.docs = list(docs)


def test_every_finding_is_a_document_of_its_own() -> None:
    insight, advice = standalone_docs(RESULT)
    assert (insight.id, insight.kind, advice.id, advice.kind) == (
        "i1",
        "insight",
        "r1",
        "recommendation",
    )
    assert (insight.discovery_id, insight.project_id, insight.run_id) == ("d", "p", "r")
    assert insight.doc["ref"] == "trends-1"
    assert insight.created_at == NOW


async def test_documents_are_embedded_before_they_are_listed() -> None:
    shelf = Shelf()
    assert await publish(shelf, shelf, RESULT) == ""
    assert [doc.embedding_model for doc in shelf.docs] == ["hash", "hash"]
    assert shelf.excluded == "r"


async def test_embedding_failure_is_not_fatal_and_documents_are_kept() -> None:
    shelf = Shelf(publishing=VectorsUnavailable("disk full"))
    assert await publish(shelf, shelf, RESULT) == (
        "the findings were saved but not indexed for search: disk full"
    )
    assert len(shelf.docs) == 2


async def test_listing_failure_is_not_fatal_either() -> None:
    shelf = Shelf(saving=StoreUnavailable("gone"))
    assert "not listed one by one: gone" in await publish(shelf, shelf, RESULT)


async def test_a_lost_run_stops() -> None:
    shelf = Shelf(publishing=RunSuperseded("cancelled"))
    with pytest.raises(RunSuperseded):
        await publish(shelf, shelf, RESULT)


class Removal:
    """``Forgetful`` and ``Shelf``: what was removed, in order, and what cannot be."""

    def __init__(self, **stuck: Exception) -> None:
        self.stuck, self.gone = stuck, list[str]()

    async def forget(self, *, discovery_id: str) -> None:
        self._remove("vectors", discovery_id)

    async def delete_discovery(self, discovery_id: str) -> None:
        self._remove("rows", discovery_id)

    def _remove(self, what: str, discovery_id: str) -> None:
        if error := self.stuck.get(f"{what}_{discovery_id}"):
            raise error
        self.gone.append(f"{what} {discovery_id}")


@pytest.mark.parametrize(
    ("stuck", "removed", "retired"),
    [
        ({}, ["vectors a", "rows a", "vectors b", "rows b"], ["a", "b"]),
        ({"vectors_a": VectorsUnavailable("gone")}, ["vectors b", "rows b"], ["b"]),
        ({"rows_a": StoreUnavailable("full")}, ["vectors a", "vectors b", "rows b"], ["b"]),
    ],
)
async def test_retiring_a_superseded_result_is_all_or_nothing(
    stuck: dict[str, Exception], removed: list[str], retired: list[str]
) -> None:
    shelf = Removal(**stuck)
    assert await retire(shelf, shelf, ["a", "b"]) == retired
    assert shelf.gone == removed
