"""Test doubles that the package ships: a model that plays a script."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pipeline.ports import ChatReply, ChatRequest, ModelInfo, Usage

Scripted = str | dict[str, Any] | ChatReply | BaseException
Player = Callable[[ChatRequest], Scripted | Awaitable[Scripted]]


class ScriptExhausted(AssertionError):
    """The script has no reply left; the test asked for more calls than it planned."""


class ScriptedModel:
    """A ``LanguageModel`` that plays a list of replies or a function of the request.

    A reply is a text, a dict (sent as JSON), a ``ChatReply``, or an exception to raise. Every
    request is kept in ``requests``. Running out of replies is an error.
    """

    def __init__(
        self, replies: Iterable[Scripted] | Player, *, info: ModelInfo | None = None
    ) -> None:
        self._player = replies if callable(replies) else None
        self._script = None if callable(replies) else iter(replies)
        self.info = info or ModelInfo(provider="scripted", model="scripted")
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Play the next reply."""
        self.requests.append(request)
        reply = await self._next(request)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, ChatReply):
            return reply
        if isinstance(reply, dict):
            import json

            reply = json.dumps(reply, ensure_ascii=False)
        sent = len(request.system) + sum(len(m.content) for m in request.messages)
        return ChatReply(text=reply, usage=Usage(input=sent // 4, output=len(reply) // 4))

    async def _next(self, request: ChatRequest) -> Scripted:
        if self._player is not None:
            played = self._player(request)
            return await played if inspect.isawaitable(played) else played
        assert self._script is not None
        try:
            return next(self._script)
        except StopIteration:
            raise ScriptExhausted(f"no reply left for call {len(self.requests)}") from None
