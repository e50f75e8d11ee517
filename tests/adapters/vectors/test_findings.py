"""Reference M: what is embedded, stored, found again and taken for a duplicate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from adapters.embeddings.hashing import HashingEmbedder
from adapters.vectors import OpenedVectors
from adapters.vectors.findings import FindingsIndex, embedding_text
from pipeline.errors import VectorsUnavailable
from pipeline.records import StandaloneDoc

INSIGHT = {
    "name": "Late departures grow",
    "description": "Delays rise from May to July",
    "analysis_area": "trends",
    "severity": "high",
    "target_segment": "all carriers",
    "confidence": 0.9,
}
RECOMMENDATION = {
    "title": "Add buffers in summer",
    "description": "Plan longer turnarounds.",
    "expected_impact": {"metric": "departure delay", "estimated_improvement": "-10 %"},
    "target_segment": "summer flights",
    "confidence": 0.7,
}


def _doc(
    run: str = "r1", *, kind: str = "insight", project: str = "p1", **fields: Any
) -> StandaloneDoc:
    return StandaloneDoc(
        id=str(uuid4()),
        kind=kind,
        discovery_id=f"d-{run}",
        project_id=project,
        run_id=run,
        doc=(INSIGHT if kind == "insight" else RECOMMENDATION) | fields,
        created_at=datetime(2026, 11, 30, tzinfo=UTC),
    )


class AngleEmbedder:
    """Two dimensions; the name of a finding is its angle, so that cosines are exact."""

    id, dim = "angle", 2

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A unit vector whose first number is the text's first word."""
        cosines = [float(text.split(". ")[0]) for text in texts]
        return [[c, (1 - c * c) ** 0.5] for c in cosines]


@pytest.fixture
def findings(vectors: OpenedVectors) -> FindingsIndex:
    return FindingsIndex(HashingEmbedder(), vectors)


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (
            _doc(),
            "Late departures grow. Delays rise from May to July. Area: trends. Severity: high. "
            "Segment: all carriers.",
        ),
        (
            _doc(kind="recommendation"),
            "Add buffers in summer. Plan longer turnarounds. Impact: departure delay -10 %. "
            "Segment: summer flights.",
        ),
        (
            _doc(description="Why?", target_segment="", severity=None),
            "Late departures grow. Why? Area: trends.",
        ),
        (
            _doc(kind="recommendation", expected_impact=None, target_segment=None),
            "Add buffers in summer. Plan longer turnarounds.",
        ),
    ],
)
def test_the_embedded_text(doc: StandaloneDoc, text: str) -> None:
    assert embedding_text(doc) == text


async def test_publishing_sets_the_fields_and_stores_what_search_shows(
    findings: FindingsIndex,
) -> None:
    insight, recommendation = _doc(), _doc(kind="recommendation")
    await findings.publish([insight, recommendation], exclude_run="r1")
    assert findings.collection == "veridical_384"
    assert insight.embedding_model == "hashing-char-3-5-384"
    assert insight.embedding_text.startswith("Late departures grow.")
    assert (insight.duplicate_of, insight.similarity_score) == ("", 0.0)
    best, other = await findings.search("Late departures grow", project_id="p1")
    assert (best.id, other.id) == (insight.id, recommendation.id)
    assert best.payload == {
        "type": "insight",
        "project_id": "p1",
        "discovery_id": "d-r1",
        "run_id": "r1",
        "embedding_model": "hashing-char-3-5-384",
        "severity": "high",
        "analysis_area": "trends",
        "confidence": 0.9,
        "created_at": "2026-11-30T00:00:00+00:00",
        "name": "Late departures grow",
    }
    assert other.payload["name"] == "Add buffers in summer"


async def test_search_keeps_to_project_kind_and_limit(findings: FindingsIndex) -> None:
    assert await findings.search("anything", project_id="p1") == []
    docs = [_doc(), _doc(kind="recommendation"), _doc(project="p2")]
    await findings.publish(docs, exclude_run="r1")

    async def found(**options: Any) -> set[str]:
        return {hit.id for hit in await findings.search("delays", **options)}

    assert await found(project_id="p1") == {docs[0].id, docs[1].id}
    assert await found(project_id="p1", kind="recommendation") == {docs[1].id}
    assert await found(project_id="") == {doc.id for doc in docs}
    assert len(await found(project_id="", limit=2)) == 2


async def test_the_same_finding_of_an_earlier_run_is_marked_and_still_stored(
    findings: FindingsIndex,
) -> None:
    first, second = _doc("r1"), _doc("r2")
    await findings.publish([first], exclude_run="r1")
    await findings.publish([second], exclude_run="r2")
    assert (second.duplicate_of, second.similarity_score) == (first.id, 1.0)
    assert len(await findings.search("late", project_id="p1")) == 2


@pytest.mark.parametrize(
    ("earlier", "run"),
    [
        (_doc("r1"), "r1"),  # a run never deduplicates against its own earlier attempts
        (_doc("r1", project="p2"), "r2"),
        (_doc("r1", name="Something quite different", description="Wind speed at noon"), "r2"),
    ],
    ids=["same run", "other project", "other text"],
)
async def test_what_is_no_duplicate(
    findings: FindingsIndex, earlier: StandaloneDoc, run: str
) -> None:
    await findings.publish([earlier], exclude_run="r1")
    doc = _doc(run)
    await findings.publish([doc], exclude_run=run)
    assert (doc.duplicate_of, doc.similarity_score) == ("", 0.0)


async def test_docs_published_together_are_no_duplicates_of_each_other(
    findings: FindingsIndex,
) -> None:
    docs = [_doc(), _doc()]
    await findings.publish(docs, exclude_run="r1")
    assert [doc.duplicate_of for doc in docs] == ["", ""]


@pytest.mark.parametrize(
    ("cosine", "duplicate"), [("0.96", True), ("0.9501", True), ("0.9499", False), ("0.5", False)]
)
async def test_the_threshold_is_a_cosine_of_095(
    vectors: OpenedVectors, cosine: str, duplicate: bool
) -> None:
    findings = FindingsIndex(AngleEmbedder(), vectors)
    earlier, doc = _doc("r1", name="1.0"), _doc("r2", name=cosine)
    await findings.publish([earlier], exclude_run="r1")
    await findings.publish([doc], exclude_run="r2")
    assert doc.duplicate_of == (earlier.id if duplicate else "")
    assert doc.similarity_score == pytest.approx(float(cosine) if duplicate else 0, abs=1e-3)


async def test_many_findings_of_the_run_itself_do_not_hide_an_earlier_duplicate(
    vectors: OpenedVectors,
) -> None:
    findings = FindingsIndex(AngleEmbedder(), vectors)
    earlier = _doc("r1", name="0.99")
    await findings.publish([earlier], exclude_run="r1")
    own = [_doc("r2", name="1.0") for _ in range(70)]
    await findings.publish(own, exclude_run="r2")
    again = _doc("r2", name="1.0")
    await findings.publish([again], exclude_run="r2")
    assert again.duplicate_of == earlier.id


async def test_publishing_again_replaces_and_forgetting_removes(findings: FindingsIndex) -> None:
    one, two = _doc("r1"), _doc("r2", project="p2")
    for _ in range(2):
        await findings.publish([one, two], exclude_run="r1")
    await findings.publish([], exclude_run="r1")
    assert len(await findings.search("late", project_id="")) == 2
    await findings.forget()
    await findings.forget(discovery_id="d-r1")
    assert [h.id for h in await findings.search("late", project_id="")] == [two.id]
    await findings.forget(project_id="p2")
    assert await findings.search("late", project_id="") == []


async def test_another_embedder_of_the_same_size_is_refused(vectors: OpenedVectors) -> None:
    await FindingsIndex(HashingEmbedder(2), vectors).publish([_doc()], exclude_run="r1")
    with pytest.raises(VectorsUnavailable, match="use that embedding model again"):
        await FindingsIndex(AngleEmbedder(), vectors).search("1.0", project_id="p1")
