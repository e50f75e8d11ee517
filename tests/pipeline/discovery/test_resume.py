"""A run that died at any moment goes on as if nothing had happened (reference K.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.checkpoint.keep import checkpoint_of
from pipeline.checkpoint.port import Kept
from pipeline.checkpoint.prefix import contiguous, summary_of
from pipeline.discovery import discover
from pipeline.errors import ModelUnreachable, StoreUnavailable
from pipeline.ports import ChatRequest, QueryResult
from pipeline.prompting import read_json_block
from pipeline.records import (
    DiscoveryResult,
    ExplorationStep,
    Insight,
    RunPhase,
    RunStepType,
    Status,
)
from pipeline.records.checkpoint import AreaCheckpoint, CheckpointKind, StepCheckpoint
from pipeline.settings import Settings
from tests.pipeline.discovery.conftest import ANSWERS, NOW, Desk, MemoryWarehouse, World, analyse

MONTHS, CARRIERS, MISSING = ANSWERS
BROKEN = "SELECT carrier, count(*) n FROM flihgts GROUP BY 1"
LOST = "SELECT nobody FROM nowhere"
SCRIPT: list[dict[str, Any]] = [
    {"rationale": "to see", "lookup_schema": ["main.flights", "main.planes"]},
    {"rationale": "to learn", "query_purpose": "Trend of delay by month", "query": MONTHS},
    {"rationale": "words", "search_tables": "airports", "search_top_k": 3},
    {"rationale": "to rank", "query_purpose": "Largest carriers by share", "query": BROKEN},
    {"rationale": "to fail", "query_purpose": "Nothing", "query": LOST},
    {"rationale": "enough", "done": True, "summary": "too soon"},
    {"rationale": "gaps", "query_purpose": "Missing delay values", "query": MISSING},
    {"rationale": "all seen", "done": True, "summary": "delays by month and carrier"},
]
MIN_STEPS = 7


class Killed(BaseException):
    """The process is gone: nothing that catches errors sees it."""


class CountingWarehouse(MemoryWarehouse):
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        self.asked.append(sql)
        return await super().query(sql, max_rows=max_rows)


@dataclass
class Ledger(Desk):
    """A desk that keeps checkpoints as the store does, for one attempt after the other."""

    attempt: int = 1
    steps: dict[int, StepCheckpoint] = field(default_factory=dict[int, StepCheckpoint])
    areas: dict[str, AreaCheckpoint] = field(default_factory=dict[str, AreaCheckpoint])
    renewed: int = 0
    die_after_writing: int = 0
    refuse: str = ""

    async def step(self, step: ExplorationStep) -> None:
        ids: dict[str, str] = {"project_id": "p", "run_id": "run-1"}
        self.steps[step.step] = checkpoint_of(step, attempt=self.attempt, at=NOW, **ids)
        if step.step == self.die_after_writing:
            raise Killed

    async def load(self) -> Kept:
        rows = [StepCheckpoint.model_validate(r.model_dump()) for r in self.steps.values()]
        areas = [AreaCheckpoint.model_validate(r.model_dump()) for r in self.areas.values()]
        prefix = contiguous(rows)
        return Kept(prefix, summary_of(rows, prefix), areas)

    async def renew(self) -> None:
        self.renewed += 1

    async def explored(self, *, message: str, total_steps: int, duration_ms: int) -> None:
        if self.refuse == "summary":
            raise StoreUnavailable("no room")
        self.steps[0] = StepCheckpoint(
            step_number=0,
            kind=CheckpointKind.EXPLORATION_SUMMARY,
            attempt=self.attempt,
            completed=True,
            completion_msg=message,
            total_steps=total_steps,
        )

    async def area(self, row: AreaCheckpoint) -> None:
        if self.refuse == "area":
            raise StoreUnavailable("no room")
        kept = AreaCheckpoint.model_validate(row.model_dump())
        self.areas[row.area_id] = kept.model_copy(update={"attempt": self.attempt})


def turn_of(request: ChatRequest) -> int:
    return sum(1 for message in request.messages if message.role == "assistant")


class Story:
    """One run, from its first attempt on."""

    def __init__(self, world: World) -> None:
        self.world, self.ledger = world, Ledger()
        world.desk = self.ledger
        world.roles["explorer"] = lambda request: SCRIPT[turn_of(request)]
        world.roles["sql_fixer"] = self._fix
        self.warehouse = CountingWarehouse()

    @staticmethod
    def _fix(request: ChatRequest) -> Any:
        broken = BROKEN in request.messages[-1].content or BROKEN in request.messages[0].content
        return {"fixed_sql": CARRIERS if broken else LOST}

    def kill(self, role: str, when: int) -> None:
        """Die at the call number ``when`` (from 0) of a role."""
        play, before = self.world.roles[role], len(self.world.requests(role))

        def fatal(request: ChatRequest) -> Any:
            if len(self.world.requests(role)) - before > when:
                raise Killed
            return play(request)

        self.world.roles[role] = fatal
        self._revive = lambda: self.world.roles.__setitem__(role, play)

    async def attempt(self, number: int, **run: Any) -> DiscoveryResult:
        """Run an attempt with fresh dependencies; only the ledger is what it was."""
        self.ledger.attempt, self.warehouse = number, CountingWarehouse()
        self.ledger.rows, self.ledger.phases = [], []
        deps = self.world.renew(run.pop("settings", None), warehouse=self.warehouse)
        self.world.deps = replace(deps, checkpoints=self.ledger, clock=run.pop("clock", deps.clock))
        begun = self.world.run(attempt=number, min_steps=MIN_STEPS, **run)
        return await discover(begun, self.world.project, self.world.deps)

    async def die(self, **run: Any) -> None:
        with pytest.raises(Killed):
            await self.attempt(1, **run)
        self._revive()


@pytest.fixture
def story(world: World) -> Story:
    return Story(world)


def told(steps: list[ExplorationStep]) -> list[dict[str, Any]]:
    """Steps without times and without what no checkpoint keeps."""
    lost = {"llm_request", "llm_response", "fix_history", "duration_ms"}
    return [step.model_dump(exclude=lost) for step in steps]


def found(insights: list[Insight]) -> list[tuple[Any, ...]]:
    return [
        (i.ref, i.name, i.source_steps, i.affected_count, i.validation and i.validation.combined)
        for i in insights
    ]


async def uninterrupted() -> tuple[DiscoveryResult, Story]:
    from pipeline.packs import load_pack, new_project
    from pipeline.records import WarehouseConfig

    story = Story(World(new_project("Flights", load_pack("general"), WarehouseConfig())))
    return await story.attempt(1), story


STEPS = len(SCRIPT)
QUERIES = {2: 1, 4: 2, 5: 1, 7: 1}
"""What each query step costs the warehouse: one is repaired once, one is given up."""


@pytest.mark.parametrize("done", range(1, STEPS))
async def test_killed_after_any_step_it_ends_with_the_same_steps_and_insights(
    story: Story, done: int
) -> None:
    whole, undisturbed = await uninterrupted()
    story.kill("explorer", done)
    await story.die()
    assert sorted(story.ledger.steps) == list(range(1, done + 1))
    before = len(story.world.requests("explorer"))
    result = await story.attempt(2)
    assert told(story.ledger.exploration) == told(undisturbed.ledger.exploration)
    assert found(result.insights) == found(whole.insights)
    assert result.failure == ""
    rest = sum(cost for step, cost in QUERIES.items() if step > done)
    assert len(story.warehouse.asked) == rest, "no query of the prefix runs again"
    again = story.world.requests("explorer")[before:]
    assert len(again) == STEPS - done, "the model is asked for new steps only"
    first = undisturbed.world.requests("explorer")[done]
    assert [(m.role, m.content) for m in again[0].messages] == [
        (m.role, m.content) for m in first.messages
    ], "the model sees the very conversation, and nothing about an interruption"
    assert {row.attempt for row in story.ledger.steps.values()} == {2}
    fed = [row.step_num for row in story.ledger.rows if row.step_num and row.phase == "exploration"]
    assert fed == list(range(1, STEPS + 1)), "the prefix is told again under the new attempt"
    counted = ("total_queries", "failed_queries", "schema_lookup_calls", "schema_search_calls")
    assert {n: story.ledger.counters[n] for n in counted} == {
        n: undisturbed.ledger.counters[n] for n in counted
    }


@pytest.mark.parametrize("second", range(1, 5))
async def test_killed_while_it_replays_it_loses_no_step(story: Story, second: int) -> None:
    story.kill("explorer", 5)
    await story.die()
    story.ledger.die_after_writing = second
    with pytest.raises(Killed):
        await story.attempt(2)
    story.ledger.die_after_writing = 0
    assert len((await story.ledger.load()).prefix) == 5
    await story.attempt(3)
    assert len(story.ledger.exploration) == STEPS


async def test_a_run_that_died_after_exploration_asks_nothing_again(story: Story) -> None:
    whole, undisturbed = await uninterrupted()
    story.kill("analyst", 2)
    await story.die()
    before = {role: len(story.world.requests(role)) for role in ("explorer", "analyst", "verifier")}
    result = await story.attempt(2)
    assert len(story.world.requests("explorer")) == before["explorer"]
    assert story.warehouse.asked == []
    assert told(story.ledger.exploration) == told(undisturbed.ledger.exploration)
    assert found(result.insights) == found(whole.insights)
    asked = [
        read_json_block(request.messages[0].content, "area")["id"]
        for request in story.world.requests("analyst")[before["analyst"] :]
    ]
    assert asked == ["anomalies", "data_quality"], "completed areas are not analysed again"
    assert story.ledger.renewed == 1
    kinds = [row.type for row in story.ledger.rows]
    assert kinds.count(RunStepType.QUERY) == 4
    assert (kinds.count(RunStepType.INSIGHT), kinds.count(RunStepType.ANALYSIS)) == (4, 8)
    assert kinds.count(RunStepType.VALIDATION) == 8
    details = [row.message for row in story.ledger.rows if row.phase == RunPhase.ANALYSIS.value]
    assert "Analysing Anomalies (3 of 4, 2 complete before)" in details
    assert [step.area_id for step in story.ledger.analysis] == [
        "trends", "segments", "anomalies", "data_quality",
    ]  # fmt: skip


async def test_no_identity_crosses_attempts_and_every_reference_is_re_pointed(story: Story) -> None:
    story.kill("analyst", 2)
    await story.die()
    old = {i.id for row in story.ledger.areas.values() for i in row.step.insights}
    result = await story.attempt(2)
    ids = {insight.id for insight in result.insights}
    assert len(old) == 2
    assert not old & ids
    for insight in result.insights:
        assert insight.validation
        for verdict in (insight.validation.verifier, insight.validation.refuter):
            assert verdict
            assert verdict.doc_id == insight.id
    judged = [row for row in story.ledger.validation if row.doc_kind == "insight"]
    assert {row.insight_id for row in judged} == ids
    assert all(row.verifier and row.verifier.doc_id == row.insight_id for row in judged)
    assert all(row.refuter and row.refuter.doc_id == row.insight_id for row in judged)
    for recommendation in result.recommendations:
        assert set(recommendation.related_insight_ids) <= ids


async def test_the_validation_cap_is_not_reset(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALIDATION_MAX_INSIGHTS_PER_RUN", "3")
    settings = Settings()
    story.kill("analyst", 2)
    await story.die(settings=settings)
    assert [row.validated for row in story.ledger.areas.values()] == [1, 1]
    result = await story.attempt(2, settings=settings)
    combined = [i.validation.combined for i in result.insights if i.validation]
    assert combined == [Status.SUPPORTED] * 3 + [Status.SKIPPED_BUDGET_CAP]


async def test_a_failed_area_is_never_kept_and_is_tried_again(story: Story) -> None:
    def trends_fail(request: ChatRequest) -> Any:
        area = read_json_block(request.messages[0].content, "area")
        return ModelUnreachable("timed out") if area["id"] == "trends" else analyse(request)

    story.world.roles["analyst"] = trends_fail
    story.kill("recommender", 0)
    await story.die()
    assert sorted(story.ledger.areas) == ["anomalies", "data_quality", "segments"]
    story.world.roles["analyst"] = analyse
    result = await story.attempt(2)
    assert result.insights[0].ref == "trends-1"
    assert result.summary.errors == []


async def test_an_area_is_restored_only_when_exploration_is_skipped(story: Story) -> None:
    story.kill("analyst", 2)
    await story.die()
    del story.ledger.steps[4]
    before = len(story.world.requests("analyst"))
    result = await story.attempt(2)
    assert len(story.world.requests("analyst")) == before + 4
    assert {row.explored_in for row in story.ledger.areas.values()} == {2}
    assert len(result.insights) == 4


async def test_an_area_that_this_run_does_not_run_is_not_read(story: Story) -> None:
    story.kill("analyst", 2)
    await story.die()
    story.world.project.prompts.analysis_areas["trends"].enabled = False
    result = await story.attempt(2)
    assert [i.analysis_area for i in result.insights] == ["segments", "anomalies", "data_quality"]


@pytest.mark.parametrize("lost", ["summary", "area"])
async def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(
    story: Story, lost: str
) -> None:
    story.ledger.refuse = lost
    result = await story.attempt(1)
    assert (result.failure, len(result.insights)) == ("", 4)


def in_real_time(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    monkeypatch.setenv("DISCOVERY_MAX_DURATION", "0.4")
    return {"settings": Settings(), "clock": lambda: datetime.now(UTC)}


async def test_the_deadline_in_exploration_ends_a_run_that_can_be_resumed(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = await uninterrupted()

    async def hang_at_third(request: ChatRequest) -> Any:
        if turn_of(request) == 2:
            await asyncio.Event().wait()
        return SCRIPT[turn_of(request)]

    story.world.roles["explorer"] = hang_at_third
    partial = await story.attempt(1, **in_real_time(monkeypatch))
    assert partial.failure.startswith("the run exceeded DISCOVERY_MAX_DURATION")
    assert sorted(story.ledger.steps) == [1, 2], "no summary says that exploration had ended"
    assert story.ledger.areas == {}
    story.world.roles["explorer"] = lambda request: SCRIPT[turn_of(request)]
    result = await story.attempt(2)
    assert (result.failure, found(result.insights)) == ("", found(whole.insights))
    assert [saved.id for saved in story.ledger.saved] == [partial.id, result.id]


async def test_the_deadline_in_validation_keeps_no_half_judged_area(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = story.world.roles["refuter"]

    async def hang_at_segments(request: ChatRequest) -> Any:
        bundle = read_json_block(request.messages[0].content, "bundle")
        if bundle["doc"]["headline"].startswith("Segments"):
            await asyncio.Event().wait()
        return judge(request)

    story.world.roles["refuter"] = hang_at_segments
    partial = await story.attempt(1, **in_real_time(monkeypatch))
    assert partial.failure
    assert list(story.ledger.areas) == ["trends"]
    story.world.roles["refuter"] = judge
    result = await story.attempt(2)
    assert (result.failure, len(result.insights)) == ("", 4)
    assert all(i.validation and i.validation.refuter for i in result.insights)
