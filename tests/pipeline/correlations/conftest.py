"""The shop in three datasources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.shop import Warehouses, open_shop


@pytest.fixture
async def warehouses(tmp_path: Path) -> AsyncIterator[Warehouses]:
    async with open_shop(tmp_path) as shop:
        yield shop.warehouses
