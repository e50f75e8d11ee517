"""Anthropic's Messages API, through its SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2

from adapters.llm import transport
from adapters.llm.failures import Endpoint, bad_reply, failure, problem
from adapters.llm.turns import break_points, turns
from adapters.llm.wire import count, items, mapping, read_body, words
from pipeline.errors import ContextOverflow
from pipeline.ports import ChatReply, ChatRequest, ModelInfo, StopReason, Usage

STREAM_ABOVE = 20_000
"""Longer answers are streamed: a silent connection may be cut before they are written."""

_EPHEMERAL = {"type": "ephemeral"}
_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSAL,
}


class AnthropicModel:
    """A ``LanguageModel``. It calls once; retrying is the caller's business."""

    def __init__(
        self, endpoint: Endpoint, info: ModelInfo, *, timeout: float, effort: str = ""
    ) -> None:
        """``timeout`` is seconds for one call; ``effort`` is the provider's own scale, if any."""
        self.info = info
        self._endpoint = endpoint
        self._timeout = timeout
        self._effort = effort
        self._client = anthropic.AsyncAnthropic(
            api_key=endpoint.secret,
            base_url=endpoint.url,
            max_retries=0,
            timeout=transport.limits(timeout),
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer once. Raises ``ModelError``; a refusal is a reply."""
        body = request_body(request, self.info, self._effort)
        with self._told():
            async with asyncio.timeout(self._timeout):
                if body["max_tokens"] > STREAM_ABOVE:
                    payload = await self._stream(body)
                else:
                    payload = read_body(self._endpoint, await self._post(body))
        return read_message(self._endpoint, payload)

    async def ping(self) -> None:
        """Check address, key and model without paying for an answer. Raises ``ModelError``."""
        with self._told():
            async with asyncio.timeout(self._timeout):
                await self._client.models.with_raw_response.retrieve(self.info.model)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _post(self, body: dict[str, Any]) -> str:
        create: Any = self._client.messages.with_raw_response.create  # its overloads defeat a dict
        raw = await create(**body)
        return str(await raw.text())

    async def _stream(self, body: dict[str, Any]) -> dict[str, Any]:
        async with self._client.messages.stream(**body) as stream:
            try:
                message = await stream.get_final_message()
            except (AssertionError, RuntimeError) as error:  # events missing or out of order
                raise bad_reply(self._endpoint, "a stream that holds no message") from error
        return message.model_dump(warnings=False)

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            raise transport.timed_out(self._endpoint, self._timeout) from error
        except anthropic.APITimeoutError as error:
            raise transport.timed_out(self._endpoint, self._timeout) from error
        except anthropic.APIStatusError as error:
            told = problem(error.status_code, error.body, error.response.headers)
            raise failure(self._endpoint, told) from error
        except (anthropic.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise transport.unreachable(self._endpoint, error) from error
        except (anthropic.AnthropicError, ValueError) as error:
            raise bad_reply(self._endpoint, f"something unreadable ({_short(error)})") from error


def request_body(request: ChatRequest, info: ModelInfo, effort: str = "") -> dict[str, Any]:
    """The body of ``POST /v1/messages``. Its beginning depends on the beginning of the request
    only, so that a growing conversation hits the provider's prompt cache."""
    conversation = turns(request.messages)
    breaks = break_points(conversation)
    body: dict[str, Any] = {
        "model": info.model,
        "max_tokens": max(1, min(request.max_tokens, info.max_output)),
        "messages": [
            {
                "role": turn.role,
                "content": [_block(p.text, (t, n) in breaks) for n, p in enumerate(turn.parts)],
            }
            for t, turn in enumerate(conversation)
        ],
    }
    if request.system.strip():
        body["system"] = [_block(request.system, cached=True)]
    if effort:
        body["output_config"] = {"effort": effort}
    return body


def read_message(endpoint: Endpoint, payload: dict[str, Any]) -> ChatReply:
    """A message as the API returns it. Raises ``ModelBadReply`` if it is none or was cut off."""
    reason = payload.get("stop_reason")
    if not isinstance(payload.get("content"), list):
        raise bad_reply(endpoint, "JSON that holds no message")
    if not isinstance(reason, str):
        raise bad_reply(endpoint, "a message that was cut off (no stop reason)")
    blocks = [mapping(block) for block in items(payload["content"])]
    text = "".join(words(b.get("text")) for b in blocks if b.get("type") == "text")
    usage = read_usage(mapping(payload.get("usage")))
    if reason == "model_context_window_exceeded" and not text:
        raise ContextOverflow(
            f"The request leaves {endpoint.model} no room to answer: set "
            f"{endpoint.model_variable} to a model with a larger window, or run with fewer steps.",
            None,
            usage.input,
        )
    return ChatReply(
        text=text,
        stop=_STOPS.get(reason, StopReason.OTHER),
        usage=usage,
        reasoning="".join(words(b.get("thinking")) for b in blocks if b.get("type") == "thinking"),
    )


def read_usage(usage: dict[str, Any]) -> Usage:
    """Anthropic reports what the cache gave and took apart from ``input_tokens``."""
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input=count(usage.get("input_tokens")) + cached + written,
        output=count(usage.get("output_tokens")),
        cached=cached,
    )


def _block(text: str, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    return block | {"cache_control": _EPHEMERAL} if cached else block


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
