"""Context windows that providers stated when a prompt did not fit (facts, A.3 and F.6)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.store.client import Collection

COUNTS_FOR = timedelta(days=30)
"""A server may be started again with another window."""


def _now() -> datetime:
    return datetime.now(UTC)


class ModelWindowRepository:
    """Collection ``llm_model_windows``: one row a model at an address."""

    def __init__(self, collection: Collection, clock: Callable[[], datetime] = _now) -> None:
        self._windows, self._clock = collection, clock

    async def learnt(self, model: str) -> int | None:
        """The window in tokens, or None when none was stated of late. ``model`` is any name that
        tells provider, address and model apart from all others."""
        found = await self._windows.find_one(
            {"_id": model, "learnt_at": {"$gt": self._clock() - COUNTS_FOR}}
        )
        return None if found is None else int(found["window"])

    async def learn(self, model: str, window: int) -> None:
        """Keep what the provider of ``model`` stated."""
        row = {"_id": model, "window": window, "learnt_at": self._clock()}
        await self._windows.replace({"_id": model}, row, upsert=True)
