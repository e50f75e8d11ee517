"""The specification, phase 5: the prompt receives trimmed insights and a summary line."""

from __future__ import annotations

import pytest

from pipeline.recommendation.prompt_input import insight_for_prompt, insights_summary
from tests.pipeline.recommendation.conftest import MakeInsight


def test_insights_are_trimmed_to_the_allow_list(make_insight: MakeInsight) -> None:
    shown = insight_for_prompt(make_insight("trends-1", metrics={"mean": 4}))
    assert shown == {
        "id": "trends-1",
        "analysis_area": "trends",
        "name": "About trends-1",
        "description": "Plain.",
        "severity": "high",
        "affected_count": 10,
        "risk_score": 0.0,
        "confidence": 0.0,
        "metrics": {"mean": 4},
        "indicators": [],
        "target_segment": "",
        "evidence_quality": ["truncated"],
    }


@pytest.mark.parametrize(
    ("refs", "summary"),
    [
        ([], "Total: 0 insights"),
        (["churn-1"], "Total: 1 insights (churn: 1)"),
        (
            ["churn-1", "churn-2", "churn-3", "engagement-1", "monetization-1", "monetization-2",
             "engagement-2"],
            "Total: 7 insights (churn: 3, engagement: 2, monetization: 2)",
        ),
    ],
)  # fmt: skip
def test_the_summary_counts_insights_by_area(
    make_insight: MakeInsight, refs: list[str], summary: str
) -> None:
    assert insights_summary([make_insight(ref) for ref in refs]) == summary
