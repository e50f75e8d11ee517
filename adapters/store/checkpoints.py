"""Checkpoints: what survives of a run that dies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adapters.store.documents import (
    Document,
    all_from,
    from_document,
    step_document,
    step_from,
    to_document,
)
from pipeline.checkpoint.prefix import contiguous, summary_of
from pipeline.errors import RunSuperseded
from pipeline.records.checkpoint import (
    SUMMARY_NUMBER,
    AreaCheckpoint,
    CheckpointKind,
    StepCheckpoint,
)

if TYPE_CHECKING:
    from adapters.store.client import Collection


class CheckpointRepository:
    """Collection ``discovery_checkpoints``: one row per finished step, and one summary."""

    def __init__(self, collection: Collection) -> None:
        self._rows = collection

    async def save(self, row: StepCheckpoint) -> None:
        """Write a row, over one of the same or an earlier attempt.

        Raises ``RunSuperseded`` when a newer attempt has written it already.
        """
        from adapters.store.client import DuplicateKey, encoded_size

        if row.kind is CheckpointKind.EXPLORATION_SUMMARY:
            row = row.model_copy(update={"step_number": SUMMARY_NUMBER})
        key = f"{row.run_id}:{row.step_number}"
        document: Document = {"_id": key, **to_document(row.model_copy(update={"step": None}))}
        if row.step is not None:
            document["step"] = step_document(row.step, encoded_size)
        # "not newer than mine" rather than "at most mine", so that rows without an attempt match
        where = {
            "run_id": row.run_id,
            "step_number": row.step_number,
            "attempt": {"$not": {"$gt": row.attempt}},
        }
        try:
            await self._rows.replace(where, document, upsert=True)
        except DuplicateKey as error:
            raise RunSuperseded(
                f"a newer attempt of run {row.run_id} has written step {row.step_number}"
            ) from error

    async def rows(self, run_id: str) -> list[StepCheckpoint]:
        """All rows of a run, by number; the summary first."""
        found = await self._rows.find({"run_id": run_id}, [("step_number", 1)])
        return [_read(document) for document in found]

    async def load(self, run_id: str) -> tuple[list[StepCheckpoint], StepCheckpoint | None]:
        """The replayable prefix, and the summary if exploration had ended with just that."""
        rows = await self.rows(run_id)
        prefix = contiguous(rows)
        return prefix, summary_of(rows, prefix)

    async def summary(self, run_id: str) -> StepCheckpoint | None:
        """The summary as it is stored, usable or not."""
        found = await self._rows.find_one({"run_id": run_id, "step_number": SUMMARY_NUMBER})
        return None if found is None else _read(found)

    async def renew(self, run_id: str) -> None:
        """Let a run's rows live as long again as if they were written now."""
        await self._rows.update_all({"run_id": run_id}, {"$set": {"created_at": datetime.now(UTC)}})

    async def delete(self, run_id: str) -> int:
        """Delete a run's rows; returns how many."""
        return await self._rows.delete({"run_id": run_id})


class AreaCheckpointRepository:
    """Collection ``discovery_analysis_checkpoints``: one row per completed analysis area."""

    def __init__(self, collection: Collection) -> None:
        self._rows = collection

    async def save(self, row: AreaCheckpoint) -> None:
        """Write a row, over one of the same or an earlier attempt.

        Raises ``RunSuperseded`` when a newer attempt has written it already.
        """
        from adapters.store.client import DuplicateKey

        document: Document = {"_id": f"{row.run_id}:{row.area_id}", **to_document(row)}
        where = {
            "run_id": row.run_id,
            "area_id": row.area_id,
            "attempt": {"$not": {"$gt": row.attempt}},
        }
        try:
            await self._rows.replace(where, document, upsert=True)
        except DuplicateKey as error:
            raise RunSuperseded(
                f"a newer attempt of run {row.run_id} has completed the area {row.area_id}"
            ) from error

    async def of_run(self, run_id: str) -> list[AreaCheckpoint]:
        """A run's completed areas, by id."""
        return all_from(AreaCheckpoint, await self._rows.find({"run_id": run_id}, [("area_id", 1)]))

    async def renew(self, run_id: str) -> None:
        """Let a run's rows live as long again as if they were written now."""
        await self._rows.update_all({"run_id": run_id}, {"$set": {"created_at": datetime.now(UTC)}})

    async def delete(self, run_id: str) -> int:
        """Delete a run's rows; returns how many."""
        return await self._rows.delete({"run_id": run_id})


def _read(document: Mapping[str, Any]) -> StepCheckpoint:
    step = document.get("step")
    row = from_document(StepCheckpoint, {**document, "step": None})
    return row.model_copy(update={"step": step_from(step)}) if step else row
