"""Phases 4.5 and 5.5: order, caps, stamps, log rows, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipeline.errors import RunSuperseded
from pipeline.ports import QueryResult
from pipeline.records import (
    DocKind,
    Insight,
    Status,
    StructuredVerdict,
    VerdictStats,
)
from pipeline.settings import ValidationSettings
from pipeline.validation.agents import ValidationAgents
from pipeline.validation.breakdown import breakdown
from pipeline.validation.bundle import Bundle
from pipeline.validation.phase import (
    Budget,
    Judged,
    Validator,
    validate_insights,
    validate_recommendations,
)
from pipeline.validation.policy import (
    ConcurrentValidation,
    SequentialValidation,
    ValidationPolicy,
)
from tests.pipeline.validation.world import NOW, World, insight_of, recommendation_of

Answer = Callable[[Bundle], StructuredVerdict]


def says(overall: str, reason: str = "because", *claims: str) -> Answer:
    def answer(_: Bundle) -> StructuredVerdict:
        stats = VerdictStats(llm_tokens_in=100, llm_tokens_out=10)
        return StructuredVerdict(
            claims_considered=list(claims), overall=overall, overall_reason=reason, stats=stats
        )

    return answer


class StubAgents:
    """Answers by function; keeps the bundles it saw."""

    def __init__(self, verify: Answer | None = None, refute: Answer | None = None) -> None:
        self._verify, self._refute = verify or says("supported"), refute or says("supported")
        self.verified: list[Bundle] = []
        self.refuted: list[Bundle] = []

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        self.verified.append(bundle)
        return self._verify(bundle)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        self.refuted.append(bundle)
        return self._refute(bundle)


def validator_of(
    agents: ValidationAgents | None,
    *,
    policy: ValidationPolicy | None = None,
    **settings: Any,
) -> Validator:
    world = World(settings=ValidationSettings(**settings))
    return Validator(
        world.source,
        agents,
        world.settings,
        policy or SequentialValidation(),
        clock=lambda: NOW,
    )


def insights_with(*counts: int) -> list[Insight]:
    return [insight_of(n, affected_count=count) for n, count in enumerate(counts, 1)]


async def test_insights_go_by_affected_count_and_ties_keep_their_order() -> None:
    agents = StubAgents()
    insights = insights_with(5, 9, 5, 7, 9)
    rows = await validate_insights(insights, validator_of(agents), Budget(30))
    expected = [insights[i].id for i in (1, 4, 3, 0, 2)]
    assert [bundle.doc.id for bundle in agents.verified] == expected
    assert [row.insight_id for row in rows] == expected
    assert [i.affected_count for i in insights] == [5, 9, 5, 7, 9]


async def test_recommendations_go_in_the_order_given() -> None:
    agents = StubAgents()
    recs = [recommendation_of(n, priority=4 - n) for n in (1, 2, 3)]
    rows = await validate_recommendations(recs, [insight_of()], validator_of(agents), Budget(15))
    assert [row.insight_id for row in rows] == ["rec-1", "rec-2", "rec-3"]
    assert {row.doc_kind for row in rows} == {DocKind.RECOMMENDATION}
    assert [s.step_id for s in agents.verified[0].source_steps] == [1]


async def test_a_judged_insight_is_stamped_with_both_verdicts_and_the_legacy_fields() -> None:
    agents = StubAgents(says("confirmed", "exact", "a", "b"), says("supported"))
    (insight,) = insights_with(12)
    (row,) = await validate_insights([insight], validator_of(agents), Budget(30))
    stamped = insight.validation
    assert stamped is not None
    assert (stamped.combined, stamped.status, stamped.reasoning) == (
        "confirmed",
        "confirmed",
        "exact",
    )
    assert stamped.verifier is not None
    assert stamped.refuter is not None
    assert (stamped.validated_at, stamped.refuter_disabled) == (NOW, False)
    assert (stamped.original_count, stamped.verified_count) == (12, None)
    assert (stamped.input_tokens, stamped.output_tokens) == (200, 20)
    assert stamped.warehouse_id == "default"
    assert (row.status, row.combined, row.claimed_count) == ("confirmed", "confirmed", 12)
    assert (row.analysis_area, row.doc_kind, row.project_id) == ("trends", "insight", "p1")
    assert row.reasoning == "exact"


async def test_a_judged_recommendation_gets_no_legacy_status() -> None:
    rec = recommendation_of()
    (row,) = await validate_recommendations([rec], [], validator_of(StubAgents()), Budget(15))
    assert rec.validation is not None
    assert (rec.validation.combined, rec.validation.status) == ("supported", "")
    assert row.status == "supported"


async def test_the_refuter_gets_the_verifiers_claims_verbatim() -> None:
    agents = StubAgents(says("supported", "x", "first ", "SECOND"))
    await validate_insights(insights_with(1), validator_of(agents), Budget(30))
    assert agents.verified[0].prior_claims == []
    assert agents.refuted[0].prior_claims == ["first ", "SECOND"]


async def test_a_refuter_that_is_switched_off_costs_nothing_and_is_noted_everywhere() -> None:
    agents = StubAgents(says("confirmed"))
    insights = insights_with(3, 2)
    validator = validator_of(agents, VALIDATION_REFUTER_ENABLED=False)
    rows = await validate_insights(insights, validator, Budget(1))
    assert agents.refuted == []
    found = [i.validation for i in insights]
    assert [v and v.combined for v in found] == ["confirmed", "skipped_budget_cap"]
    assert all(v and v.refuter_disabled for v in found)
    assert all(row.refuter_disabled and row.refuter is None for row in rows)


async def test_the_cap_is_threaded_across_areas() -> None:
    agents, budget = StubAgents(), Budget(3)
    first, second = insights_with(4, 8), insights_with(1, 6, 3)
    validator = validator_of(agents)
    await validate_insights(first, validator, budget)
    rows = await validate_insights(second, validator, budget)
    assert len(agents.verified) == 3
    assert [i.validation and i.validation.combined for i in second] == [
        "skipped_budget_cap",
        "supported",
        "skipped_budget_cap",
    ]
    assert [row.status for row in rows] == ["supported", "skipped_budget_cap", "skipped_budget_cap"]
    skipped = second[0].validation
    assert skipped is not None
    assert (skipped.status, skipped.verifier, skipped.refuter) == ("", None, None)
    assert budget.used == 3


async def test_a_resumed_run_goes_on_with_what_is_left_of_the_cap() -> None:
    agents = StubAgents()
    await validate_insights(insights_with(1, 2, 3), validator_of(agents), Budget(30, used=29))
    assert len(agents.verified) == 1


async def test_without_agents_documents_are_stamped_disabled_and_nothing_is_logged() -> None:
    insights, recs, budget = insights_with(1, 2), [recommendation_of()], Budget(30)
    validator = validator_of(None)
    assert await validate_insights(insights, validator, budget) == []
    assert await validate_recommendations(recs, insights, validator, budget) == []
    for doc in [*insights, *recs]:
        assert doc.validation is not None
        assert doc.validation.combined is Status.VALIDATION_DISABLED
        assert doc.validation.status == "validation_disabled"
    assert budget.used == 0


class Dying(StubAgents):
    """Dies on the given calls, counted over both methods."""

    def __init__(self, *deaths: int, error: BaseException | None = None) -> None:
        super().__init__()
        self._deaths, self._calls = set(deaths), 0
        self._error = error or ConnectionError("the actor died")

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        self._maybe_die()
        return await super().verify(bundle)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        self._maybe_die()
        return await super().refute(bundle)

    def _maybe_die(self) -> None:
        self._calls += 1
        if self._calls in self._deaths:
            raise self._error


@pytest.mark.parametrize(
    ("deaths", "combined", "who"),
    [
        ((1,), Status.SUPPORTED, ""),
        ((2,), Status.SUPPORTED, ""),
        ((1, 2), Status.UNVERIFIABLE, "verifier"),
        ((2, 3), Status.PARTIAL, "refuter"),
        ((1, 3), Status.PARTIAL, "refuter"),
    ],
)
async def test_an_agent_that_dies_costs_its_document_one_retry(
    deaths: tuple[int, ...], combined: Status, who: str
) -> None:
    insights = insights_with(9, 5)
    rows = await validate_insights(insights, validator_of(Dying(*deaths)), Budget(30))
    first, second = (insight.validation for insight in insights)
    assert first is not None
    assert second is not None
    assert first.combined is combined
    assert second.combined is Status.SUPPORTED, "the run goes on"
    assert len(rows) == 2
    if who:
        failed: StructuredVerdict | None = getattr(first, who)
        assert failed is not None
        assert failed.overall == "unverifiable"
        assert failed.overall_reason == f"the {who} failed after one retry: the actor died"
        assert failed.doc_id == insights[0].id


async def test_a_document_whose_rows_are_lost_is_unverifiable_and_the_run_goes_on() -> None:
    class Lost(dict[int, QueryResult]):
        def get(self, key: int, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - one call of many
            raise ConnectionError("the object is gone")

    world, agents = World(), StubAgents()
    broken, whole = insight_of(1, affected_count=9), insight_of(2, source_steps=[])
    source = replace(world.source, results=Lost())
    validator = Validator(source, agents, world.settings, clock=lambda: NOW)
    rows = await validate_insights([broken, whole], validator, Budget(30))
    assert {row.insight_id: row.status for row in rows} == {
        broken.id: "unverifiable",
        whole.id: "supported",
    }
    assert broken.validation is not None
    reason = "the evidence cannot be put together: the object is gone"
    assert broken.validation.reasoning == reason
    assert breakdown(broken.validation) == "the object is gone"
    assert [bundle.doc.id for bundle in agents.verified] == [whole.id]


@pytest.mark.parametrize("policy", [SequentialValidation(), ConcurrentValidation(4)])
@pytest.mark.parametrize("error", [RunSuperseded("taken over"), asyncio.CancelledError()])
async def test_a_lost_run_and_a_cancellation_stop_everything(
    policy: ValidationPolicy, error: BaseException
) -> None:
    insights = insights_with(*range(20, 0, -1))
    agents = Dying(3, error=error)
    with pytest.raises(type(error)):
        await validate_insights(insights, validator_of(agents, policy=policy), Budget(30))
    assert insights[-1].validation is None


async def test_a_listener_hears_every_document_in_order() -> None:
    heard: list[tuple[str, str, int, int]] = []

    async def listen(judged: Judged) -> None:
        combined = judged.validation.combined or ""
        heard.append((judged.doc.id, combined, judged.position, judged.total))

    insights = insights_with(1, 2, 3)
    base = validator_of(StubAgents())
    validator = Validator(base.source, base.agents, base.settings, listener=listen)
    await validate_insights(insights, validator, Budget(2))
    assert heard == [
        (insights[2].id, "supported", 1, 3),
        (insights[1].id, "supported", 2, 3),
        (insights[0].id, "skipped_budget_cap", 3, 3),
    ]
