"""The offline analyst over the demo warehouse: 40 steps, real loops, real rows."""

from __future__ import annotations

from collections import Counter

from pipeline.packs import load_pack, new_project
from pipeline.records import StepAction, WarehouseConfig
from pipeline.sql.rows import rows_of
from tests.adapters.llm.offline.conftest import Case, opened, run_discovery

HELD = {"confirmed", "supported"}


def combined(case: Case) -> Counter[str]:
    return Counter(
        i.validation.combined.value
        for i in case.result.insights
        if i.validation and i.validation.combined
    )


def test_it_uses_its_steps_for_questions_that_can_be_answered(demo: Case) -> None:
    assert len(demo.queries) >= 35
    assert [s.error for s in demo.deps.steps if s.error] == []
    assert demo.deps.steps[0].action is StepAction.LOOKUP_SCHEMA
    assert len({s.query for s in demo.queries}) == len(demo.queries)
    assert {"main.flights", "main.weather", "main.planes"} <= set(demo.deps.steps[0].lookup_tables)
    purposes = " ".join(s.query_purpose for s in demo.queries)
    for theme in ("Trend over time", "Ranking", "Anomaly check", "Data quality", "Outliers"):
        assert theme in purposes
    assert all(s.thinking.endswith("?") for s in demo.queries)


async def test_its_sql_reruns_to_the_same_rows(demo: Case) -> None:
    async with opened(demo.path) as warehouse:
        for step in demo.queries:
            again = await warehouse.query(step.query)
            assert rows_of(again.table) == rows_of(demo.deps.results[step.step].table), step.query


def test_findings_stand_in_every_area_and_none_is_rejected(demo: Case) -> None:
    areas = Counter(i.analysis_area for i in demo.result.insights)
    assert set(areas) == {"trends", "segments", "anomalies", "data_quality"}
    assert all(2 <= n <= 5 for n in areas.values())
    assert set(combined(demo)) <= HELD
    for insight in demo.result.insights:
        assert insight.source_steps
        assert insight.name[0] != "*"
        assert insight.description_md
        assert insight.description_md.startswith("**")
        assert 0 < insight.confidence < 1


def test_true_figures_that_anyone_can_look_up(demo: Case) -> None:
    names = " ".join(i.name for i in demo.result.insights)
    assert "Carrier UA (United Air Lines Inc.) has the most flights: 58665 of 336776 rows" in names
    assert "air_time is missing in 9430 of 336776 rows of flights (2.8%)" in names
    assert "50094 of 334264 rows of flights have a tailnum that is not in planes (15.0%)" in names


def test_the_refuter_never_confirms_and_always_looks(demo: Case) -> None:
    for insight in demo.result.insights:
        assert insight.validation
        refuter = insight.validation.refuter
        assert refuter
        assert refuter.overall == "supported"
        assert refuter.stats.queries_issued + refuter.stats.step_reads_used >= 1
        assert {c.status for c in refuter.claim_verdicts} == {"supported"}


def test_verifier_and_refuter_ask_differently_and_differently_from_the_step(demo: Case) -> None:
    steps = {s.step: s.query for s in demo.queries}
    for insight in demo.result.insights:
        assert insight.validation
        assert insight.validation.verifier
        assert insight.validation.refuter
        first, second = (
            v.claim_verdicts[0].evidence.query_sql
            for v in (insight.validation.verifier, insight.validation.refuter)
        )
        assert first
        assert second
        assert len({first, second, steps[insight.source_steps[0]]}) == 3


async def test_every_evidence_row_can_be_reproduced_by_its_sql(demo: Case) -> None:
    async with opened(demo.path) as warehouse:
        for insight in demo.result.insights[::2]:
            assert insight.validation
            for verdict in (insight.validation.verifier, insight.validation.refuter):
                assert verdict
                for claim in verdict.claim_verdicts:
                    evidence = claim.evidence
                    assert evidence.kind == "warehouse_query"
                    assert evidence.row
                    again = rows_of((await warehouse.query(evidence.query_sql)).table)
                    assert again == [evidence.row]


def test_recommendations_rest_on_findings_and_hold(demo: Case) -> None:
    ids = {i.id for i in demo.result.insights}
    assert 3 <= len(demo.result.recommendations) <= 6
    for rec in demo.result.recommendations:
        assert set(rec.related_insight_ids) <= ids
        assert rec.actions
        assert rec.expected_impact.estimated_improvement == "not estimated"
        assert rec.validation
        assert rec.validation.combined
        assert rec.validation.combined.value in HELD


async def test_a_second_discovery_carries_on_where_the_first_ended(demo: Case) -> None:
    desk, project_id = demo.desk, demo.result.project_id
    project = new_project("Any", load_pack("general"), WarehouseConfig())
    project = project.model_copy(update={"id": project_id})
    second = await run_discovery(
        demo.path, desk=desk, project=project, run_id="run-2", max_steps=26
    )
    earlier = {s.query for s in demo.queries}
    fresh = [s for s in second.queries if s.query not in earlier]
    assert len(fresh) >= 8
    assert any(s.query in earlier for s in second.queries)
    assert set(combined(second)) <= HELD
