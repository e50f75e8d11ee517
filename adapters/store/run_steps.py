"""The live feed of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.store.documents import all_from, to_document
from adapters.store.runs import attempt_filter
from pipeline.records import RunStep

if TYPE_CHECKING:
    from adapters.store.client import Collection


class RunStepRepository:
    """Collection ``discovery_run_steps``. Ids ascend within one writer, so they are the cursor."""

    def __init__(self, collection: Collection) -> None:
        self._steps = collection
        self._last = 0

    async def append(self, row: RunStep) -> RunStep:
        """Store a row under a new id; returns the row with it."""
        row = row.model_copy(update={"id": self._next_id()})
        await self._steps.insert(to_document(row))
        return row

    async def since(
        self, run_id: str, *, attempt: int = 0, since_id: str = "", limit: int = 500
    ) -> list[RunStep]:
        """Rows after ``since_id`` in order, of one attempt (0: of all)."""
        where = {"run_id": run_id, **attempt_filter(attempt)}
        if since_id:
            where["_id"] = {"$gt": since_id}
        found = await self._steps.find(where, [("_id", 1)], limit)
        return all_from(RunStep, ({**row, "attempt": row.get("attempt") or 1} for row in found))

    def _next_id(self) -> str:
        """A new ObjectId; one more than the last when the clock went back or the counter round."""
        from adapters.store.client import new_id

        self._last = max(int(new_id(), 16), self._last + 1)
        return f"{self._last:024x}"
