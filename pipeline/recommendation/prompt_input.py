"""What the recommending model sees of the eligible insights (reference facts, section J)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.records import Insight

PROMPT_FIELDS = (
    "analysis_area",
    "name",
    "description",
    "severity",
    "affected_count",
    "risk_score",
    "confidence",
    "metrics",
    "indicators",
    "target_segment",
    "evidence_quality",
)
"""An allow-list beside ``id``. Verdicts above all stay out: the filter has applied them already,
and their text would be most of the prompt."""


def insight_for_prompt(insight: Insight) -> dict[str, Any]:
    """One element of ``{{INSIGHTS_DATA}}``; its ``id`` is the insight's ``ref``."""
    dumped = insight.model_dump(mode="json", include=set(PROMPT_FIELDS))
    return {"id": insight.ref, **{name: dumped[name] for name in PROMPT_FIELDS}}


def insights_summary(insights: Sequence[Insight]) -> str:
    """``{{INSIGHTS_SUMMARY}}``, for example "Total: 3 insights (churn: 2, growth: 1)"."""
    counts = Counter(insight.analysis_area for insight in insights)
    by_area = ", ".join(f"{area}: {count}" for area, count in counts.items())
    total = f"Total: {len(insights)} insights"
    return f"{total} ({by_area})" if by_area else total
