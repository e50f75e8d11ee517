"""Fixtures of the validation tests."""

from __future__ import annotations

import os

import pytest

from tests.pipeline.validation.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def _no_validation_knobs(  # pyright: ignore[reportUnusedFunction] - pytest finds it
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tests start from the defaults, whatever the shell has set."""
    for name in list(os.environ):
        if name.startswith("VALIDATION_"):
            monkeypatch.delenv(name)
