"""Spacing calls out, so that a provider's rate limit is not met in the first place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from adapters.llm.retry import OpenedModel
from pipeline.ports import ChatReply, ChatRequest, ModelInfo


class Pacer:
    """A token bucket: ``burst`` calls at once, then one every ``interval`` seconds."""

    def __init__(
        self,
        interval: float,
        burst: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._interval = max(0.0, interval)
        self._slack = self._interval * (max(1, burst) - 1)
        self._clock = clock
        self._sleep = sleep
        self._full_at = clock()
        """When the bucket would be full again if nobody called."""

    async def turn(self) -> None:
        """Wait for this caller's turn; callers are served in the order in which they ask."""
        now = self._clock()
        due = max(self._full_at, now)
        self._full_at = due + self._interval
        if (wait := due - self._slack - now) > 0:
            await self._sleep(wait)


class PacedModel:
    """A ``LanguageModel`` whose calls, retries among them, take turns at a ``Pacer``."""

    def __init__(self, inner: OpenedModel, pacer: Pacer) -> None:
        self._inner = inner
        self._pacer = pacer

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Wait for a turn, then answer. Raises ``ModelError``."""
        await self._pacer.turn()
        return await self._inner.chat(request)

    async def ping(self) -> None:
        """See ``OpenedModel``."""
        await self._inner.ping()

    async def close(self) -> None:
        """See ``OpenedModel``."""
        await self._inner.close()
