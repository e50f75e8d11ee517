"""A whole discovery, without Ray, drivers or network."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.context import remember
from pipeline.discovery import discover
from pipeline.errors import (
    BadRequest,
    EmptyWarehouse,
    ModelAuthError,
    ModelUnreachable,
    RunSuperseded,
    VectorsUnavailable,
)
from pipeline.prompting import read_block, read_json_block
from pipeline.records import DiscoveryResult, RunPhase, RunStepType, RunType, Status
from pipeline.settings import Settings
from tests.pipeline.discovery.conftest import NOW, MemoryCatalog, World, analyse


async def finished(world: World, **run: Any) -> DiscoveryResult:
    return await discover(world.run(**run), world.project, world.deps)


class TestAFullRun:
    async def test_every_area_is_analysed_and_every_insight_judged(self, world: World) -> None:
        result = await finished(world)
        assert result.run_type is RunType.FULL
        assert (result.failure, result.summary.errors) == ("", [])
        assert [i.ref for i in result.insights] == [
            "trends-1", "segments-1", "anomalies-1", "data_quality-1",
        ]  # fmt: skip
        verdicts = [i.validation for i in result.insights]
        assert all(v and v.verifier and v.refuter for v in verdicts)
        assert [v.combined for v in verdicts if v] == [Status.SUPPORTED] * 4

    async def test_recommendations_cite_eligible_insights_and_are_judged(
        self, world: World
    ) -> None:
        result = await finished(world)
        ids = {insight.id for insight in result.insights}
        assert len(result.recommendations) == 4
        for recommendation in result.recommendations:
            assert set(recommendation.related_insight_ids) <= ids
            assert recommendation.validation
            assert recommendation.validation.verifier

    async def test_the_result_names_project_run_model_and_counts(self, world: World) -> None:
        result = await finished(world, attempt=3)
        assert (result.project_id, result.run_id, result.attempt) == (
            world.project.id,
            "run-1",
            3,
        )
        assert (result.domain, result.category) == ("general", "any")
        assert (result.warehouse_id, result.llm_provider) == ("default", "scripted")
        assert (result.total_steps, result.summary.queries_executed) == (4, 3)
        assert result.schemas == {"main.flights": ["carrier", "delay"]}
        assert (result.discovery_date, result.areas_requested) == (NOW, [])
        assert result.summary.total_insights == 4
        assert len(result.summary.key_findings) == 4
        assert result.summary.scorecard

    async def test_the_logs_are_saved_beside_the_discovery(self, world: World) -> None:
        result = await finished(world)
        desk = world.desk
        assert [d.id for d in desk.saved] == [result.id]
        assert [s.step for s in desk.exploration] == [1, 2, 3, 4]
        assert [s.area_id for s in desk.analysis] == list(world.project.prompts.analysis_areas)
        assert all(s.prompt and s.response and s.validation_results for s in desk.analysis)
        assert len(desk.validation) == 8
        assert desk.recommendation is not None
        assert desk.recommendation.recommendations_dropped_unknown_id == 1

    async def test_saved_first_then_embedded_and_no_memory_before_the_caller_says_so(
        self, world: World
    ) -> None:
        result = await finished(world)
        assert world.desk.order == ["save", "publish", "standalone"]
        assert len(world.desk.standalone) == 8
        await remember(world.desk, result, now=NOW)
        assert world.desk.order[-1] == "context"

    async def test_progress_follows_the_phases(self, world: World) -> None:
        await finished(world)
        phases = [phase for phase, _ in world.desk.phases]
        assert list(dict.fromkeys(phases)) == [
            RunPhase.INIT,
            RunPhase.SCHEMA_DISCOVERY,
            RunPhase.EXPLORATION,
            RunPhase.ANALYSIS,
            RunPhase.VALIDATION,
            RunPhase.RECOMMENDATIONS,
            RunPhase.SAVING,
            RunPhase.EMBED_INDEX,
        ]
        progress = [percent for _, percent in world.desk.phases]
        assert progress == sorted(progress)
        first = {phase: world.desk.phases[phases.index(phase)][1] for phase in phases}
        assert [first[phase] for phase in dict.fromkeys(phases)] == [5, 8, 10, 65, 65, 85, 95, 97]

    async def test_the_feed_tells_the_story(self, world: World) -> None:
        await finished(world)
        rows = world.desk.rows
        kinds = [row.type for row in rows]
        assert kinds.count(RunStepType.QUERY) == 3
        begun = [r for r in rows if r.type is RunStepType.ANALYSIS and r.step_num]
        assert [(r.analysis_area, r.step_num, r.step_total) for r in begun] == [
            (area, number, 4)
            for number, area in enumerate(world.project.prompts.analysis_areas, start=1)
        ], "analysis: started for an area"
        assert kinds.count(RunStepType.ANALYSIS) == 8, "and what was found in each"
        assert kinds.count(RunStepType.INSIGHT) == 4
        assert kinds.count(RunStepType.VALIDATION) == 8
        first = rows[kinds.index(RunStepType.INSIGHT)]
        judged = rows[kinds.index(RunStepType.VALIDATION)]
        assert first.insight_name == judged.insight_name
        assert (first.analysis_area, first.insight_severity) == ("trends", "high")
        assert judged.combined == "supported"
        messages = [r.message for r in rows if r.type is RunStepType.RECOMMENDATION]
        assert messages[0] == (
            "Generated 4 recommendations (1 dropped due to invalid related_insight_ids)"
        )
        assert kinds.index(RunStepType.VALIDATION) < len(kinds) - 1 - kinds[::-1].index(
            RunStepType.ANALYSIS
        ), "an area's insights are judged before the next area is analysed"

    async def test_counters_reach_the_run(self, world: World) -> None:
        await finished(world)
        assert world.desk.counters["insights_found"] == 4
        assert world.desk.counters["schema_table_count"] == 1
        assert world.desk.counters["total_queries"] == 3

    async def test_a_second_discovery_carries_the_first_one_s_context(self, world: World) -> None:
        first = await finished(world)
        await remember(world.desk, first, now=NOW)
        before = len(world.model.requests)
        world.renew()
        await finished(world, run_id="run-2")
        for request in world.model.requests[:before]:
            assert read_block(request.system, "previous_context") is None
        for role in ("explorer", "analyst", "recommender"):
            shown = read_block(world.requests(role)[-1].system, "previous_context") or ""
            assert shown.startswith("This is run 2 of this project")
            assert f"[trends] {first.insights[0].name}" in shown

    async def test_the_explorer_sees_catalog_and_areas(self, world: World) -> None:
        await finished(world)
        system = world.requests("explorer")[0].system
        assert "main.flights" in (read_block(system, "catalog") or "")
        assert "1. trends - Trends" in (read_block(system, "areas") or "")
        assert "{{" not in system


class TestSelectedAreas:
    async def test_a_selection_makes_the_run_partial(self, world: World) -> None:
        result = await finished(world, areas=["segments"])
        assert (result.run_type, result.areas_requested) == (RunType.PARTIAL, ["segments"])
        assert [i.analysis_area for i in result.insights] == ["segments"]

    async def test_an_unknown_area_is_a_bad_request_before_anything_happens(
        self, world: World
    ) -> None:
        with pytest.raises(BadRequest, match="unknown analysis area churn"):
            await finished(world, areas=["churn"])
        assert world.desk.phases == []


class TestFailures:
    async def test_a_failing_area_makes_the_run_partial(self, world: World) -> None:
        def fail_for_trends(request: Any) -> Any:
            area = read_json_block(request.messages[0].content, "area")
            return ModelUnreachable("timed out") if area["id"] == "trends" else analyse(request)

        world.roles["analyst"] = fail_for_trends
        result = await finished(world)
        assert (result.run_type, result.failure) == (RunType.PARTIAL, "")
        assert result.summary.errors == ["Trends: timed out"]
        assert len(result.insights) == 3
        wrong = [row for row in world.desk.rows if row.type is RunStepType.ERROR]
        assert [(r.message, r.error, r.analysis_area) for r in wrong] == [
            ("Trends failed", "timed out", "trends")
        ]

    async def test_a_run_whose_every_area_failed_is_saved_and_fails(self, world: World) -> None:
        world.roles["analyst"] = lambda _: ModelAuthError("the key was refused")
        result = await finished(world)
        assert result.run_type is RunType.FAILED
        assert result.failure == "analysis failed in every area: the key was refused"
        assert len(world.desk.saved) == 1
        assert world.desk.recommendation is not None
        assert world.desk.recommendation.status == "skipped_no_eligible_insights"

    async def test_an_invalid_key_ends_the_run_at_once(self, world: World) -> None:
        world.roles["explorer"] = lambda _: ModelAuthError("the key was refused")
        with pytest.raises(ModelAuthError):
            await finished(world)
        assert world.desk.saved == []

    async def test_an_empty_warehouse_ends_the_run(self, world: World) -> None:
        world.renew(catalog=MemoryCatalog(known=[]))
        with pytest.raises(EmptyWarehouse, match="no table"):
            await finished(world)
        [wrong] = [row for row in world.desk.rows if row.type is RunStepType.ERROR]
        assert (wrong.phase, "no table" in wrong.error) == ("schema_discovery", True)

    async def test_failed_recommendations_leave_the_insights(self, world: World) -> None:
        world.roles["recommender"] = lambda _: ModelUnreachable("gone")
        result = await finished(world)
        assert (result.run_type, result.failure) == (RunType.FULL, "")
        assert result.summary.errors == ["Recommendations: gone"]
        assert len(result.insights) == 4

    async def test_an_embedding_failure_is_recorded_and_not_fatal(self, world: World) -> None:
        world.desk.publish_error = VectorsUnavailable("disk full")
        result = await finished(world)
        assert result.failure == ""
        [error] = result.summary.errors
        assert "not indexed for search: disk full" in error
        assert world.desk.saved[0].summary.errors == [error]
        assert len(world.desk.saved) == 1
        assert len(world.desk.standalone) == 8

    @pytest.mark.parametrize("phase", [RunPhase.EXPLORATION, RunPhase.ANALYSIS, RunPhase.SAVING])
    async def test_a_lost_run_stops_and_saves_nothing(self, world: World, phase: RunPhase) -> None:
        world.desk.lose_at, world.desk.lost = phase, RunSuperseded("taken over")
        with pytest.raises(RunSuperseded):
            await finished(world)
        assert world.desk.order == []


class TestValidation:
    async def test_switched_off_it_costs_nothing_and_lets_insights_through(
        self, world: World
    ) -> None:
        world.project.validation_enabled = False
        result = await finished(world)
        combined = {i.validation.combined for i in result.insights if i.validation}
        assert combined == {Status.VALIDATION_DISABLED}
        assert world.requests("verifier") == []
        assert world.desk.validation == []
        assert len(result.recommendations) == 4

    async def test_the_cap_is_threaded_across_areas(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("VALIDATION_MAX_INSIGHTS_PER_RUN", "3")
        monkeypatch.setenv("VALIDATION_MAX_RECOMMENDATIONS_PER_RUN", "1")
        world.renew(Settings())
        result = await finished(world)
        combined = [i.validation.combined for i in result.insights if i.validation]
        assert combined == [Status.SUPPORTED] * 3 + [Status.SKIPPED_BUDGET_CAP]
        advice = [r.validation.combined for r in result.recommendations if r.validation]
        assert advice == [Status.SUPPORTED, Status.SKIPPED_BUDGET_CAP, Status.SKIPPED_BUDGET_CAP]

    async def test_the_project_decides_which_verdicts_are_eligible(self, world: World) -> None:
        world.project.recommendation_verdicts = [Status.CONFIRMED]
        await finished(world)
        assert world.desk.recommendation is not None
        assert world.desk.recommendation.status == "skipped_no_eligible_insights"
        assert world.requests("recommender") == []


class TestDeadline:
    @pytest.fixture
    def hurried(self, world: World, monkeypatch: pytest.MonkeyPatch) -> World:
        monkeypatch.setenv("DISCOVERY_MAX_DURATION", "0.3")
        world.renew(Settings())
        world.deps = replace(world.deps, clock=lambda: datetime.now(UTC))
        return world

    async def test_in_analysis_what_there_is_gets_saved(self, hurried: World) -> None:
        async def hang_after_trends(request: Any) -> Any:
            area = read_json_block(request.messages[0].content, "area")
            if area["id"] != "trends":
                await asyncio.Event().wait()
            return analyse(request)

        hurried.roles["analyst"] = hang_after_trends
        result = await finished(hurried)
        assert result.run_type is RunType.PARTIAL
        assert result.failure.startswith("the run exceeded DISCOVERY_MAX_DURATION")
        assert result.summary.errors == [result.failure]
        assert [i.ref for i in result.insights] == ["trends-1"]
        assert [bool(step.error) for step in hurried.desk.analysis] == [False, True, True, True]
        assert hurried.desk.order == ["save"], "nothing is embedded"
        assert hurried.desk.recommendation is None

    async def test_in_exploration_the_steps_get_saved(self, hurried: World) -> None:
        explore = hurried.roles["explorer"]

        async def hang_at_third(request: Any) -> Any:
            if len(request.messages) > 3:
                await asyncio.Event().wait()
            return explore(request)

        hurried.roles["explorer"] = hang_at_third
        result = await finished(hurried)
        assert (result.run_type, result.total_steps) == (RunType.FAILED, 2)
        assert result.failure.startswith("the run exceeded DISCOVERY_MAX_DURATION")
        assert [s.step for s in hurried.desk.exploration] == [1, 2]
        assert hurried.requests("analyst") == []

    async def test_in_validation_the_verdicts_so_far_stay(self, hurried: World) -> None:
        judge = hurried.roles["refuter"]

        async def hang_at_segments(request: Any) -> Any:
            bundle = read_json_block(request.messages[0].content, "bundle")
            if bundle["doc"]["headline"].startswith("Segments"):
                await asyncio.Event().wait()
            return judge(request)

        hurried.roles["refuter"] = hang_at_segments
        result = await finished(hurried)
        assert [bool(i.validation) for i in result.insights] == [True, False]
        assert result.failure
