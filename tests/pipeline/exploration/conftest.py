"""One fresh laboratory a test."""

from __future__ import annotations

import pytest

from tests.pipeline.exploration.lab import Lab, make_lab


@pytest.fixture
def lab() -> Lab:
    return make_lab()
