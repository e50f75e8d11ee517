"""What a finished run leaves: discovery, split logs, standalone documents, context, ratings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.store.client import Collection
from adapters.store.store import Store
from pipeline.errors import Conflict, NotFound, StoreUnavailable
from pipeline.ports import Archive, Journal, Memory
from pipeline.records import (
    AnalysisStep,
    ClaimEvidence,
    ClaimVerdict,
    ContextNote,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Feedback,
    Insight,
    InsightValidation,
    Project,
    ProjectContext,
    RecommendationStep,
    StandaloneDoc,
    StructuredVerdict,
    ValidationResult,
    WarehouseConfig,
)

NewDiscovery = Callable[..., DiscoveryResult]
NewStep = Callable[..., ExplorationStep]
NewRun = Callable[..., DiscoveryRun]
Raw = Callable[[str], Collection]
ROW = {"sum(x.y)": 10**30, "$n": 1.5, "": None, "bad\ud800": "\udfff"}
ROW_BACK = {"sum(x.y)": str(10**30), "$n": 1.5, "": None, "bad\\ud800": "\\udfff"}


@pytest.fixture
def judged() -> Insight:
    """An insight whose metrics and evidence carry the oddest names and numbers."""
    evidence = ClaimEvidence(kind="step_row", step_id=1, row=dict(ROW))
    claim = ClaimVerdict(claim_text="c", is_headline=True, status="confirmed", evidence=evidence)
    verdict = StructuredVerdict(doc_id="i1", mode="verifier", claim_verdicts=[claim])
    return Insight(
        id="i1",
        ref="trends-1",
        analysis_area="trends",
        name="n",
        metrics=dict(ROW),
        validation=InsightValidation(verifier=verdict),
    )


async def archive(store: Store, result: DiscoveryResult, steps: list[ExplorationStep]) -> None:
    at = result.discovery_date
    await store.save_discovery(
        result,
        exploration=steps,
        analysis=[AnalysisStep(area_id="trends", run_at=at, insights=result.insights)],
        validation=[
            ValidationResult(insight_id="i1", validated_at=at),
            ValidationResult(insight_id="i2", validated_at=at + timedelta(seconds=1)),
        ],
        recommendation=RecommendationStep(run_at=at, status="skipped_no_eligible_insights"),
    )


async def test_a_discovery_and_its_split_logs_come_back(
    store: Store, new_discovery: NewDiscovery, new_step: NewStep, judged: Insight
) -> None:
    result = new_discovery(insights=[judged], areas_requested=["trends"])
    steps = [new_step(n, query_result=[dict(ROW)], row_count=1) for n in (1, 2, 3)]
    await archive(store, result, steps)

    stored = await store.discoveries.get("d1")
    (insight,) = stored.insights
    assert insight.metrics == ROW_BACK
    assert insight.validation is not None
    assert insight.validation.verifier is not None
    assert insight.validation.verifier.claim_verdicts[0].evidence.row == ROW_BACK
    assert await store.discoveries.by_run("r1") == [stored]

    kept = await store.exploration_steps.of("d1")
    assert [step.step for step in kept] == [1, 2, 3]
    assert all(step.query_result == [ROW_BACK] for step in kept)
    assert await store.exploration_steps.get("d1", 2) == kept[1]
    (area,) = await store.analysis_steps.of("d1")
    assert (area.discovery_id, area.project_id, area.insights) == ("d1", "p1", [insight])
    judged_ids = [row.insight_id for row in await store.validation_results.of("d1")]
    assert judged_ids == ["i1", "i2"]
    (advice,) = await store.recommendation_log.of("d1")
    assert advice.status == "skipped_no_eligible_insights"


async def test_the_discovery_document_holds_no_log(
    store: Store, raw: Raw, new_discovery: NewDiscovery, new_step: NewStep
) -> None:
    await archive(store, new_discovery(), [new_step(1, query="SELECT 'only in the log'")])
    (document,) = await raw("discoveries").find({})
    assert "only in the log" not in str(document)


async def test_saving_a_discovery_again_replaces_it_and_its_logs(
    store: Store, new_discovery: NewDiscovery, new_step: NewStep
) -> None:
    await archive(store, new_discovery(), [new_step(1), new_step(2)])
    await archive(store, new_discovery(total_steps=1), [new_step(1)])
    assert (await store.discoveries.get("d1")).total_steps == 1
    assert len(await store.exploration_steps.of("d1")) == 1
    assert len(await store.validation_results.of("d1")) == 2
    assert len(await store.recommendation_log.of("d1")) == 1


@pytest.mark.parametrize("fault", [StoreUnavailable("no room"), TypeError("a bug")])
async def test_log_failures_never_lose_the_discovery(
    store: Store,
    new_discovery: NewDiscovery,
    new_step: NewStep,
    fault: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(store.exploration_steps, "save", refuse)
    monkeypatch.setattr(store.recommendation_log, "save", refuse)
    with caplog.at_level(logging.WARNING):
        await archive(store, new_discovery(), [new_step(1)])
    assert await store.discoveries.find("d1") is not None
    assert len(await store.analysis_steps.of("d1")) == 1
    assert "the exploration log of this discovery was not saved" in caplog.text
    assert "the recommendation log of this discovery was not saved" in caplog.text


async def test_a_step_too_large_for_a_document_is_stored_with_fewer_rows(
    store: Store, new_discovery: NewDiscovery, new_step: NewStep
) -> None:
    rows = [{"n": n, "text": "x" * 2_000_000} for n in range(10)]
    await store.exploration_steps.save(
        new_discovery(), [new_step(1, query_result=rows, row_count=10), new_step(2)]
    )
    large, small = await store.exploration_steps.of("d1")
    assert 0 < len(large.query_result) < large.row_count == 10
    assert small.step == 2


async def test_memory_gives_the_newest_discoveries_without_the_present_run(
    store: Store, new_discovery: NewDiscovery, now: datetime
) -> None:
    for n in range(5):
        at = now - timedelta(days=n)
        await store.discoveries.save(new_discovery(f"d{n}", run_id=f"r{n}", discovery_date=at))
    await store.discoveries.save(new_discovery("other", project_id="p2"))
    recent = await store.recent_discoveries("p1", 3, exclude_run="r1")
    assert [result.id for result in recent] == ["d0", "d2", "d3"]
    assert await store.discoveries.delete("d0")
    assert len(await store.discoveries.recent("p1", 0)) == 4


async def test_ratings_are_one_per_target(store: Store, now: datetime) -> None:
    def rated(rating_id: str, rating: str, target: str) -> Feedback:
        return Feedback.model_validate(
            {
                "id": rating_id,
                "project_id": "p1",
                "discovery_id": "d1",
                "target_type": "insight",
                "target_id": target,
                "rating": rating,
                "created_at": now,
            }
        )

    await store.ratings.save(rated("f1", "like", "i1"))
    again = await store.ratings.save(rated("f2", "dislike", "i1"))
    await store.ratings.save(rated("f3", "like", "i2"))
    assert again.id == "f1"
    found = {rating.target_id: rating.rating for rating in await store.feedback("p1")}
    assert found == {"i1": "dislike", "i2": "like"}
    assert len(await store.ratings.of_discovery("d1")) == 2
    assert await store.ratings.delete("f1")
    assert len(await store.feedback("p1")) == 1


async def test_a_project_has_one_context_that_is_replaced(store: Store) -> None:
    assert await store.context("p1") is None
    await store.save_context(ProjectContext(project_id="p1", discoveries=1))
    await store.save_context(
        ProjectContext(project_id="p1", discoveries=2, notes=[ContextNote(text="seasonal")])
    )
    context = await store.context("p1")
    assert context is not None
    assert (context.discoveries, context.notes[0].text) == (2, "seasonal")
    assert context.updated_at is not None


async def test_standalone_documents_go_to_their_collection(store: Store, now: datetime) -> None:
    def doc(doc_id: str, kind: str, **inner: Any) -> StandaloneDoc:
        return StandaloneDoc(
            id=doc_id, kind=kind, discovery_id="d1", project_id="p1", doc=inner, created_at=now
        )

    docs = [
        doc("i1", "insight", analysis_area="trends", severity="high", metrics=dict(ROW)),
        doc("i2", "insight", analysis_area="segments", severity="low"),
        doc("r1", "recommendation", category="growth"),
    ]
    await store.save_standalone(docs)
    await store.save_standalone(docs)
    assert [found.id for found in await store.insights.of_project("p1")] == ["i1", "i2"]
    (high,) = await store.insights.of_project("p1", severity="high")
    assert high.doc["metrics"] == ROW_BACK
    assert await store.recommendations.of_project("p1", recommendation_category="growth") == [
        docs[2]
    ]
    assert (await store.recommendations.get("r1")).kind == "recommendation"
    with pytest.raises(NotFound):
        await store.insights.get("r1")
    assert await store.insights.delete_of_discovery("d1") == 2
    assert await store.insights.of_discovery("d1") == []


async def test_projects_are_created_found_and_changed(store: Store) -> None:
    lake = WarehouseConfig(config={"path": "x.duckdb", "odd.key": {"$a": 1}})
    made = await store.projects.create(Project(id="p1", name="Flights", warehouses=[lake]))
    await store.projects.create(Project(id="p2", name="Flights"))
    with pytest.raises(Conflict, match="project p1 exists already"):
        await store.projects.create(Project(id="p1", name="Again"))
    found = await store.projects.get("p1")
    assert found.warehouses == made.warehouses
    assert {project.id for project in await store.projects.by_name("Flights")} == {"p1", "p2"}
    await store.projects.replace(found.model_copy(update={"language": "German"}))
    assert (await store.projects.get("p1")).language == "German"
    assert len(await store.projects.newest_first()) == 2


@pytest.mark.parametrize("room", ["projects", "discoveries", "exploration_steps"])
async def test_what_is_not_there_is_not_found(store: Store, room: str) -> None:
    asked: Any = {
        "projects": lambda: store.projects.get("x"),
        "discoveries": lambda: store.discoveries.get("x"),
        "exploration_steps": lambda: store.exploration_steps.get("x", 1),
    }[room]
    with pytest.raises(NotFound):
        await asked()
    if room == "projects":
        with pytest.raises(NotFound):
            await store.projects.replace(Project(id="x", name="n"))


async def test_the_store_is_what_the_phases_ask_for(store: Store, new_run: NewRun) -> None:
    memory: Memory = store
    sink: Archive = store
    journal: Journal = store.journal(new_run())
    assert memory is sink
    assert journal is not None
