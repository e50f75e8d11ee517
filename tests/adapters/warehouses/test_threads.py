"""A blocking call in a thread ends when its time is over or nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from adapters.warehouses.threads import OutOfTime, run_cancellable

BRIEF = 0.5
"""A time limit in seconds: long enough for a call to begin on a busy machine."""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """One thread, which runs already."""
    with ThreadPoolExecutor(1) as executor:
        executor.submit(int).result()
        yield executor


async def test_the_answer_and_the_error_come_back(pool: ThreadPoolExecutor) -> None:
    assert await run_cancellable(pool, lambda: 5, lambda: None, 5) == 5

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await run_cancellable(pool, fail, lambda: None, 5)


async def test_time_over_cancels_and_waits_for_the_thread(pool: ThreadPoolExecutor) -> None:
    stop, ended = threading.Event(), threading.Event()

    def work() -> None:
        stop.wait(60)
        ended.set()
        raise RuntimeError("interrupted")

    with pytest.raises(OutOfTime):
        await run_cancellable(pool, work, stop.set, BRIEF)
    assert ended.is_set()


async def test_a_cancel_that_comes_too_early_is_repeated(pool: ThreadPoolExecutor) -> None:
    heard = threading.Semaphore(0)

    def work() -> None:
        for _ in range(3):
            heard.acquire(timeout=60)
        raise RuntimeError("interrupted")

    with pytest.raises(OutOfTime):
        await run_cancellable(pool, work, heard.release, BRIEF)


async def test_a_cancelled_task_waits_for_its_thread_too(pool: ThreadPoolExecutor) -> None:
    loop, started = asyncio.get_running_loop(), asyncio.Event()
    stop, ended = threading.Event(), threading.Event()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        stop.wait(60)
        ended.set()

    task = asyncio.ensure_future(run_cancellable(pool, work, stop.set, 60))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_call_that_never_started_is_taken_out_of_the_queue(
    pool: ThreadPoolExecutor,
) -> None:
    release, ran = threading.Event(), threading.Event()
    blocking = pool.submit(release.wait, 60)
    with pytest.raises(OutOfTime):
        await run_cancellable(pool, ran.set, lambda: None, BRIEF)
    release.set()
    blocking.result(60)
    assert await run_cancellable(pool, lambda: 1, lambda: None, 60) == 1
    assert not ran.is_set()


async def test_an_answer_in_the_last_moment_counts(pool: ThreadPoolExecutor) -> None:
    stop = threading.Event()

    def work() -> int:
        stop.wait(60)
        return 7

    assert await run_cancellable(pool, work, stop.set, BRIEF) == 7
