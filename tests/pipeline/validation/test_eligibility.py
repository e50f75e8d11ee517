"""Which insights may feed recommendations: fail-open, and the project's choice."""

from __future__ import annotations

import pytest

from pipeline.records import InsightValidation, Status
from pipeline.validation.eligibility import eligible, eligible_insights
from tests.pipeline.validation.world import insight_of

DEFAULT_OPEN = {Status.CONFIRMED, Status.SUPPORTED, Status.VALIDATION_DISABLED}


@pytest.mark.parametrize("status", list(Status))
def test_confirmed_and_supported_pass_and_disabled_is_open(status: Status) -> None:
    assert eligible(InsightValidation(combined=status)) is (status in DEFAULT_OPEN)


@pytest.mark.parametrize("accepted", [[], [Status.REJECTED], ["partial"]])
def test_an_absent_validator_is_never_held_against_a_document(accepted: list[str]) -> None:
    assert eligible(None, accepted)
    assert eligible(InsightValidation(combined=Status.VALIDATION_DISABLED), accepted)


def test_a_project_may_accept_other_verdicts() -> None:
    accepted = [Status.PARTIAL, Status.REJECTED]
    assert eligible(InsightValidation(combined=Status.PARTIAL), accepted)
    assert eligible(InsightValidation(combined=Status.REJECTED), accepted)
    assert not eligible(InsightValidation(combined=Status.CONFIRMED), accepted)
    assert not eligible(InsightValidation(combined=Status.SKIPPED_BUDGET_CAP), accepted)


def test_a_legacy_document_is_judged_by_its_legacy_status() -> None:
    assert eligible(InsightValidation(status="confirmed"))
    assert not eligible(InsightValidation(status="adjusted"))
    assert not eligible(InsightValidation())


def test_the_order_is_kept() -> None:
    insights = [insight_of(n) for n in (1, 2, 3)]
    insights[1].validation = InsightValidation(combined=Status.REJECTED)
    assert eligible_insights(insights) == [insights[0], insights[2]]
