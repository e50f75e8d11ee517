"""The document store: MongoDB, or an embedded server that speaks its protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.store.embedded import settled
from pipeline.settings import StoreSettings

if TYPE_CHECKING:
    from adapters.store.store import Store

__all__ = ["connect", "settled"]


async def connect(settings: StoreSettings, home: Path) -> Store:
    """Open the store of ``home``; indexes exist and the server has answered.

    Without ``MONGODB_URI`` this starts the embedded server, or shares the one that another process
    of the same home has started; it stops shortly after its last user closed or died. ``settled``
    waits for that. Raises ``StoreUnavailable`` with what to do next.
    """
    store = await asyncio.to_thread(_load)
    return await store.open(settings, home)


def _load() -> type[Store]:
    # Late and in a thread: importing the driver takes half a second, and not every command needs it
    from adapters.store.store import Store

    return Store
