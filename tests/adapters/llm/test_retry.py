from __future__ import annotations

import asyncio

import pytest

from adapters.llm.fitting import REASONING_ROOM, FittedModel
from adapters.llm.metered import MeteredModel, Tally
from adapters.llm.overflow import OutputTooLarge
from adapters.llm.pacing import PacedModel, Pacer
from adapters.llm.retry import RetryingModel, RetryPolicy, wait_seconds
from pipeline.errors import (
    ContextOverflow,
    ModelAuthError,
    ModelBadReply,
    ModelBusy,
    ModelError,
    ModelRefused,
    ModelUnreachable,
)
from pipeline.ports import ChatReply, ModelInfo, StopReason, Usage
from pipeline.settings import ModelSettings
from pipeline.testing import Scripted, ScriptedModel
from tests.adapters.llm.conftest import ask, opened_at
from tests.servers.model_server import DROP, Answer, ModelServer, completion, message, status


class Fake(ScriptedModel):
    """A scripted model that holds (no) connections."""

    pinged = closed = 0

    async def ping(self) -> None:
        self.pinged += 1

    async def close(self) -> None:
        self.closed += 1


class Naps:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def _retried(*replies: Scripted, attempts: int = 3) -> tuple[RetryingModel, Fake, Naps]:
    fake, naps = Fake(replies), Naps()
    return RetryingModel(fake, RetryPolicy(attempts, 5.0), sleep=naps), fake, naps


@pytest.mark.parametrize("error", [ModelBusy("busy"), ModelUnreachable("gone")])
async def test_transient_failures_are_tried_again(
    error: ModelError, caplog: pytest.LogCaptureFixture
) -> None:
    model, fake, naps = _retried(error, error, "fine")
    assert (await model.chat(ask())).text == "fine"
    assert len(fake.requests) == 3
    assert 3.75 <= naps.seconds[0] <= 6.25
    assert 7.5 <= naps.seconds[1] <= 12.5
    assert [f"try {n} of 3 failed" in r.message for n, r in enumerate(caplog.records, 1)] == [
        True
    ] * 2


@pytest.mark.parametrize(
    "error",
    [
        ModelAuthError("key"),
        ModelBadReply("html"),
        ModelRefused("no"),
        ContextOverflow("long"),
        ModelError("400"),
        asyncio.CancelledError(),
    ],
    ids=lambda e: type(e).__name__,
)
async def test_other_failures_and_cancellations_are_not_tried_again(error: BaseException) -> None:
    model, fake, naps = _retried(error, "never")
    with pytest.raises(type(error)):
        await model.chat(ask())
    assert len(fake.requests) == 1
    assert naps.seconds == []


async def test_the_last_failure_comes_out_when_all_tries_are_used() -> None:
    errors = [ModelBusy(str(n)) for n in range(3)]
    model, fake, _ = _retried(*errors)
    with pytest.raises(ModelBusy, match="2"):
        await model.chat(ask())
    assert len(fake.requests) == 3


@pytest.mark.parametrize(("setting", "tries"), [(1, 1), (0, 1), (-5, 1), (2, 2)])
async def test_less_than_one_attempt_counts_as_one(setting: int, tries: int) -> None:
    policy = RetryPolicy.of(ModelSettings(LLM_RETRY_MAX_ATTEMPTS=setting))
    model, fake, _ = _retried(*[ModelBusy("x")] * tries, attempts=policy.attempts)
    with pytest.raises(ModelBusy):
        await model.chat(ask())
    assert len(fake.requests) == tries


async def test_waiting_for_the_next_try_can_be_cancelled() -> None:
    asleep = asyncio.Event()

    async def nap(_: float) -> None:
        asleep.set()
        await asyncio.Event().wait()

    model = RetryingModel(Fake([ModelBusy("x"), "never"]), RetryPolicy(), sleep=nap)
    call = asyncio.create_task(model.chat(ask()))
    await asleep.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


@pytest.mark.parametrize(
    ("tries", "error", "spread", "seconds"),
    [
        (1, None, 0, 5),
        (2, None, 0, 10),
        (3, None, 0, 20),
        (4, None, 0, 40),
        (5, None, 0, 60),  # capped
        (5000, None, 0, 60),
        (1, None, 1, 6.25),  # jitter of a quarter
        (1, None, -1, 3.75),
        (1, ModelBusy("x", 17.0), 1, 17),  # what the provider asks for
        (1, ModelBusy("x", 3600.0), 0, 60),
        (1, ModelBusy("x", 0.0), 1, 0),
        (1, ModelBusy("x"), 0, 5),
    ],
)
def test_backoff_doubles_up_to_a_minute_or_is_what_the_provider_asks_for(
    tries: int, error: ModelError | None, spread: float, seconds: float
) -> None:
    assert wait_seconds(RetryPolicy(3, 5.0), tries, error, spread) == seconds


RETRIED = [429, 499, 500, 502, 503, 504, 529]
FINAL = [400, 401, 402, 403, 404, 408, 409, 422, 501]


@pytest.mark.parametrize("code", RETRIED)
async def test_these_statuses_are_retried_over_the_wire(
    server: ModelServer, provider: str, code: int
) -> None:
    server.play(status(code, "x"), message("ok") if provider == "anthropic" else completion("ok"))
    model = await opened_at(server, provider)
    assert (await model.chat(ask())).text == "ok"
    await model.close()
    assert len(server.chats) == 2


@pytest.mark.parametrize("code", FINAL)
async def test_these_statuses_are_final_over_the_wire(
    server: ModelServer, provider: str, code: int
) -> None:
    server.play(status(code, "x"))
    model = await opened_at(server, provider)
    with pytest.raises(ModelError):
        await model.chat(ask())
    await model.close()
    assert len(server.chats) == 1


async def test_after_an_overflow_there_is_one_further_try_over_the_wire(
    server: ModelServer, provider: str
) -> None:
    server.play(status(400, "prompt is too long"), status(400, "prompt is too long"))
    model = await opened_at(server, provider)
    with pytest.raises(ContextOverflow):
        await model.chat(ask(max_tokens=4096))
    await model.close()
    assert len(server.chats) == 2


async def test_a_dropped_connection_is_retried(server: ModelServer, provider: str) -> None:
    server.play(DROP)
    model = await opened_at(server, provider)
    assert (await model.chat(ask())).text == "hello"
    await model.close()


@pytest.mark.parametrize(
    "answer",
    [Answer(raw="{"), Answer(body={"choices": []}), Answer(raw="<p>")],
)
async def test_bad_replies_are_not_retried(
    server: ModelServer, provider: str, answer: Answer
) -> None:
    server.play(answer)
    model = await opened_at(server, provider)
    with pytest.raises(ModelBadReply):
        await model.chat(ask())
    await model.close()
    assert len(server.chats) == 1


# ------------------------------------------------------------ fitted output limits


async def test_after_an_overflow_one_further_try_asks_for_less() -> None:
    fake = Fake([ContextOverflow("long", 8192, 6000), "short"], info=ModelInfo("x", "m", 10_000))
    model = FittedModel(fake)
    assert (await model.chat(ask(max_tokens=4096))).text == "short"
    assert [r.max_tokens for r in fake.requests] == [4096, 2028]
    assert model.info.context_window == 8192, "the window that was stated is learnt"


@pytest.mark.parametrize(
    "error", [ContextOverflow("long", 8192, 9000), ContextOverflow("small", None, None)]
)
async def test_no_further_try_when_none_can_help(error: ContextOverflow) -> None:
    fake = Fake([error])
    with pytest.raises(ContextOverflow):
        await FittedModel(fake).chat(ask(max_tokens=600))


async def test_a_second_overflow_is_final() -> None:
    fake = Fake([ContextOverflow("a"), ContextOverflow("b")])
    with pytest.raises(ContextOverflow, match="b"):
        await FittedModel(fake).chat(ask(max_tokens=4096))


async def test_an_output_limit_is_learnt() -> None:
    fake = Fake([OutputTooLarge("too much", 2000), "one", "two"])
    model = FittedModel(fake)
    for text in ("one", "two"):
        assert (await model.chat(ask(max_tokens=4096))).text == text
    assert [r.max_tokens for r in fake.requests] == [4096, 2000, 2000]
    assert model.info.max_output == 2000


async def test_an_output_limit_that_changes_nothing_is_final() -> None:
    with pytest.raises(OutputTooLarge):
        await FittedModel(Fake([OutputTooLarge("odd", 9000)])).chat(ask(max_tokens=4096))


async def test_models_that_reason_get_room_for_it() -> None:
    fake = Fake(["a"])
    await FittedModel(fake, reasons=True).chat(ask(max_tokens=4096))
    assert fake.requests[0].max_tokens == 4096 + REASONING_ROOM == 16_384


async def test_a_reply_that_is_only_cut_off_reasoning_is_asked_again_with_room() -> None:
    cut = ChatReply("", StopReason.LENGTH, Usage(10, 100), reasoning="hm")
    fake = Fake([cut, ChatReply("a", usage=Usage(10, 50)), "b"])
    model = FittedModel(fake)
    assert await model.chat(ask()) == ChatReply("a", usage=Usage(20, 150))
    assert (await model.chat(ask())).text == "b"
    assert [r.max_tokens for r in fake.requests] == [100, 12_388, 12_388]


async def test_near_the_end_of_the_window_less_output_is_asked_for() -> None:
    fake = Fake([ChatReply("a", usage=Usage(20_000, 5)), "b"], info=ModelInfo("x", "m", 16_384))
    model = FittedModel(fake, reasons=True)
    long = ask("x" * 40_000, system="", max_tokens=4096)
    await model.chat(long)
    half = ask("x" * 20_000, system="", max_tokens=4096)
    await model.chat(half)
    by_estimate = int(16_384 * 0.98) - 10_000
    assert [r.max_tokens for r in fake.requests] == [by_estimate, by_estimate]


async def test_room_for_reasoning_that_overflows_is_asked_for_again_with_less() -> None:
    cut = ChatReply("", StopReason.LENGTH, Usage(0, 100), reasoning="hm")
    fake = Fake([cut, ContextOverflow("long", 8192, 2000), "a"])
    assert (await FittedModel(fake).chat(ask())).text == "a"
    assert [r.max_tokens for r in fake.requests] == [100, 12_388, 6028]


# ------------------------------------------------------------ pacing and counting


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("burst", "starts"),
    [(1, [0, 2, 4, 6]), (3, [0, 0, 0, 2])],
)
async def test_calls_are_spaced_out_after_the_first_burst(burst: int, starts: list[float]) -> None:
    clock = Clock()
    pacer = Pacer(2.0, burst, clock=clock, sleep=clock.sleep)
    seen: list[float] = []
    for _ in starts:
        await pacer.turn()
        seen.append(clock.now - 100)
    assert seen == starts


async def test_an_idle_time_is_not_saved_up() -> None:
    clock = Clock()
    pacer = Pacer(2.0, clock=clock, sleep=clock.sleep)
    await pacer.turn()
    clock.now += 50
    await pacer.turn()
    before = clock.now
    await pacer.turn()
    assert clock.now - before == 2


async def test_a_paced_model_takes_its_turn_for_every_call() -> None:
    clock, fake = Clock(), Fake(["a", "b"])
    model = PacedModel(fake, Pacer(1.5, clock=clock, sleep=clock.sleep))
    await model.chat(ask())
    await model.chat(ask())
    assert clock.now == 101.5


async def test_ping_and_close_reach_the_model_through_every_layer() -> None:
    fake = Fake([])
    paced = PacedModel(fake, Pacer(0))
    model = FittedModel(RetryingModel(paced, RetryPolicy()))
    await model.ping()
    await model.close()
    assert (fake.pinged, fake.closed) == (1, 1)
    assert model.info == fake.info


async def test_calls_and_tokens_are_counted_by_label() -> None:
    replies = [ChatReply("a", usage=Usage(10, 2, 5)), ModelError("x"), "b"]
    model = MeteredModel(ScriptedModel(replies))
    assert model.totals().total == Tally()
    await model.chat(ask())
    with pytest.raises(ModelError):
        await model.chat(ask())
    other = ask()
    await model.chat(type(other)("", (), 1, label="other"))
    totals = model.totals()
    assert totals.by_label["test"] == Tally(1, 1, Usage(10, 2, 5))
    assert totals.by_label["other"].calls == 1
    assert totals.total.calls == 2
    assert totals.total.failed == 1
    assert model.info.provider == "scripted"
