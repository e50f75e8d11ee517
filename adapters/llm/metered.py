"""What calls to a model cost in tokens, by what they were for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.ports import ChatReply, ChatRequest, LanguageModel, ModelInfo, Usage


@dataclass(frozen=True, slots=True)
class Tally:
    """``calls`` counts answered ones; ``usage`` is tokens."""

    calls: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.calls + other.calls, self.failed + other.failed, self.usage + other.usage)


@dataclass(frozen=True, slots=True)
class Totals:
    total: Tally = field(default_factory=Tally)
    by_label: Mapping[str, Tally] = field(default_factory=dict[str, Tally])
    """Keys are ``ChatRequest.label``, in the order in which they first came."""


class MeteredModel:
    """A ``LanguageModel`` that counts what goes through it."""

    def __init__(self, inner: LanguageModel) -> None:
        self._inner = inner
        self._by_label: dict[str, Tally] = {}

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer as the inner model does, and count. Raises ``ModelError``."""
        tally = Tally(failed=1)
        try:
            reply = await self._inner.chat(request)
            tally = Tally(calls=1, usage=reply.usage)
        finally:
            self._by_label[request.label] = self._by_label.get(request.label, Tally()) + tally
        return reply

    def totals(self) -> Totals:
        """A snapshot of all counts so far."""
        total = sum(self._by_label.values(), Tally())
        return Totals(total, dict(self._by_label))
