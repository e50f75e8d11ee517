"""OpenAI's Chat Completions API and every server that speaks it, through the SDK."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai

from adapters.llm import transport
from adapters.llm.failures import Endpoint, bad_reply, failure, problem
from adapters.llm.turns import turns
from adapters.llm.wire import count, items, mapping, read_body, words
from pipeline.ports import ChatReply, ChatRequest, ModelInfo, StopReason, Usage

_STOPS = {
    "stop": StopReason.END,
    "eos": StopReason.END,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
}
_LIMIT_NAMES = ("max_completion_tokens", "max_tokens")
_NOT_TAKEN = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra",
    re.IGNORECASE,
)


class OpenAIModel:
    """A ``LanguageModel``. It calls once; retrying is the caller's business.

    The output limit goes by one of two names. OpenAI itself wants ``max_completion_tokens``, other
    servers mostly ``max_tokens``; when one is refused by name the other is used from then on.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        info: ModelInfo,
        *,
        timeout: float,
        effort: str = "",
        limit_name: str = "max_completion_tokens",
    ) -> None:
        """``timeout`` is seconds for one call; ``effort`` is sent as ``reasoning_effort``."""
        self.info = info
        self._endpoint = endpoint
        self._timeout = timeout
        self._effort = effort
        self._limit_name = limit_name
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.secret,
            base_url=endpoint.url,
            max_retries=0,
            timeout=transport.limits(timeout),
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer once. Raises ``ModelError``; a refusal is a reply."""
        with self._told():
            async with asyncio.timeout(self._timeout):
                text = await self._completion(request)
        return read_completion(self._endpoint, read_body(self._endpoint, text))

    async def ping(self) -> None:
        """Check address and key without paying for an answer. Raises ``ModelError``."""
        with self._told():
            async with asyncio.timeout(self._timeout):
                try:
                    await self._client.models.with_raw_response.list()
                except openai.NotFoundError:
                    return  # a compatible server need not list its models

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _completion(self, request: ChatRequest) -> str:
        sent = self._limit_name
        try:
            return await self._post(request, sent)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if not _refuses(error, sent):
                raise
        other = next(name for name in _LIMIT_NAMES if name != sent)
        text = await self._post(request, other)
        self._limit_name = other
        return text

    async def _post(self, request: ChatRequest, limit_name: str) -> str:
        body = request_body(request, self.info, limit_name, self._effort)
        create: Any = (
            self._client.chat.completions.with_raw_response.create
        )  # overloads defeat a dict
        raw = await create(**body)
        return str(raw.text)

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except (TimeoutError, openai.APITimeoutError) as error:
            raise transport.timed_out(self._endpoint, self._timeout) from error
        except openai.APIStatusError as error:
            told = problem(error.status_code, error.body, error.response.headers)
            raise failure(self._endpoint, told) from error
        except (openai.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise transport.unreachable(self._endpoint, error) from error
        except openai.OpenAIError as error:
            raise bad_reply(self._endpoint, "something unreadable") from error


def request_body(
    request: ChatRequest, info: ModelInfo, limit_name: str, effort: str = ""
) -> dict[str, Any]:
    """The body of ``POST /chat/completions``; contents are plain text, which every server takes."""
    messages = [{"role": "system", "content": request.system}] if request.system.strip() else []
    messages += [{"role": turn.role, "content": turn.text} for turn in turns(request.messages)]
    body: dict[str, Any] = {
        "model": info.model,
        "messages": messages,
        limit_name: max(1, min(request.max_tokens, info.max_output)),
    }
    return body | {"reasoning_effort": effort} if effort else body


def read_completion(endpoint: Endpoint, payload: dict[str, Any]) -> ChatReply:
    """A completion. Raises ``ModelBadReply`` without a choice or without a finish reason."""
    choices = items(payload.get("choices"))
    if not choices:
        raise bad_reply(endpoint, "JSON that holds no choices")
    choice = mapping(choices[0])
    reason = choice.get("finish_reason")
    if not isinstance(reason, str):
        raise bad_reply(endpoint, "a completion that was cut off (no finish reason)")
    message = mapping(choice.get("message"))
    refusal = words(message.get("refusal"))
    return ChatReply(
        text=words(message.get("content")) or refusal or _called(message),
        stop=StopReason.REFUSAL if refusal else _STOPS.get(reason.lower(), StopReason.OTHER),
        usage=read_usage(mapping(payload.get("usage"))),
        reasoning=words(message.get("reasoning_content")) or words(message.get("reasoning")),
    )


def _called(message: dict[str, Any]) -> str:
    """Calls of tools that a server read out of the answer, though none were offered, as text."""
    calls = items(message.get("tool_calls"))
    return json.dumps({"tool_calls": calls}, ensure_ascii=False) if calls else ""


def read_usage(usage: dict[str, Any]) -> Usage:
    """OpenAI counts cached tokens within ``prompt_tokens``."""
    return Usage(
        input=count(usage.get("prompt_tokens")),
        output=count(usage.get("completion_tokens")),
        cached=count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )


def _refuses(error: openai.APIStatusError, parameter: str) -> bool:
    """Whether the server says that it does not know this parameter."""
    text = f"{error.code} {error.message}"
    named = error.param == parameter or re.search(rf"\b{parameter}\b", text) is not None
    return named and _NOT_TAKEN.search(text) is not None
