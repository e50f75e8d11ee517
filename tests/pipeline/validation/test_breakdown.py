"""A model that fails leaves a verdict that says so and no judgement."""

from __future__ import annotations

import pytest

from pipeline.errors import ModelUnreachable
from pipeline.ports import ChatRequest
from pipeline.records import ExplorationStep, InsightValidation, Quality, QualityKind, StepAction
from pipeline.settings import ValidationSettings
from pipeline.testing import Scripted, ScriptedModel
from pipeline.validation.agents import LocalAgents, ValidationAgents
from pipeline.validation.breakdown import breakdown
from pipeline.validation.bundle import Bundle
from pipeline.validation.phase import judge
from pipeline.validation.replay import as_stored
from tests.pipeline.validation.world import NOW, World, claim, insight_of, submit

READ = {"read_step_rows": {"step_id": 1}}


async def judged(world: World, agents: ValidationAgents) -> InsightValidation:
    return await judge(world.source.for_insight(insight_of()), agents, refuter_disabled=False)


def agents(world: World, model: ScriptedModel, **knobs: int) -> LocalAgents:
    settings = ValidationSettings.model_validate(knobs)
    return LocalAgents(model, world.tools, settings)


@pytest.mark.parametrize("knobs", [{}, {"VALIDATION_VERIFIER_MAX_ROUNDS": 0}])
async def test_a_model_that_is_not_reached_is_a_breakdown(
    world: World, knobs: dict[str, int]
) -> None:
    model = ScriptedModel(lambda _: ModelUnreachable("no connection"))
    assert breakdown(await judged(world, agents(world, model, **knobs))) == "no connection"


async def test_a_refuter_that_breaks_down_is_one_too(world: World) -> None:
    final = submit(claim(headline=True, status="supported"))

    def play(request: ChatRequest) -> Scripted:
        if request.label == "refute":
            return ModelUnreachable("gone")
        return final if len(request.messages) > 2 else READ

    assert breakdown(await judged(world, agents(world, ScriptedModel(play)))) == "gone"


class Dying:
    async def verify(self, bundle: Bundle) -> InsightValidation:
        raise RuntimeError("out of memory")

    refute = verify


async def test_an_agent_that_dies_twice_is_a_breakdown(world: World) -> None:
    assert breakdown(await judged(world, Dying())) == "out of memory"  # pyright: ignore[reportArgumentType] - it never answers


async def test_a_verdict_that_somebody_reached_is_none(world: World) -> None:
    final = submit(claim(headline=True, status="unverifiable"), overall="unverifiable")
    model = ScriptedModel(lambda r: final if len(r.messages) > 2 else READ)
    assert breakdown(await judged(world, agents(world, model))) == ""
    assert breakdown(InsightValidation()) == ""


def test_a_stored_step_says_how_many_of_its_rows_the_log_kept() -> None:
    def step(number: int, kept: int, rows: int, **more: object) -> ExplorationStep:
        given = {"step": number, "timestamp": NOW, "action": StepAction.QUERY_DATA,
                 "query_result": [{"n": 1}] * kept, "row_count": rows}  # fmt: skip
        return ExplorationStep.model_validate(given | more)

    known = Quality(kind=QualityKind.SAMPLED)
    whole, cut, failed = as_stored(
        [step(1, 2, 2), step(2, 1, 1500, quality=[known]), step(3, 0, 5, error="no such table")]
    )
    assert (whole.quality, failed.quality) == ([], [])
    assert [quality.kind for quality in cut.quality] == ["sampled", "truncated"]
    assert cut.quality[1].detail == "the log kept 1 of the 1,500 rows that this query returned"
