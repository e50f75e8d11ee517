"""Actors that all runs of a cluster share: they end when their last user has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ray.exceptions import RayActorError

from actors.remote import kill
from pipeline.errors import ClusterUnavailable

TRIES = 3
Client = TypeVar("Client")


class Leases:
    """Who uses this actor. Mixed into the shell of a shared actor."""

    def __init__(self) -> None:
        self._holders: set[str] = set()

    async def acquire(self, holder: str) -> None:
        self._holders.add(holder)

    async def release(self, holder: str) -> bool:
        """Returns True when nobody is left."""
        self._holders.discard(holder)
        return not self._holders


async def acquire(make: Callable[[], Any], holder: str) -> Any:
    """The shared actor's handle, leased to ``holder``.

    ``make`` gets or creates the named actor. One that is ending just now is made again.
    """
    for _ in range(TRIES):
        handle = make()
        try:
            await handle.acquire.remote(holder)
        except RayActorError:
            continue
        return handle
    raise ClusterUnavailable("a shared actor keeps ending; see the Ray dashboard for its log")


async def release(handle: Any, holder: str) -> None:
    """Give the lease back; the last one out ends the actor."""
    try:
        unused: Awaitable[bool] = handle.release.remote(holder)
        if await unused:
            kill(handle)
    except RayActorError:
        return
