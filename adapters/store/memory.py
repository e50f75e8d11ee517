"""What a project remembers: ratings, and the context that runs hand on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.store.documents import all_from, from_document, to_document
from pipeline.records import Feedback, ProjectContext

if TYPE_CHECKING:
    from adapters.store.client import Collection


class FeedbackRepository:
    """Collection ``feedback``: one rating per target of a discovery."""

    def __init__(self, collection: Collection) -> None:
        self._ratings = collection

    async def save(self, rating: Feedback) -> Feedback:
        """Store a rating, in place of an earlier one of the same target, whose id it takes."""
        key = {
            "discovery_id": rating.discovery_id,
            "target_type": rating.target_type,
            "target_id": rating.target_id,
        }
        earlier = await self._ratings.find_one(key)
        if earlier is not None:
            rating = rating.model_copy(update={"id": str(earlier["_id"])})
        await self._ratings.replace(key, to_document(rating), upsert=True)
        return rating

    async def of_project(self, project_id: str) -> list[Feedback]:
        """Newest first."""
        found = await self._ratings.find({"project_id": project_id}, [("created_at", -1)])
        return all_from(Feedback, found)

    async def of_discovery(self, discovery_id: str) -> list[Feedback]:
        """Newest first."""
        found = await self._ratings.find({"discovery_id": discovery_id}, [("created_at", -1)])
        return all_from(Feedback, found)

    async def delete(self, rating_id: str) -> bool:
        return await self._ratings.delete({"_id": rating_id}) > 0


class ProjectContextRepository:
    """Collection ``project_context``: one document per project."""

    def __init__(self, collection: Collection) -> None:
        self._contexts = collection

    async def find(self, project_id: str) -> ProjectContext | None:
        document = await self._contexts.find_one({"project_id": project_id})
        return None if document is None else from_document(ProjectContext, document)

    async def save(self, context: ProjectContext) -> None:
        """Replace the project's context."""
        context = context.model_copy(update={"updated_at": datetime.now(UTC)})
        document = {"_id": context.project_id, **to_document(context)}
        await self._contexts.replace({"_id": context.project_id}, document, upsert=True)
