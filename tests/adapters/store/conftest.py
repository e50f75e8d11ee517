"""A database of its own for each test, on the embedded server that all of them share."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.store import connect, embedded
from adapters.store.client import Collection, Driver
from adapters.store.store import Store
from pipeline.records import DiscoveryResult, DiscoveryRun, ExplorationStep, StepAction
from pipeline.settings import StoreSettings

Eventually = Callable[[Callable[[], bool]], None]
NewRun = Callable[..., DiscoveryRun]
NewStep = Callable[..., ExplorationStep]
NewDiscovery = Callable[..., DiscoveryResult]


@pytest.fixture
def settings() -> StoreSettings:
    return StoreSettings(MONGODB_URI="", MONGODB_DB=f"test_{uuid.uuid4().hex[:12]}")


@pytest.fixture
async def driver(shared_home: Path, settings: StoreSettings) -> AsyncGenerator[Driver]:
    """The driver below the store, for what a test must see or spoil in a document."""
    with await embedded.lease(shared_home) as lease:
        driver = Driver.open(lease.uri, settings.MONGODB_DB, lambda: "advice")
        yield driver
        await driver.drop_database()
        await asyncio.to_thread(driver.close)


@pytest.fixture
async def store(
    shared_home: Path, settings: StoreSettings, driver: Driver
) -> AsyncGenerator[Store]:
    async with await connect(settings, shared_home) as store:
        yield store


@pytest.fixture
def raw(driver: Driver) -> Callable[[str], Collection]:
    return driver.collection


@pytest.fixture
def eventually() -> Eventually:
    """Wait until a condition holds, at most a minute."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.02)

    return wait


@pytest.fixture
def now() -> datetime:
    """To the millisecond, as the store keeps times."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@pytest.fixture
def new_run(now: datetime) -> NewRun:
    def make(project_id: str = "p1", **fields: Any) -> DiscoveryRun:
        given = {"id": uuid.uuid4().hex, "project_id": project_id, "started_at": now} | fields
        return DiscoveryRun.model_validate(given)

    return make


@pytest.fixture
def new_step(now: datetime) -> NewStep:
    def make(number: int = 1, **fields: Any) -> ExplorationStep:
        given = {"step": number, "timestamp": now, "action": StepAction.QUERY_DATA} | fields
        return ExplorationStep.model_validate(given)

    return make


@pytest.fixture
def new_discovery(now: datetime) -> NewDiscovery:
    def make(discovery_id: str = "d1", **fields: Any) -> DiscoveryResult:
        given = {
            "id": discovery_id,
            "project_id": "p1",
            "run_id": "r1",
            "discovery_date": now,
            "created_at": now,
        } | fields
        return DiscoveryResult.model_validate(given)

    return make
