"""A store that goes away while a run is watched ends the command; one that comes back does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from pipeline.errors import StoreUnavailable
from pipeline.records import DiscoveryRun
from serve.cli import discovering
from tests.serve.cli.conftest import FakeRuntime

Invoke = Callable[..., Result]
OK, ENVIRONMENT = 0, 3
GONE = "the document store does not answer; start it"
pytestmark = pytest.mark.timeout(30)


def fail(monkeypatch: pytest.MonkeyPatch, world: Any, times: int) -> None:
    """Have the next looks at the feed fail."""
    monkeypatch.setattr(discovering, "POLL_SECONDS", 0.0)
    since, looks = world.store.run_steps.since, iter(range(times))

    async def failing(*words: Any, **more: Any) -> Any:
        if next(looks, None) is not None:
            raise StoreUnavailable(GONE)
        return await since(*words, **more)

    monkeypatch.setattr(world.store.run_steps, "since", failing)


def test_a_store_that_stays_away_ends_the_run_that_waits_for_it(
    veridical: Invoke, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def waits(_: Any, run: DiscoveryRun) -> DiscoveryRun:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(run.id)
            raise StoreUnavailable("nor can its end be recorded") from None
        return run

    monkeypatch.setattr(FakeRuntime, "run", waits)
    fail(monkeypatch, world, times=99)
    result = veridical("discover", "p-1")
    assert result.exit_code == ENVIRONMENT
    assert result.stderr == f"veridical: {GONE}\n"
    assert ended == ["run-1"]
    assert world.open == 0


def test_a_store_that_comes_back_is_looked_at_again(
    veridical: Invoke, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, world, times=discovering.MOST_FAILURES - 1)
    result = veridical("discover", "p-1")
    assert result.exit_code == OK, result.stderr
    assert "F9 is late" in result.stdout
