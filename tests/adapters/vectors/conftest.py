"""Both back ends by Qdrant: its engine in a folder, and its client on its in-memory store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from adapters.vectors import OpenedVectors, open_vectors
from pipeline.settings import VectorSettings


@pytest.fixture(params=["edge", "server"])
async def vectors(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenedVectors]:
    url = ":memory:" if request.param == "server" else ""
    opened = open_vectors(VectorSettings(QDRANT_URL=url), tmp_path)
    yield opened
    await opened.close()
