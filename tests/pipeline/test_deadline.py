"""DISCOVERY_MAX_DURATION."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from pipeline.deadline import Deadline


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def test_zero_means_no_limit() -> None:
    deadline = Deadline(0, Clock())
    async with deadline.window():
        await asyncio.sleep(0)
    assert (deadline.at, deadline.over()) == (None, False)


async def test_the_body_is_cut_off_and_what_follows_goes_on() -> None:
    deadline = Deadline(0.01, lambda: datetime.now(UTC))
    reached = False
    async with deadline.window():
        await asyncio.Event().wait()
        reached = True
    assert (reached, deadline.cut_off, deadline.over()) == (False, True, True)


async def test_a_time_out_of_the_body_s_own_is_not_the_deadline() -> None:
    deadline = Deadline(60, Clock())
    with pytest.raises(TimeoutError):
        async with deadline.window():
            raise TimeoutError("the model did not answer")
    assert not deadline.cut_off


async def test_once_it_is_over_the_run_counts_as_cut_off() -> None:
    clock = Clock()
    deadline = Deadline(60, clock)
    assert not deadline.over()
    assert not deadline.cut_off
    clock.now += timedelta(seconds=60)
    assert deadline.over()
    assert deadline.cut_off
    assert deadline.reason == (
        "the run exceeded DISCOVERY_MAX_DURATION (0:01:00); a partial result was kept"
    )
