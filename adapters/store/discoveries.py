"""Results of runs, and the logs that are stored beside them.

The logs are split off because one long run with its rows overflowed the 16 MB of one document.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from adapters.store.documents import (
    Document,
    all_from,
    from_document,
    step_document,
    step_from,
    to_document,
)
from pipeline.errors import NotFound
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DocKind,
    ExplorationStep,
    InsightValidation,
    RecommendationStep,
    ValidationResult,
)

if TYPE_CHECKING:
    from adapters.store.client import Collection

Log = TypeVar("Log", AnalysisStep, RecommendationStep, ValidationResult)


class DiscoveryRepository:
    """Collection ``discoveries``."""

    def __init__(self, collection: Collection) -> None:
        self._discoveries = collection

    async def save(self, result: DiscoveryResult) -> None:
        """Store a result; saving the same id again replaces it."""
        now = datetime.now(UTC)
        document = to_document(
            result.model_copy(update={"created_at": result.created_at or now, "updated_at": now})
        )
        await self._discoveries.replace({"_id": result.id}, document, upsert=True)

    async def find(self, discovery_id: str) -> DiscoveryResult | None:
        document = await self._discoveries.find_one({"_id": discovery_id})
        return None if document is None else from_document(DiscoveryResult, document)

    async def get(self, discovery_id: str) -> DiscoveryResult:
        """Raises ``NotFound``."""
        found = await self.find(discovery_id)
        if found is None:
            raise NotFound(f"there is no discovery {discovery_id!r}")
        return found

    async def starting_with(self, prefix: str, limit: int) -> list[DiscoveryResult]:
        """Results whose id starts with ``prefix``, newest first."""
        return await self._newest({"_id": {"$gte": prefix, "$lt": prefix + "\uffff"}}, limit)

    async def save_validation(
        self, discovery_id: str, kind: DocKind, doc_id: str, validation: InsightValidation
    ) -> None:
        """Stamp one embedded document, by its id, in one atomic write that leaves its siblings as
        they are. Raises ``NotFound`` when the discovery or the document is gone."""
        field = "insights" if kind is DocKind.INSIGHT else "recommendations"
        stamp = {
            f"{field}.$[doc].validation": to_document(validation),
            "updated_at": datetime.now(UTC),
        }
        where = {"_id": discovery_id, f"{field}.id": doc_id}
        if not await self._discoveries.update(where, {"$set": stamp}, [{"doc.id": doc_id}]):
            raise NotFound(f"discovery {discovery_id!r} has no {kind} {doc_id!r} any more")

    async def by_run(self, run_id: str) -> list[DiscoveryResult]:
        """All results of a run (one per attempt that got so far), newest first."""
        return await self._newest({"run_id": run_id}, 0)

    async def recent(
        self, project_id: str, limit: int, *, exclude_run: str = ""
    ) -> list[DiscoveryResult]:
        """A project's results, newest first; ``limit`` 0 means no limit."""
        where: Document = {"project_id": project_id}
        if exclude_run:
            where["run_id"] = {"$ne": exclude_run}
        return await self._newest(where, limit)

    async def _newest(self, where: Document, limit: int) -> list[DiscoveryResult]:
        found = await self._discoveries.find(where, [("discovery_date", -1), ("_id", -1)], limit)
        return all_from(DiscoveryResult, found)

    async def delete(self, discovery_id: str) -> bool:
        return await self._discoveries.delete({"_id": discovery_id}) > 0


class ExplorationLog:
    """Collection ``discovery_exploration_steps``: the steps of a finished discovery."""

    def __init__(self, collection: Collection) -> None:
        self._steps = collection

    async def save(self, result: DiscoveryResult, steps: Sequence[ExplorationStep]) -> None:
        """Store a discovery's steps, in place of any that it had."""
        from adapters.store.client import encoded_size

        owner = {"project_id": result.project_id, "run_id": result.run_id}
        stamp = {"discovery_id": result.id, **owner, "created_at": datetime.now(UTC)}
        await self.delete(result.id)
        for step in steps:  # one by one: a step can be megabytes
            key = {"_id": f"{result.id}:{step.step}"}
            await self._steps.insert({**key, **step_document(step, encoded_size), **stamp})

    async def of(self, discovery_id: str) -> list[ExplorationStep]:
        """A discovery's steps in order."""
        found = await self._steps.find({"discovery_id": discovery_id}, [("step", 1)])
        return [step_from(document) for document in found]

    async def get(self, discovery_id: str, step: int) -> ExplorationStep:
        """Raises ``NotFound``."""
        found = await self._steps.find_one({"discovery_id": discovery_id, "step": step})
        if found is None:
            raise NotFound(f"discovery {discovery_id!r} has no step {step}")
        return step_from(found)

    async def delete(self, discovery_id: str) -> int:
        return await self._steps.delete({"discovery_id": discovery_id})


class DiscoveryLog(Generic[Log]):
    """A log with rows of one kind, ordered by the field ``order``."""

    def __init__(self, collection: Collection, kind: type[Log], order: str) -> None:
        self._rows, self._kind, self._order = collection, kind, order

    async def save(self, result: DiscoveryResult, rows: Sequence[Log]) -> None:
        """Store a discovery's rows, in place of any that it had; ids are filled in."""
        await self.delete(result.id)
        await self.append(result, rows)

    async def append(self, result: DiscoveryResult, rows: Sequence[Log]) -> None:
        """Store more rows of a discovery; ids are filled in."""
        from adapters.store.client import new_id

        owner: dict[str, Any] = {"discovery_id": result.id, "project_id": result.project_id}
        await self._rows.insert_many(
            [
                to_document(row.model_copy(update={"id": row.id or new_id(), **owner}))
                for row in rows
            ]
        )

    async def of(self, discovery_id: str) -> list[Log]:
        """A discovery's rows in order."""
        order = [(self._order, 1), ("_id", 1)]
        return all_from(self._kind, await self._rows.find({"discovery_id": discovery_id}, order))

    async def delete(self, discovery_id: str) -> int:
        return await self._rows.delete({"discovery_id": discovery_id})
