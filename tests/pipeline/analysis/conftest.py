"""Steps to analyse, built from a few words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.records import ExplorationStep, Quality, StepAction

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MakeStep = Callable[..., ExplorationStep]


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def make_step() -> MakeStep:
    """``make_step(3, "delay by month", rows=[...])``: a query step that succeeded."""

    def make(
        number: int,
        purpose: str = "",
        *,
        query: str = "SELECT 1",
        rows: list[dict[str, Any]] | None = None,
        quality: list[Quality] | None = None,
        **fields: Any,
    ) -> ExplorationStep:
        kept = [{"n": number}] if rows is None else rows
        values: dict[str, Any] = {
            "step": number,
            "timestamp": NOW,
            "action": StepAction.QUERY_DATA,
            "query": query,
            "query_purpose": purpose,
            "query_result": kept,
            "row_count": len(kept),
            "quality": quality or [],
        }
        return ExplorationStep.model_validate(values | fields)

    return make
