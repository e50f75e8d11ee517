"""What a discovery holds over HTTP: its insights one by one, and its split logs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

import pytest
from starlette.testclient import TestClient

from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    RecommendationStep,
    Status,
    ValidationResult,
)

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
D1 = "/api/v1/discoveries/d-1"
ANALYSED = [
    AnalysisStep(area_id="trends", run_at=AT, prompt="asked", response="said", insight_count=2),
    AnalysisStep(area_id="segments", run_at=AT, error="timed out"),
]
JUDGED = [
    ValidationResult(insight_id="i-1", combined=Status.CONFIRMED, validated_at=AT),
    ValidationResult(insight_id="i-2", combined=Status.REJECTED, validated_at=AT),
]
ADVISED = RecommendationStep(
    run_at=AT,
    prompt="asked",
    response="said",
    recommendations_dropped=3,
    recommendations_dropped_parse=1,
    recommendations_dropped_missing_ids=1,
    recommendations_dropped_unknown_id=1,
)


class Kept(Protocol):
    kept: Any


class StoreLike(Protocol):
    discoveries: Kept
    analysis_steps: Kept
    validation_results: Kept
    recommendation_log: Kept


@pytest.fixture(autouse=True)
def _kept(store: StoreLike, result: DiscoveryResult) -> None:  # pyright: ignore[reportUnusedFunction]
    store.discoveries.kept["d-1"] = result
    store.analysis_steps.kept["d-1"] = ANALYSED
    store.validation_results.kept["d-1"] = JUDGED
    store.recommendation_log.kept["d-1"] = [ADVISED]


def test_an_insight_is_found_by_its_id_and_by_its_ref(
    client: TestClient, result: DiscoveryResult
) -> None:
    for insight in result.insights:
        for name in (insight.id, insight.ref):
            assert client.get(f"{D1}/insights/{name}").json()["data"]["id"] == insight.id
    assert client.get(f"{D1}/insights/nope").status_code == 404


def test_the_analysis_log_has_the_full_dialogue_per_area(client: TestClient) -> None:
    rows = client.get(f"{D1}/analysis-steps").json()["data"]
    assert [AnalysisStep.model_validate(row) for row in rows] == ANALYSED
    assert (rows[0]["prompt"], rows[0]["response"], rows[1]["error"]) == (
        *("asked", "said"),
        "timed out",
    )


def test_the_validation_log_has_a_row_per_judged_document(client: TestClient) -> None:
    rows = client.get(f"{D1}/validation-results").json()["data"]
    assert [ValidationResult.model_validate(row) for row in rows] == JUDGED
    page = client.get(f"{D1}/validation-results?limit=1").json()["data"]
    assert [row["insight_id"] for row in page] == ["i-1"]


def test_the_recommendation_log_has_the_dialogue_and_the_drop_counts(client: TestClient) -> None:
    row = client.get(f"{D1}/recommendation-log").json()["data"]
    assert RecommendationStep.model_validate(row) == ADVISED


def test_a_discovery_without_a_recommendation_log_is_404(
    client: TestClient, store: StoreLike
) -> None:
    store.recommendation_log.kept.clear()
    answer = client.get(f"{D1}/recommendation-log")
    assert (answer.status_code, answer.json().keys()) == (404, {"error"})
