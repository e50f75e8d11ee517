"""How many documents are judged at a time. Whatever the answer, the records are the same.

Which documents are judged at all is settled before a policy is asked, and results are handed on in
the order of the documents, so a policy decides about time and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

Doc = TypeVar("Doc")
Result = TypeVar("Result")
Work = Callable[[Doc], Awaitable[Result]]
Settled = Callable[[Result], Awaitable[None]]


class ValidationPolicy(Protocol):
    async def run(
        self,
        docs: Sequence[Doc],
        work: Callable[[Doc], Awaitable[Result]],
        settled: Callable[[Result], Awaitable[None]],
    ) -> None:
        """Do ``work`` on every doc and pass each result to ``settled``, in the order of ``docs``.

        The first exception of ``work`` or ``settled`` stops everything and is raised.
        """
        ...


class SequentialValidation:
    """One document after the other: the rule."""

    async def run(
        self,
        docs: Sequence[Doc],
        work: Callable[[Doc], Awaitable[Result]],
        settled: Callable[[Result], Awaitable[None]],
    ) -> None:
        """See ``ValidationPolicy``."""
        for doc in docs:
            await settled(await work(doc))


class ConcurrentValidation:
    """Up to ``limit`` documents at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)

    async def run(
        self,
        docs: Sequence[Doc],
        work: Callable[[Doc], Awaitable[Result]],
        settled: Callable[[Result], Awaitable[None]],
    ) -> None:
        """See ``ValidationPolicy``. Results wait for those of earlier documents."""
        slots = asyncio.Semaphore(self._limit)

        async def in_slot(doc: Doc) -> Result:
            async with slots:
                return await work(doc)

        tasks = [asyncio.ensure_future(in_slot(doc)) for doc in docs]
        try:
            for task in tasks:
                await settled(await _unless_another_failed(task, tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _unless_another_failed(
    task: asyncio.Future[Result], tasks: Sequence[asyncio.Future[Result]]
) -> Result:
    """The result of ``task``; raises at once when any other one fails before it is done."""
    while not task.done():
        waiting = [t for t in tasks if not t.done()]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for other in done:
            if other is not task:
                other.result()
    return task.result()


def policy_for(concurrency: int) -> ValidationPolicy:
    """The policy of VALIDATION_CONCURRENCY: 1 is sequential."""
    return SequentialValidation() if concurrency <= 1 else ConcurrentValidation(concurrency)
