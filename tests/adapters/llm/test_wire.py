"""What goes over the wire and how replies are read, with the real SDKs."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, cast

import pytest

from adapters.llm.failures import Endpoint
from adapters.llm.openai import read_completion
from adapters.llm.retry import OpenedModel
from pipeline.errors import ContextOverflow, ModelBadReply, ModelError
from pipeline.ports import ChatReply, ChatRequest, Message, StopReason, Usage
from tests.adapters.llm.conftest import ask
from tests.servers.model_server import (
    NO_CHOICES,
    Answer,
    ModelServer,
    completion,
    message,
    message_stream,
    status,
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (message("hi"), ChatReply("hi", StopReason.END, Usage(10, 5))),
        (message("hi", stop="stop_sequence"), ChatReply("hi", StopReason.END, Usage(10, 5))),
        (message("h", stop="max_tokens"), ChatReply("h", StopReason.LENGTH, Usage(10, 5))),
        (
            message("h", stop="model_context_window_exceeded"),
            ChatReply("h", StopReason.LENGTH, Usage(10, 5)),
        ),
        (
            message("", stop="refusal", category="cyber"),
            ChatReply("", StopReason.REFUSAL, Usage(10, 5)),
        ),
        (message("h", stop="tool_use"), ChatReply("h", StopReason.OTHER, Usage(10, 5))),
        (message("h", stop="pause_turn"), ChatReply("h", StopReason.OTHER, Usage(10, 5))),
        (message("h", stop="brand_new"), ChatReply("h", StopReason.OTHER, Usage(10, 5))),
        (
            message("h", thinking="hm"),
            ChatReply("h", StopReason.END, Usage(10, 5), reasoning="hm"),
        ),
        # cached and written tokens come apart from input_tokens
        (
            message("h", prompt=10, cached=100, written=20),
            ChatReply("h", StopReason.END, Usage(130, 5, 100)),
        ),
    ],
)
async def test_messages_are_read(
    server: ModelServer, claude: OpenedModel, answer: Answer, expected: ChatReply
) -> None:
    server.play(answer)
    assert await claude.chat(ask()) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (completion("hi"), ChatReply("hi", StopReason.END, Usage(10, 5))),
        (completion("h", finish="length"), ChatReply("h", StopReason.LENGTH, Usage(10, 5))),
        (
            completion("h", finish="content_filter"),
            ChatReply("h", StopReason.REFUSAL, Usage(10, 5)),
        ),
        (
            completion(None, refusal="I cannot"),
            ChatReply("I cannot", StopReason.REFUSAL, Usage(10, 5)),
        ),
        (completion(None), ChatReply("", StopReason.END, Usage(10, 5))),
        (completion("h", finish="tool_calls"), ChatReply("h", StopReason.OTHER, Usage(10, 5))),
        (completion("h", finish="brand_new"), ChatReply("h", StopReason.OTHER, Usage(10, 5))),
        (
            completion(None, finish="length", reasoning="hm"),
            ChatReply("", StopReason.LENGTH, Usage(10, 5), reasoning="hm"),
        ),
        # cached tokens are counted within prompt_tokens
        (
            completion("h", prompt=100, cached=64),
            ChatReply("h", StopReason.END, Usage(100, 5, 64)),
        ),
    ],
)
async def test_completions_are_read(
    server: ModelServer, gpt: OpenedModel, answer: Answer, expected: ChatReply
) -> None:
    server.play(answer)
    assert await gpt.chat(ask()) == expected


@pytest.mark.parametrize(
    "answer",
    [
        NO_CHOICES,
        Answer(body={"choices": None}),
        Answer(body={"choices": []}),
        Answer(body={"choices": "no"}),
        Answer(body={"choices": [None]}),
        completion("half a sen", finish=None),
    ],
)
async def test_a_completion_without_choice_or_finish_reason_is_a_bad_reply(
    server: ModelServer, gpt: OpenedModel, answer: Answer
) -> None:
    server.play(answer)
    with pytest.raises(ModelBadReply):
        await gpt.chat(ask())


@pytest.mark.parametrize(
    "answer", [message("half", stop=None), Answer(body={}), Answer(body={"content": "text"})]
)
async def test_a_message_without_content_or_stop_reason_is_a_bad_reply(
    server: ModelServer, claude: OpenedModel, answer: Answer
) -> None:
    server.play(answer)
    with pytest.raises(ModelBadReply):
        await claude.chat(ask())


async def test_a_window_that_leaves_no_room_for_any_text_is_an_overflow(
    server: ModelServer, claude: OpenedModel
) -> None:
    server.play(message("", stop="model_context_window_exceeded", prompt=999))
    with pytest.raises(ContextOverflow) as caught:
        await claude.chat(ask())
    assert caught.value.used == 999


@pytest.mark.parametrize("odd", [None, "x", 3, [], {"message": None}, {"message": {"content": 7}}])
def test_odd_shapes_never_crash(odd: Any) -> None:
    place = Endpoint("X", "http://x")
    for payload in ({"choices": odd}, {"choices": [odd]}):
        with pytest.raises(ModelError):
            read_completion(place, payload)
    payload = {"choices": [{"finish_reason": "stop", "message": odd}], "usage": odd}
    assert read_completion(place, payload) == ChatReply("")


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("MAX_TOKENS", StopReason.LENGTH),
        ("model_length", StopReason.LENGTH),
        ("SAFETY", StopReason.REFUSAL),
        ("refusal", StopReason.REFUSAL),
    ],
)
def test_stop_reasons_of_compatible_servers_are_known(finish: str, stop: StopReason) -> None:
    payload = {"choices": [{"finish_reason": finish, "message": {"content": "a"}}]}
    assert read_completion(Endpoint("X", "http://x"), payload).stop is stop


def test_calls_of_tools_that_a_server_read_out_of_the_answer_are_text_again() -> None:
    calls = [{"type": "function", "function": {"name": "query", "arguments": "{}"}}]
    for content, text in ((None, json.dumps({"tool_calls": calls})), ("said", "said")):
        message = {"content": content, "tool_calls": calls}
        payload = {"choices": [{"finish_reason": "tool_calls", "message": message}]}
        assert read_completion(Endpoint("X", "http://x"), payload).text == text


async def test_content_in_parts_is_joined(server: ModelServer, gpt: OpenedModel) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answer = completion()
    answer.body["choices"][0]["message"]["content"] = parts
    server.play(answer)
    assert (await gpt.chat(ask())).text == "ab"


async def test_long_answers_are_streamed(server: ModelServer, claude: OpenedModel) -> None:
    server.play(message_stream("streamed"))
    reply = await claude.chat(ask(max_tokens=30_000))
    assert reply == ChatReply("streamed", StopReason.END, Usage(10, 7))
    assert server.chats[0].body["stream"] is True
    assert server.chats[0].body["max_tokens"] == 30_000


async def test_no_sampling_and_no_response_format_is_sent(
    server: ModelServer, model: OpenedModel
) -> None:
    await model.chat(ask())
    sent = server.chats[0].body
    assert not {"temperature", "top_p", "top_k", "response_format", "output_config"} & set(sent)


async def test_the_output_limit_stays_within_the_models(
    server: ModelServer, gpt: OpenedModel
) -> None:
    await gpt.chat(ask(max_tokens=1_000_000))
    assert server.chats[0].body["max_completion_tokens"] == 32_000


@pytest.mark.parametrize(
    "refusal",
    [
        status(
            400,
            "Unsupported parameter: 'max_completion_tokens' is not supported with this model.",
            error_code="unsupported_parameter",
            param="max_completion_tokens",
        ),
        status(400, "Unrecognized request argument supplied: max_completion_tokens"),
        status(422, "max_completion_tokens: Extra inputs are not permitted"),
    ],
)
async def test_the_other_name_of_the_output_limit_is_tried_once_and_kept(
    server: ModelServer, gpt: OpenedModel, refusal: Answer
) -> None:
    server.play(refusal)
    assert (await gpt.chat(ask())).text == "hello"
    await gpt.chat(ask())
    names = [set(r.body) & {"max_tokens", "max_completion_tokens"} for r in server.chats]
    assert names == [{"max_completion_tokens"}, {"max_tokens"}, {"max_tokens"}]


async def test_another_bad_request_does_not_change_the_name(
    server: ModelServer, gpt: OpenedModel
) -> None:
    server.play(status(400, "max_completion_tokens is too large: 9"))
    with pytest.raises(ModelError):
        await gpt.chat(ask())
    assert len(server.chats) == 1


async def test_neighbours_of_one_role_reach_the_wire_as_one_turn(
    server: ModelServer, model: OpenedModel, provider: str
) -> None:
    request = ChatRequest(
        "rules", (Message("user", "bundle", cache=True), Message("user", "role")), 100
    )
    await model.chat(request)
    sent = server.chats[0].body
    if provider == "anthropic":
        cached = {"cache_control": {"type": "ephemeral"}}
        assert sent["system"] == [{"type": "text", "text": "rules"} | cached]
        assert sent["messages"] == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "bundle"} | cached,
                    {"type": "text", "text": "role"},
                ],
            }
        ]
    else:
        assert sent["messages"] == [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "bundle\n\nrole"},
        ]


async def test_the_prefix_of_a_growing_conversation_is_the_same_on_the_wire(
    server: ModelServer, model: OpenedModel, provider: str
) -> None:
    turns: tuple[Message, ...] = (Message("user", "bundle", cache=True), Message("user", "role"))
    for n in range(4):
        await model.chat(ChatRequest("rules", turns, 100))
        turns += (Message("assistant", f"call {n}"), Message("user", f"rows {n}", cache=True))
    sent = [_prompt(r.body, provider) for r in server.chats]
    for before, after in pairwise(sent):
        assert after.startswith(before)
    for request in server.chats:
        assert request.raw.count("cache_control") <= 4


async def test_agents_that_share_a_bundle_share_its_cached_prefix(
    server: ModelServer, claude: OpenedModel
) -> None:
    for role in ("verifier", "refuter"):
        messages = (Message("user", "bundle", cache=True), Message("user", role, cache=True))
        await claude.chat(ChatRequest("rules", messages, 100))
    first, second = (r.raw for r in server.chats)
    assert first.index("verifier") == second.index("refuter") > first.index("bundle")
    assert first[: first.index("verifier")] == second[: second.index("refuter")]


async def test_an_empty_system_text_is_left_out(server: ModelServer, model: OpenedModel) -> None:
    await model.chat(ask(system="  "))
    sent = server.chats[0].body
    assert "system" not in sent
    assert [m["role"] for m in sent["messages"]] == ["user"]


def _prompt(body: dict[str, Any], provider: str) -> str:
    """What the provider reads as prompt: the texts, without the marks of the break points."""
    if provider == "openai":
        return json.dumps(body["messages"])[:-1]
    flat = [("system", block["text"]) for block in body["system"]]
    for turn in cast("list[dict[str, Any]]", body["messages"]):
        flat += [(turn["role"], block["text"]) for block in turn["content"]]
    return json.dumps(flat)[:-1]
