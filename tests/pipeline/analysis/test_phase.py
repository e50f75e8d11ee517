"""Phase 4 for one area, with a scripted model."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pipeline.analysis.areas import Area
from pipeline.analysis.phase import NO_QUERY_SUCCEEDED, Analyst
from pipeline.errors import (
    ContextOverflow,
    ModelAuthError,
    ModelUnreachable,
    RunSuperseded,
    VectorsUnavailable,
)
from pipeline.ports import ChatReply, ChatRequest, ModelInfo, StepHit, StopReason
from pipeline.prompting import read_json_block
from pipeline.records import AnalysisStep
from pipeline.settings import AnalysisSettings
from pipeline.testing import Scripted, ScriptedModel
from tests.pipeline.analysis.conftest import NOW, MakeStep

AREA = Area(
    id="trends",
    name="Trends",
    description="What changes over time",
    keywords=("month", "delay"),
    prompt="Area text over {{DATASET}}, {{TOTAL_QUERIES}} results:\n\n{{QUERY_RESULTS}}",
)
GOOD_ITEM = {"name": "Delays rise", "affected_count": 5, "source_steps": [1]}
GOOD: dict[str, Any] = {"insights": [GOOD_ITEM]}
BAD: dict[str, Any] = {"insights": [{"affected_count": {}}]}


class Index:
    """A ``StepIndex`` that answers with fixed hits or an error."""

    def __init__(self, hits: list[StepHit] | Exception) -> None:
        self.hits, self.asked = hits, list[tuple[str, int]]()

    async def add(self, step: int, text: str, datasource_id: str) -> None:
        raise AssertionError("analysis does not index")

    async def rank(self, text: str, k: int) -> list[StepHit]:
        self.asked.append((text, k))
        if isinstance(self.hits, Exception):
            raise self.hits
        return self.hits

    async def nearest(self, text: str, datasource_id: str) -> StepHit | None:
        raise AssertionError("analysis does not judge novelty")


def analyst(model: ScriptedModel, **fields: Any) -> Analyst:
    given: dict[str, Any] = {
        "settings": AnalysisSettings(),
        "base_context": "BASE",
        "clock": lambda: NOW,
        "variables": {"DATASET": "main"},
    }
    return Analyst(model=model, **(given | fields))


async def analyse(replies: Any, steps: Any, **fields: Any) -> tuple[AnalysisStep, ScriptedModel]:
    model = replies if isinstance(replies, ScriptedModel) else ScriptedModel(replies)
    return await analyst(model, **fields).analyse(AREA, steps), model


async def test_an_area_is_picked_asked_and_read(make_step: MakeStep, now: datetime) -> None:
    steps = [make_step(1, "delay by month"), make_step(2, "planes")]
    step, model = await analyse([GOOD], steps)
    assert [i.ref for i in step.insights] == ["trends-1"]
    assert (step.insight_count, step.relevant_queries, step.error) == (1, 1, "")
    assert (step.area_id, step.area_name, step.run_at) == ("trends", "Trends", now)
    assert step.tokens_in > 0
    assert step.tokens_out > 0
    [request] = model.requests
    assert request.system.startswith("# Veridical role: analyst\n")
    assert "BASE" in request.system
    user = request.messages[0].content
    assert "Area text over main, 1 results:" in user
    assert read_json_block(user, "area")["keywords"] == ["month", "delay"]
    assert [e["step"] for e in read_json_block(user, "query_results")] == [1]
    assert step.prompt == f"{request.system}\n\n{user}"
    assert '"Delays rise"' in step.response


async def test_every_area_shares_its_system_prompt(make_step: MakeStep) -> None:
    model = ScriptedModel([GOOD, GOOD])
    one = analyst(model)
    await one.analyse(AREA, [make_step(1, "delay")])
    await one.analyse(Area(id="other", name="Other", keywords=("x",)), [make_step(2, "x")])
    assert model.requests[0].system == model.requests[1].system


async def test_results_follow_a_prompt_that_does_not_place_them(make_step: MakeStep) -> None:
    model = ScriptedModel([GOOD])
    bare = Area(id="custom", name="Custom", keywords=("delay",), prompt="Look closely.")
    await analyst(model).analyse(bare, [make_step(1, "delay")])
    assert read_json_block(model.requests[0].messages[0].content, "query_results")


async def test_steps_are_ranked_by_name_description_and_keywords(make_step: MakeStep) -> None:
    index = Index([StepHit(2, 0.4)])
    step, _ = await analyse([GOOD], [make_step(1, "delay"), make_step(2)], index=index)
    assert index.asked == [("Trends — What changes over time. Keywords: month, delay", 24)]
    assert [(p.step, p.source) for p in step.selected_steps] == [
        (1, "exact_match"),
        (2, "vector"),
    ]


async def test_a_parse_failure_is_asked_again_once_with_the_reason(make_step: MakeStep) -> None:
    step, model = await analyse(["no JSON", GOOD], [make_step(1, "delay")])
    assert (step.insight_count, step.analysis_parse_retries, step.error) == (1, 1, "")
    first, second = model.requests
    assert second.messages[:1] == first.messages
    assert [m.role for m in second.messages] == ["user", "assistant", "user"]
    assert "holds no JSON object" in second.messages[2].content


@pytest.mark.parametrize("reply", ["no JSON", BAD, ""])
@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_parse_retries_end_with_the_area_s_error(
    make_step: MakeStep, reply: Scripted, retries: int
) -> None:
    step, model = await analyse(
        [reply] * (retries + 1),
        [make_step(1, "delay")],
        settings=AnalysisSettings(ANALYSIS_PARSE_MAX_RETRIES=retries),
    )
    assert step.error
    assert step.analysis_parse_retries == retries
    assert len(model.requests) == retries + 1
    assert all(m.content for r in model.requests for m in r.messages)


async def test_an_explicit_empty_list_is_not_asked_again(make_step: MakeStep) -> None:
    step, model = await analyse([{"insights": []}], [make_step(1, "delay")])
    assert (step.error, step.insight_count, len(model.requests)) == ("", 0, 1)


async def test_dropped_items_are_counted(make_step: MakeStep) -> None:
    both: dict[str, Any] = {"insights": [*GOOD["insights"], *BAD["insights"]]}
    step, _ = await analyse([both], [make_step(1, "delay")])
    assert (step.insight_count, step.insights_dropped_parse) == (1, 1)


@pytest.mark.parametrize(
    "error", [ModelUnreachable("timed out"), ModelAuthError("bad key"), RuntimeError("odd")]
)
async def test_an_error_is_recorded_and_the_area_is_skipped(
    make_step: MakeStep, error: Exception
) -> None:
    step, _ = await analyse([error], [make_step(1, "delay")])
    assert step.error == str(error)
    assert step.insights == []
    assert step.prompt


async def test_a_refusal_is_not_asked_again(make_step: MakeStep) -> None:
    refusal = ChatReply("", stop=StopReason.REFUSAL)
    step, model = await analyse([refusal], [make_step(1, "delay")])
    assert step.error == "the model declined to answer"
    assert len(model.requests) == 1


async def test_a_vector_error_skips_the_area(make_step: MakeStep) -> None:
    index = Index(VectorsUnavailable("the index is gone"))
    step, model = await analyse([], [make_step(1, "delay")], index=index)
    assert step.error == "the index is gone"
    assert model.requests == []


async def test_a_lost_run_is_nobody_s_error_to_record(make_step: MakeStep) -> None:
    with pytest.raises(RunSuperseded):
        await analyse([RunSuperseded("cancelled")], [make_step(1, "delay")])


async def test_an_area_without_relevant_steps_makes_no_call(make_step: MakeStep) -> None:
    step, model = await analyse([], [make_step(1, "planes")])
    assert (step.error, step.insights, model.requests) == ("", [], [])


async def test_no_successful_query_is_an_error_of_the_area(make_step: MakeStep) -> None:
    step, _ = await analyse([], [make_step(1, "delay", error="no such table")])
    assert step.error == NO_QUERY_SUCCEEDED


class TestContextOverflow:
    @pytest.fixture
    def steps(self, make_step: MakeStep) -> list[Any]:
        return [make_step(n, "delay", rows=[{"t": "x" * 2_000}]) for n in range(1, 9)]

    async def test_one_adaptive_retry_with_fewer_digests(self, steps: list[Any]) -> None:
        step, model = await analyse([ContextOverflow("too long"), GOOD], steps)
        assert (step.error, step.insight_count) == ("", 1)
        sizes = [len(read_json_block(r.messages[0].content, "query_results"))
                 for r in model.requests]  # fmt: skip
        assert sizes == [8, 4]
        assert {d.reason for d in step.dropped_steps} == {"over_budget"}

    async def test_the_stated_window_decides_how_much_goes(self, steps: list[Any]) -> None:
        over = ContextOverflow("too long", window=10_000, used=10_500)
        step, _ = await analyse([over, GOOD], steps)
        assert 1 <= step.relevant_queries < 8

    async def test_a_reply_that_is_too_long_shrinks_instead(self, steps: list[Any]) -> None:
        over = ContextOverflow("too long", window=10_000, used=8_000)
        step, model = await analyse([over, GOOD], steps)
        assert step.relevant_queries == 8
        assert [r.max_tokens for r in model.requests][1] == 1_800

    async def test_a_second_overflow_is_the_area_s_error(self, steps: list[Any]) -> None:
        step, model = await analyse([ContextOverflow("a"), ContextOverflow("b")], steps)
        assert (step.error, len(model.requests)) == ("b", 2)


@pytest.mark.parametrize(
    ("window", "max_output", "expected"),
    [(1_000_000, 64_000, 64_000), (128_000, 8_000, 8_000), (8_000, 64_000, 8_192)],
)
async def test_output_is_budgeted_between_floor_and_the_model_s_cap(
    make_step: MakeStep, window: int, max_output: int, expected: int
) -> None:
    info = ModelInfo("scripted", "m", context_window=window, max_output=max_output)
    seen: list[ChatRequest] = []

    def play(request: ChatRequest) -> Scripted:
        seen.append(request)
        return GOOD

    await analyse(ScriptedModel(play, info=info), [make_step(1, "delay")])
    assert seen[0].max_tokens == expected
