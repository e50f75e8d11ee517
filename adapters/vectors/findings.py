"""Published insights and recommendations as vectors: search, and near-duplicates (reference M)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pipeline.ports import Embedder, Point, VectorHit, VectorIndex
from pipeline.records import StandaloneDoc

DUPLICATE_FROM = 0.95
"""Cosine from which two findings of a kind count as the same."""

KEYS = ("type", "project_id", "discovery_id", "run_id", "severity", "analysis_area")
_FIRST_LOOK = 16


class FindingsIndex:
    """Implements ``Findings`` over an embedder and a vector index."""

    def __init__(self, embedder: Embedder, vectors: VectorIndex) -> None:
        self._embedder = embedder
        self._vectors = vectors

    @property
    def collection(self) -> str:
        """Named after the size of the vectors."""
        return f"veridical_{self._embedder.dim}"

    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None:
        """Embed, mark near-duplicates of other runs' docs of the same project and kind, and index.

        Sets ``embedding_text``, ``embedding_model``, ``duplicate_of`` and ``similarity_score``.
        Duplicates are indexed all the same. Raises ``VectorsUnavailable``.
        """
        if not docs:
            return
        await self._ensure()
        for doc in docs:
            doc.embedding_text = embedding_text(doc)
            doc.embedding_model = self._embedder.id
        vectors = await self._embedder.embed([doc.embedding_text for doc in docs])
        for doc, vector in zip(docs, vectors, strict=True):
            nearest = await self._nearest(doc, vector, {exclude_run, doc.run_id} - {""})
            doc.duplicate_of = nearest.id if nearest else ""
            doc.similarity_score = round(min(nearest.score, 1.0), 4) if nearest else 0.0
        points = [Point(d.id, v, payload(d)) for d, v in zip(docs, vectors, strict=True)]
        await self._vectors.upsert(self.collection, points)

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]:
        """The ``limit`` findings nearest in meaning, best first.

        An empty ``project_id`` searches all projects, an empty ``kind`` both kinds. Raises
        ``VectorsUnavailable``.
        """
        await self._ensure()
        where = {"project_id": project_id, "type": kind}
        vector = (await self._embedder.embed([text]))[0]
        chosen = {key: value for key, value in where.items() if value}
        return await self._vectors.search(self.collection, vector, limit, chosen)

    async def forget(self, *, discovery_id: str = "", project_id: str = "") -> None:
        """Remove a discovery's findings, or a project's; with neither, nothing."""
        where = {"discovery_id": discovery_id, "project_id": project_id}
        if chosen := {key: value for key, value in where.items() if value}:
            await self._vectors.delete(self.collection, chosen)

    async def _ensure(self) -> None:
        await self._vectors.ensure(self.collection, self._embedder.id, self._embedder.dim, KEYS)

    async def _nearest(
        self, doc: StandaloneDoc, vector: list[float], without_runs: set[str]
    ) -> VectorHit | None:
        """The nearest other finding that is near enough. Looks further as long as all that was seen
        belongs to the runs that do not count: a vector index filters by equality only."""
        where = {"project_id": doc.project_id, "type": doc.kind}
        limit = _FIRST_LOOK
        while True:
            hits = await self._vectors.search(self.collection, vector, limit, where)
            near = [hit for hit in hits if hit.score >= DUPLICATE_FROM]
            for hit in near:
                if hit.id != doc.id and hit.payload.get("run_id") not in without_runs:
                    return hit
            if len(near) < limit:
                return None
            limit *= 4


def embedding_text(doc: StandaloneDoc) -> str:
    """What a finding is embedded as: for an insight name, description, area, severity and segment,
    for a recommendation title, description, impact and segment. Empty ones are left out."""
    field = doc.doc.get
    if doc.kind == "recommendation":
        impact = cast("Mapping[str, Any]", field("expected_impact") or {})
        effect = [_text(impact.get("metric")), _text(impact.get("estimated_improvement"))]
        named = [("Impact", " ".join(word for word in effect if word))]
        head = "title"
    else:
        named = [("Area", _text(field("analysis_area"))), ("Severity", _text(field("severity")))]
        head = "name"
    named.append(("Segment", _text(field("target_segment"))))
    labelled = (f"{label}: {value}" for label, value in named if value)
    return _sentences([_text(field(head)), _text(field("description")), *labelled])


def payload(doc: StandaloneDoc) -> dict[str, Any]:
    """What is stored beside a finding's vector, for filters and lists."""
    field = doc.doc.get
    return {
        "type": doc.kind,
        "project_id": doc.project_id,
        "discovery_id": doc.discovery_id,
        "run_id": doc.run_id,
        "embedding_model": doc.embedding_model,
        "severity": _text(field("severity")),
        "analysis_area": _text(field("analysis_area")),
        "confidence": field("confidence"),
        "created_at": doc.created_at.isoformat(),
        "name": _text(field("name")) or _text(field("title")),
    }


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(
        part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in parts if part
    )
