"""Every error status becomes the right error, in one sentence that says what to do."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime

import pytest

from adapters.llm.failures import Endpoint, Problem, failure, problem, retry_after, shown
from adapters.llm.overflow import OutputTooLarge
from adapters.llm.retry import OpenedModel
from pipeline.errors import (
    ContextOverflow,
    ModelAuthError,
    ModelBadReply,
    ModelBusy,
    ModelError,
    ModelUnreachable,
)
from tests.adapters.llm.conftest import SECRET, ask, endpoint, single
from tests.servers.model_server import (
    BAD_JSON,
    DROP,
    HANG,
    HTML,
    Answer,
    ModelServer,
    message_stream,
    status,
)

LONG = "prompt is too long: 213462 tokens > 200000 maximum"
ERRORS: dict[str, tuple[Answer, type[ModelError], str]] = {
    "wrong key": (status(401, "invalid key"), ModelAuthError, "_API_KEY"),
    "no access": (status(403, "no"), ModelAuthError, "_API_KEY"),
    "unpaid": (status(402, "no credit"), ModelAuthError, "credit"),
    "quota": (status(429, "quota", error_code="insufficient_quota"), ModelAuthError, "quota"),
    "rate limit": (status(429, "slow down"), ModelBusy, "LLM_REQUEST_DELAY_MS"),
    "overload 529": (status(529, "overloaded"), ModelBusy, "overloaded"),
    "overload 503": (status(503), ModelBusy, "overloaded"),
    "server error 500": (status(500, "oops"), ModelBusy, "error of its own"),
    "server error 502": (Answer(502, raw="<html>bad gateway</html>"), ModelBusy, "(502)"),
    "client closed 499": (status(499), ModelUnreachable, "in time"),
    "gateway timeout 504": (status(504), ModelUnreachable, "in time"),
    "unknown model": (status(404, "model: nope"), ModelError, "LLM_MODEL"),
    "wrong address": (Answer(404, raw="<html>nothing</html>"), ModelError, "_BASE_URL"),
    "overflow": (status(400, LONG), ContextOverflow, "larger window"),
    "too large": (status(413, "big"), ContextOverflow, "larger window"),
    "output": (
        status(400, "max_tokens: 9000 > 4096, which is the maximum"),
        OutputTooLarge,
        "4096",
    ),
    "bad request": (status(400, "temperature?"), ModelError, "temperature?"),
    "unprocessable": (status(422, "no"), ModelError, "LLM_MODEL"),
    "not implemented": (status(501), ModelError, "LLM_MODEL"),
    "error inside 200": (
        Answer(body={"type": "error", "error": {"type": "overloaded_error", "message": "later"}}),
        ModelBusy,
        "overloaded",
    ),
    "gateway's code inside 200": (
        Answer(body={"error": {"message": "upstream", "code": 502}}),
        ModelBusy,
        "502",
    ),
    "bad JSON": (BAD_JSON, ModelBadReply, "broken JSON"),
    "a web page": (HTML, ModelBadReply, "web page"),
    "a list": (Answer(raw="[1]"), ModelBadReply, "no object"),
    "nothing": (Answer(raw=""), ModelBadReply, "broken JSON"),
    "dropped": (DROP, ModelUnreachable, "dropped the connection"),
}


@pytest.mark.parametrize(("answer", "kind", "says"), ERRORS.values(), ids=ERRORS.keys())
async def test_each_failure_has_its_error_and_says_what_to_do(
    server: ModelServer, model: OpenedModel, answer: Answer, kind: type[ModelError], says: str
) -> None:
    server.play(answer)
    with pytest.raises(ModelError) as caught:
        await model.chat(ask())
    assert type(caught.value) is kind
    text = str(caught.value)
    assert says in text
    assert text.endswith(".")
    assert "\n" not in text
    assert len(server.chats) == 1, "the SDK's own retry is off"


async def test_retry_after_reaches_the_error(server: ModelServer, model: OpenedModel) -> None:
    server.play(status(429, "slow down", retry_after="7"))
    with pytest.raises(ModelBusy) as caught:
        await model.chat(ask())
    assert caught.value.retry_after_s == 7


async def test_context_overflow_states_window_and_use(
    server: ModelServer, model: OpenedModel
) -> None:
    server.play(status(400, LONG))
    with pytest.raises(ContextOverflow) as caught:
        await model.chat(ask())
    assert (caught.value.window, caught.value.used) == (200_000, 213_462)


async def test_sizes_that_llama_cpp_states_beside_the_message_are_read(
    server: ModelServer, gpt: OpenedModel
) -> None:
    error = {
        "code": 400,
        "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 1407,
        "n_ctx": 256,
    }
    server.play(Answer(400, body={"error": error}))
    with pytest.raises(ContextOverflow) as caught:
        await gpt.chat(ask())
    assert (caught.value.window, caught.value.used) == (256, 1407)


async def test_a_key_is_never_repeated(server: ModelServer, model: OpenedModel) -> None:
    server.play(status(400, f"the key {SECRET} is of the wrong kind"))
    with pytest.raises(ModelError) as caught:
        await model.chat(ask())
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(endpoint("http://x", "openai"))


async def test_a_refused_connection_names_the_url(provider: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        model = _at(url, provider)
        with pytest.raises(ModelUnreachable, match="refused the connection") as caught:
            await model.chat(ask())
        await model.close()
    assert url in str(caught.value)
    assert f"{provider.upper()}_BASE_URL" in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:99", "ftp://127.0.0.1/v1", "nowhere"])
async def test_an_address_that_is_none_is_said_to_be_none(provider: str, url: str) -> None:
    model = _at(url, provider)
    with pytest.raises(ModelError, match=r"no web address: correct \w+_BASE_URL"):
        await model.chat(ask())
    await model.close()


async def test_a_hung_call_ends_at_the_time_limit(server: ModelServer, provider: str) -> None:
    server.play(HANG)
    model = single(server, provider, timeout=0.2)
    with pytest.raises(ModelUnreachable, match=r"within 0.2 seconds: raise LLM_TIMEOUT"):
        await model.chat(ask())
    await model.close()


async def test_a_cancelled_call_is_cancelled_and_not_turned_into_an_error(
    server: ModelServer, model: OpenedModel
) -> None:
    server.play(HANG)
    call = asyncio.create_task(model.chat(ask()))
    while not server.requests:  # noqa: ASYNC110 - the server's thread has no event of this loop
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_ping_checks_the_key(server: ModelServer, model: OpenedModel) -> None:
    await model.ping()
    assert server.chats == []
    assert [r.method for r in server.requests] == ["GET"]


async def test_an_error_event_inside_a_stream_is_told_by_its_type(
    server: ModelServer, claude: OpenedModel
) -> None:
    begun = (message_stream().events or [])[:3]
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.play(Answer(events=[*begun, ("error", error)]))
    with pytest.raises(ModelBusy, match="overloaded"):
        await claude.chat(ask(max_tokens=30_000))


@pytest.mark.parametrize(
    "answer",
    [message_stream(stop=None), Answer(events=[]), HTML],
    ids=["ends early", "is empty", "is a web page"],
)
async def test_a_stream_without_a_stop_reason_is_a_bad_reply(
    server: ModelServer, claude: OpenedModel, answer: Answer
) -> None:
    server.play(answer)
    with pytest.raises(ModelBadReply):
        await claude.chat(ask(max_tokens=30_000))


NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOON) == seconds


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, ("t", "c", "m")),
        ({"message": "m", "type": "t"}, ("t", "", "m")),
        ({"detail": "m"}, ("", "", "m")),
        ({"detail": [{"msg": "m"}]}, ("", "", "[{'msg': 'm'}]")),
        ({"error": "m"}, ("", "", "m")),
        ("plain", ("", "", "plain")),
        (None, ("", "", "")),
        ([1], ("", "", "")),
        ({"error": None}, ("", "", "")),
    ],
)
def test_any_error_body_can_be_read(body: object, expected: tuple[str, str, str]) -> None:
    found = problem(400, body)
    assert (found.kind, found.code, found.message) == expected


def test_long_reasons_are_cut_and_kept_on_one_line() -> None:
    text = str(failure(Endpoint("X", "http://x"), Problem(400, message="a\n" * 500)))
    assert len(text) < 350
    assert "\n" not in text


def test_addresses_are_shown_without_what_is_secret() -> None:
    assert shown("https://me:secret@host:8080/v1/?key=s") == "https://host:8080/v1"


def _at(url: str, provider: str) -> OpenedModel:
    from adapters.llm.anthropic import AnthropicModel
    from adapters.llm.openai import OpenAIModel
    from pipeline.ports import ModelInfo

    kind = AnthropicModel if provider == "anthropic" else OpenAIModel
    return kind(endpoint(url, provider), ModelInfo(provider, "m"), timeout=5)
