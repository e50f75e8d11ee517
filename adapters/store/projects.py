"""Projects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.store.documents import all_from, from_document, to_document
from pipeline.errors import Conflict, NotFound
from pipeline.records import Project

if TYPE_CHECKING:
    from adapters.store.client import Collection


class ProjectRepository:
    """Collection ``projects``."""

    def __init__(self, collection: Collection) -> None:
        self._projects = collection

    async def create(self, project: Project) -> Project:
        """Store a new project; returns it with its times. Raises ``Conflict`` on a taken id."""
        from adapters.store.client import DuplicateKey

        now = datetime.now(UTC)
        project = project.model_copy(
            update={"created_at": project.created_at or now, "updated_at": now}
        )
        try:
            await self._projects.insert(to_document(project))
        except DuplicateKey as error:
            raise Conflict(f"project {project.id} exists already") from error
        return project

    async def find(self, project_id: str) -> Project | None:
        document = await self._projects.find_one({"_id": project_id})
        return None if document is None else from_document(Project, document)

    async def get(self, project_id: str) -> Project:
        """Raises ``NotFound``."""
        project = await self.find(project_id)
        if project is None:
            raise NotFound(
                f"there is no project {project_id!r}; `veridical project list` shows which are"
            )
        return project

    async def newest_first(self, limit: int = 0) -> list[Project]:
        """All projects; ``limit`` 0 means no limit."""
        return all_from(Project, await self._projects.find({}, [("created_at", -1)], limit))

    async def by_name(self, name: str) -> list[Project]:
        """Projects of exactly this name, newest first."""
        return all_from(Project, await self._projects.find({"name": name}, [("created_at", -1)]))

    async def replace(self, project: Project) -> Project:
        """Store a changed project. Raises ``NotFound``."""
        project = project.model_copy(update={"updated_at": datetime.now(UTC)})
        document = to_document(project)
        if not await self._projects.replace({"_id": project.id}, document, upsert=False):
            raise NotFound(f"there is no project {project.id!r}")
        return project
