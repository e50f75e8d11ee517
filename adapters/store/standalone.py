"""Insights and recommendations as documents of their own, for search and later runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters.store.documents import Document, all_from, from_document, to_document
from pipeline.errors import NotFound
from pipeline.records import StandaloneDoc

if TYPE_CHECKING:
    from adapters.store.client import Collection

INSIGHT_FIELDS = {"analysis_area": "analysis_area", "severity": "severity"}
RECOMMENDATION_FIELDS = {"recommendation_category": "category"}


class StandaloneRepository:
    """Collection ``insights`` or ``recommendations``.

    ``copied`` names the fields of the inner document that are stored outside it too, by the name
    that they have there, because indexes and filters use them.
    """

    def __init__(self, collection: Collection, copied: Mapping[str, str]) -> None:
        self._docs, self._copied = collection, copied

    async def save(self, doc: StandaloneDoc) -> None:
        """Store a document; saving the same id again replaces it."""
        copies = {outer: doc.doc.get(inner) for outer, inner in self._copied.items()}
        await self._docs.replace({"_id": doc.id}, to_document(doc, **copies), upsert=True)

    async def find(self, doc_id: str) -> StandaloneDoc | None:
        document = await self._docs.find_one({"_id": doc_id})
        return None if document is None else from_document(StandaloneDoc, document)

    async def get(self, doc_id: str) -> StandaloneDoc:
        """Raises ``NotFound``."""
        doc = await self.find(doc_id)
        if doc is None:
            raise NotFound(f"there is no document {doc_id!r}")
        return doc

    async def of_project(
        self, project_id: str, limit: int = 0, **where: Any
    ) -> list[StandaloneDoc]:
        """Newest first; ``where`` is equality on ``analysis_area``, ``severity`` and the like."""
        return await self._newest({"project_id": project_id, **where}, limit)

    async def of_discovery(self, discovery_id: str) -> list[StandaloneDoc]:
        """Newest first."""
        return await self._newest({"discovery_id": discovery_id}, 0)

    async def _newest(self, where: Document, limit: int) -> list[StandaloneDoc]:
        found = await self._docs.find(where, [("created_at", -1), ("_id", 1)], limit)
        return all_from(StandaloneDoc, found)

    async def delete_of_discovery(self, discovery_id: str) -> int:
        return await self._docs.delete({"discovery_id": discovery_id})
