"""How many output tokens a call asks for, and what is learnt when that was too many."""

from __future__ import annotations

from dataclasses import replace

from adapters.llm.overflow import LEAST_OUTPUT, OutputTooLarge, smaller_output
from adapters.llm.retry import OpenedModel
from pipeline.errors import ContextOverflow
from pipeline.ports import ChatReply, ChatRequest, ModelInfo, StopReason

REASONING_ROOM = 12_288
"""Output tokens on top of what a caller asks for, when a model reasons before it answers: the
reasoning is paid from the same limit (an exploration step of 4,096 becomes the reference's 16,384).
"""
TOKENS_PER_CHAR = 0.25
"""Until a provider has counted a prompt."""


class FittedModel:
    """A ``LanguageModel`` that keeps the output limit within what the model allows.

    Prompt and output share the window: near its end less output is asked for, by an estimate that
    follows what the provider counted last. One further try follows an overflow of the window
    (reference F.6), an output limit that the model does not allow, or a reply that is nothing but
    cut-off reasoning. Limits that a provider states are kept in ``info``.
    """

    def __init__(self, inner: OpenedModel, *, reasons: bool = False) -> None:
        """``reasons`` tells that the model is known to reason before it answers."""
        self._inner = inner
        self._info = inner.info
        self._reasons = reasons
        self._tokens_per_char = TOKENS_PER_CHAR

    @property
    def info(self) -> ModelInfo:
        return self._info

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer, with at most one further try at another output limit. Raises ``ModelError``."""
        reply = await self._fitted(request)
        if self._reasons or not _only_reasoned(reply):
            return reply
        self._reasons = True
        again = await self._fitted(request)
        return replace(again, usage=reply.usage + again.usage)

    async def _fitted(self, request: ChatRequest) -> ChatReply:
        reply = await self._tried(self._room(request))
        if reply.usage.input > 0:
            counted = reply.usage.input / max(1, _chars(request))
            self._tokens_per_char = min(max(counted, 0.05), 1.5)
        return reply

    async def _tried(self, asked: ChatRequest) -> ChatReply:
        try:
            return await self._inner.chat(asked)
        except OutputTooLarge as error:
            if error.limit >= asked.max_tokens or error.limit < 1:
                raise
            self._info = replace(self._info, max_output=error.limit)
            return await self._inner.chat(replace(asked, max_tokens=error.limit))
        except ContextOverflow as error:
            self._learn_window(error)
            smaller = smaller_output(asked.max_tokens, error.window, error.used)
            if smaller is None:
                raise
            return await self._inner.chat(replace(asked, max_tokens=smaller))

    async def ping(self) -> None:
        """See ``OpenedModel``."""
        await self._inner.ping()

    async def close(self) -> None:
        """See ``OpenedModel``."""
        await self._inner.close()

    def _room(self, request: ChatRequest) -> ChatRequest:
        extra = REASONING_ROOM if self._reasons else 0
        tokens = max(1, min(request.max_tokens + extra, self._info.max_output))
        used = int(_chars(request) * self._tokens_per_char)
        left = int(self._info.context_window * 0.98) - used
        return replace(request, max_tokens=left if LEAST_OUTPUT <= left < tokens else tokens)

    def _learn_window(self, error: ContextOverflow) -> None:
        if error.window and error.window >= LEAST_OUTPUT:
            self._info = replace(self._info, context_window=error.window)


def _chars(request: ChatRequest) -> int:
    return len(request.system) + sum(len(message.content) for message in request.messages)


def _only_reasoned(reply: ChatReply) -> bool:
    return reply.stop is StopReason.LENGTH and not reply.text.strip() and bool(reply.reasoning)
