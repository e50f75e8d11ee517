"""One question to a model whose answer is parsed, with corrective re-prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.analysis.budgets import estimated_tokens, output_after_overflow, output_budget
from pipeline.errors import ContextOverflow, ModelRefused, ParseError
from pipeline.ports import ChatReply, ChatRequest, LanguageModel, Message, StopReason, Usage
from pipeline.prompting import load, render

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    system: str
    user: str
    label: str
    parse: Callable[[str], T]
    """Raises ``ParseError``."""
    corrective: str
    """Name of the prompt that is sent after a reply that cannot be parsed; takes ``REASON``."""
    max_retries: int
    output_floor: int


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T | None
    """None when no reply could be parsed."""
    response: str
    """The last reply."""
    usage: Usage
    retries: int
    error: str = ""


async def ask(model: LanguageModel, question: Question[T]) -> Answer[T]:
    """Ask until a reply can be parsed or the retries are spent. The conversation only grows at its
    end. Raises ``ModelError``: a refusal as ``ModelRefused``, a prompt too long for the model as
    ``ContextOverflow``."""
    messages = [Message("user", question.user)]
    usage = Usage()
    for attempt in range(question.max_retries + 1):
        reply = await _chat(model, question, tuple(messages))
        usage += reply.usage
        if reply.stop is StopReason.REFUSAL:
            raise ModelRefused("the model declined to answer")
        try:
            return Answer(question.parse(reply.text), reply.text, usage, attempt)
        except ParseError as unusable:
            reason = _reason(unusable, reply)
        if attempt == question.max_retries:
            return Answer(None, reply.text, usage, attempt, error=reason)
        messages += [
            Message("assistant", reply.text.strip() or "(no answer)"),
            Message("user", render(load(question.corrective), {"REASON": reason})),
        ]
    raise AssertionError("the loop returns in its last round")


def _reason(unusable: ParseError, reply: ChatReply) -> str:
    cut = " (it was cut off at the output limit)" if reply.stop is StopReason.LENGTH else ""
    return f"{unusable}{cut}"


async def _chat(
    model: LanguageModel, question: Question[T], messages: tuple[Message, ...]
) -> ChatReply:
    used = estimated_tokens(question.system, *(m.content for m in messages))
    limit = output_budget(model.info, used, question.output_floor)
    request = ChatRequest(question.system, messages, limit, question.label)
    try:
        return await model.chat(request)
    except ContextOverflow as overflow:
        smaller = output_after_overflow(overflow, limit)
        if smaller is None:
            raise
    return await model.chat(ChatRequest(question.system, messages, smaller, question.label))
