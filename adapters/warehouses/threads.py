"""Blocking drivers in threads: a limit in time, and a cancel that reaches the warehouse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

CANCEL_EVERY = 0.05
"""Seconds between two attempts to cancel: a cancel that comes before the query does is lost."""
CANCEL_WAIT = 10.0
"""Seconds that a cancelled call may take to end before its thread is left to itself."""


class OutOfTime(Exception):
    """The call ran longer than allowed and was cancelled."""


async def run_cancellable(
    pool: ThreadPoolExecutor, call: Callable[[], T], cancel: Callable[[], None], timeout: float
) -> T:
    """Run ``call`` in ``pool`` and return what it returns.

    ``cancel`` must make a running ``call`` end soon; it is called when ``timeout`` seconds have
    passed (then ``OutOfTime`` is raised) and when the awaiting task is cancelled. Either way the
    thread is waited for, so that no query outlives its question.
    """
    future = pool.submit(call)
    try:
        done, _ = await asyncio.wait({asyncio.wrap_future(_shadow(future))}, timeout=timeout)
    except asyncio.CancelledError:
        await _stop(future, cancel)
        raise
    if done:
        return future.result()
    await _stop(future, cancel)
    if not future.cancelled() and future.done() and future.exception() is None:
        return future.result()  # it finished in the very moment
    raise OutOfTime


def _shadow(future: Future[T]) -> Future[None]:
    """Done when ``future`` is, but cancelling it cancels nothing."""
    shadow: Future[None] = Future()

    def tell(_: Future[T]) -> None:
        if shadow.set_running_or_notify_cancel():
            shadow.set_result(None)

    future.add_done_callback(tell)
    return shadow


async def _stop(future: Future[T], cancel: Callable[[], None]) -> None:
    stopping = asyncio.ensure_future(_cancel_until_done(future, cancel))
    while not stopping.done():
        with contextlib.suppress(asyncio.CancelledError):  # asked twice: still wait for the thread
            await asyncio.shield(stopping)


async def _cancel_until_done(future: Future[T], cancel: Callable[[], None]) -> None:
    if future.cancel():
        return
    attempts = int(CANCEL_WAIT / CANCEL_EVERY)
    for _ in range(attempts):
        if future.done():
            return
        cancel()
        await asyncio.wait({asyncio.wrap_future(_shadow(future))}, timeout=CANCEL_EVERY)
    log.warning("a cancelled warehouse call did not end within %.0f s", CANCEL_WAIT)
