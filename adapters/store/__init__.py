"""The document store: MongoDB, or an embedded server that speaks its protocol."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.store.embedded import settled
from adapters.store.indexes import DISCOVERY_CHECKPOINT_RETENTION
from pipeline.settings import StoreSettings

if TYPE_CHECKING:
    from adapters.store.store import Store

__all__ = ["connect", "settled"]


async def connect(
    settings: StoreSettings,
    home: Path,
    *,
    checkpoint_retention: timedelta = DISCOVERY_CHECKPOINT_RETENTION,
) -> Store:
    """Open the store of ``home``; indexes exist and the server has answered.

    Without ``MONGODB_URI`` this starts the embedded server, or shares the one that another process
    of the same home has started; it stops shortly after its last user closed or died. ``settled``
    waits for that. Raises ``StoreUnavailable`` with what to do next.
    """
    store = await asyncio.to_thread(_load)
    return await store.open(settings, home, checkpoint_retention)


def _load() -> type[Store]:
    # Late and in a thread: importing the driver takes half a second, and not every command needs it
    from adapters.store.store import Store

    return Store
