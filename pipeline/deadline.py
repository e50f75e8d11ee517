"""The time limit of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta


class Deadline:
    """Counts from its creation on ``clock``. 0 seconds mean no limit."""

    def __init__(self, seconds: float, clock: Callable[[], datetime]) -> None:
        self._limit, self._clock = timedelta(seconds=seconds), clock
        self.at: datetime | None = clock() + self._limit if seconds else None
        self.cut_off = False
        """True once the deadline kept something from being done."""

    @property
    def passed(self) -> bool:
        return self.at is not None and self._clock() >= self.at

    @property
    def reason(self) -> str:
        """What a run says that went beyond it."""
        return f"the run exceeded DISCOVERY_MAX_DURATION ({self._limit}); a partial result was kept"

    @asynccontextmanager
    async def window(self) -> AsyncGenerator[None]:
        """The body is cancelled at the deadline and what comes after it goes on; ``cut_off`` tells
        that it was."""
        limit = asyncio.timeout(None if self.at is None else self._left())
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            self.cut_off = True

    def over(self) -> bool:
        """Whether no more work may begin. From then on the run counts as cut off."""
        self.cut_off = self.cut_off or self.passed
        return self.cut_off

    def _left(self) -> float:
        return max(0.0, (self.at - self._clock()).total_seconds()) if self.at else 0.0
