"""Phase 5 with a scripted model."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.errors import ContextOverflow, ModelUnreachable, RunSuperseded
from pipeline.prompting import read_block, read_json_block
from pipeline.recommendation.phase import Recommender
from pipeline.records import Insight, Severity
from pipeline.settings import AnalysisSettings
from pipeline.testing import Scripted, ScriptedModel
from tests.pipeline.recommendation.conftest import NOW, MakeInsight

PACK = "Summary {{INSIGHTS_SUMMARY}} on {{DISCOVERY_DATE}}:\n{{INSIGHTS_DATA}}\nWrite advice."


def recommender(model: ScriptedModel, pack_text: str = PACK, retries: int = 1) -> Recommender:
    return Recommender(
        model=model,
        settings=AnalysisSettings(RECOMMENDATION_PARSE_MAX_RETRIES=retries),
        base_context="BASE",
        pack_text=pack_text,
        clock=lambda: NOW,
    )


def reply(*cited: list[str] | None) -> dict[str, Any]:
    items = [{"title": f"t{n}", "related_insight_ids": ids} for n, ids in enumerate(cited)]
    return {"recommendations": items}


@pytest.fixture
def insights(make_insight: MakeInsight) -> list[Insight]:
    return [make_insight("trends-1"), make_insight("segments-1", severity=Severity.LOW)]


async def test_recommendations_are_kept_with_their_counters(insights: list[Insight]) -> None:
    answer = reply(["trends-1"], [], None, ["nope"], [insights[1].id])
    answer["recommendations"].append("not an object")
    step = await recommender(ScriptedModel([answer])).recommend(insights)
    assert [r.title for r in step.recommendations] == ["t0", "t4"]
    assert [r.related_insight_ids for r in step.recommendations] == [
        [insights[0].id],
        [insights[1].id],
    ]
    assert (step.status, step.error, step.insight_count) == ("", "", 2)
    assert step.recommendations_dropped_parse == 1
    assert step.recommendations_dropped_missing_ids == 2
    assert step.recommendations_dropped_unknown_id == 1
    assert step.recommendations_dropped == 4


async def test_the_prompt_holds_trimmed_insights_summary_and_date(insights: list[Insight]) -> None:
    model = ScriptedModel([reply()])
    step = await recommender(model).recommend(insights)
    [request] = model.requests
    user = request.messages[0].content
    assert request.system.startswith("# Veridical role: recommender\n")
    assert "BASE" in request.system
    assert [i["id"] for i in read_json_block(user, "insights")] == ["trends-1", "segments-1"]
    assert read_block(user, "insights_summary") == "Total: 2 insights (trends: 1, segments: 1)"
    assert read_block(user, "discovery_date") == "2026-11-30"
    for hidden in ("verdict text", "SELECT secret", "source_steps", "description_md"):
        assert hidden not in step.prompt


async def test_blocks_follow_a_pack_text_that_does_not_place_them(insights: list[Insight]) -> None:
    model = ScriptedModel([reply()])
    await recommender(model, pack_text="{{INSIGHTS_DATA}}").recommend(insights)
    user = model.requests[0].messages[0].content
    assert user.count("<insights>") == 1
    assert read_block(user, "discovery_date")


async def test_without_eligible_insights_the_phase_is_skipped() -> None:
    model = ScriptedModel([])
    step = await recommender(model).recommend([])
    assert (step.status, step.run_at) == ("skipped_no_eligible_insights", NOW)
    assert model.requests == []


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (1, 2), (2, 3)])
async def test_an_unreadable_answer_is_asked_again_then_recorded(
    insights: list[Insight], retries: int, calls: int
) -> None:
    model = ScriptedModel(lambda _: "nothing")
    step = await recommender(model, retries=retries).recommend(insights)
    assert (step.status, step.response) == ("recommendation_parse_error", "nothing")
    assert step.recommendation_parse_retries == retries
    assert step.error
    assert len(model.requests) == calls


async def test_a_corrected_answer_counts(insights: list[Insight]) -> None:
    model = ScriptedModel(["nothing", reply(["trends-1"])])
    step = await recommender(model).recommend(insights)
    assert (step.status, len(step.recommendations)) == ("", 1)
    assert step.recommendation_parse_retries == 1


async def test_an_empty_list_is_a_result(insights: list[Insight]) -> None:
    step = await recommender(ScriptedModel([reply()])).recommend(insights)
    assert (step.status, step.error, step.recommendations) == ("", "", [])


async def test_a_model_error_leaves_the_insights_without_advice(insights: list[Insight]) -> None:
    step = await recommender(ScriptedModel([ModelUnreachable("gone")])).recommend(insights)
    assert (step.error, step.recommendations) == ("gone", [])


async def test_an_overflow_is_tried_again_with_the_more_important_half(
    insights: list[Insight],
) -> None:
    replies: list[Scripted] = [ContextOverflow("long"), reply(["segments-1"], ["trends-1"])]
    model = ScriptedModel(replies)
    step = await recommender(model).recommend(insights)
    shown = read_json_block(model.requests[1].messages[0].content, "insights")
    assert [i["id"] for i in shown] == ["trends-1"]
    assert step.insight_count == 1
    assert [r.title for r in step.recommendations] == ["t1"]


async def test_a_lost_run_stops(insights: list[Insight]) -> None:
    with pytest.raises(RunSuperseded):
        await recommender(ScriptedModel([RunSuperseded("taken over")])).recommend(insights)
