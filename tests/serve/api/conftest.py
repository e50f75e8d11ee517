"""The API over the store in memory, without Ray and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from pipeline.records import DiscoveryRun, Project
from serve.api import ApiDeps, create_app

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Starter:
    """Takes runs as a cluster would; ``refusal`` makes it fail."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.refusal = ""

    async def __call__(self, project: Project, run: DiscoveryRun) -> str:
        if self.refusal:
            raise RuntimeError(self.refusal)
        self.taken.append((project.id, run.id))
        return f"job-{run.id}"


@pytest.fixture
def starter() -> Starter:
    return Starter()


@pytest.fixture
def client(store: Any, starter: Starter) -> Iterator[TestClient]:
    deps = ApiDeps(store=store, start_run=starter, clock=lambda: AT)
    with TestClient(create_app(deps), raise_server_exceptions=False) as client:
        yield client
