"""Insights to recommend from."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.records import Insight, InsightValidation, Severity, Status

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MakeInsight = Callable[..., Insight]


@pytest.fixture
def make_insight() -> MakeInsight:
    """``make_insight("trends-1")``: a confirmed insight."""

    def make(ref: str, **fields: Any) -> Insight:
        values: dict[str, Any] = {
            "id": str(uuid.uuid5(uuid.NAMESPACE_OID, ref)),
            "ref": ref,
            "analysis_area": ref.rsplit("-", 1)[0],
            "name": f"About {ref}",
            "description": "Plain.",
            "description_md": "**Plain.**",
            "severity": Severity.HIGH,
            "affected_count": 10,
            "source_steps": [1],
            "sql_metadata": {"query": "SELECT secret"},
            "discovered_at": NOW,
            "validation": InsightValidation(combined=Status.CONFIRMED, reasoning="verdict text"),
            "evidence_quality": ["truncated"],
        }
        return Insight(**(values | fields))

    return make
