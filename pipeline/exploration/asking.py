"""Asks the model for its next action: nudges, refusals, empty replies and context overflow."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

from pipeline.errors import ActionError, ContextOverflow, ModelRefused, RunFailed
from pipeline.exploration.actions import Action, encodable, parse_action
from pipeline.exploration.budget import Budget
from pipeline.exploration.conversation import Conversation
from pipeline.exploration.outcome import clip
from pipeline.exploration.prompts import Grammar, nudge
from pipeline.ports import ChatReply, ChatRequest, LanguageModel, StopReason, Usage

log = logging.getLogger(__name__)

LEAST_OUTPUT = 512
"""Tokens; an action does not fit into less."""
REASONING_CHARS = 2_000
UNUSABLE_CHARS = 20_000
"""Of a reply that could not be used: one that ran wild must not fill the window four times."""
PLACEHOLDER = "(no text)"


@dataclass(frozen=True, slots=True)
class Turn:
    """A usable reply and what it took to get it."""

    action: Action
    asked: str
    """The message that it answers."""
    said: str
    """The reply as it is kept in the conversation; never empty."""
    usage: Usage
    """Of all calls of this step."""


class Asker:
    """One run's conversation with the exploring model."""

    def __init__(
        self,
        model: LanguageModel,
        system: str,
        conversation: Conversation,
        grammar: Grammar,
        budget: Budget,
        max_tokens: int,
    ) -> None:
        self._model = model
        self._system = system
        self._conversation = conversation
        self._grammar = grammar
        self._budget = budget
        self._max_tokens = min(max_tokens, model.info.max_output)

    def _newest(self) -> str:
        """What the audit log keeps of a call: the newest message, and once what all calls share."""
        newest = self._conversation.last
        return newest if self._conversation.turns else f"{self._system}\n\n{newest}"

    async def next_action(self, step: int) -> Turn:
        """The action of ``step``. An unusable reply is answered with a nudge and asked again.

        Raises ``RunFailed`` when all tries are used, ``ModelRefused`` at once on a refusal, and
        any other ``ModelError`` of the call.
        """
        usage = Usage()
        for attempt in range(self._budget.parse_retries + 1):
            asked = self._newest()
            reply = await self._chat()
            usage += reply.usage
            if reply.stop is StopReason.REFUSAL:
                raise ModelRefused(
                    f"step {step}: the model refused to answer; the same conversation would be "
                    "refused again, so change the model or the project's prompts"
                )
            said = kept(reply)
            try:
                action = read_reply(reply, self._grammar.object_sources)
                return Turn(action, asked, said, usage)
            except ActionError as error:
                log.warning("step %d, try %d: %s", step, attempt + 1, error.reason)
                cut_off_at = self._max_tokens if reply.stop is StopReason.LENGTH else None
                told = nudge(error, self._grammar, cut_off_at=cut_off_at)
                self._conversation.add(clip(said, UNUSABLE_CHARS), told)
        tries = self._budget.parse_retries + 1
        raise RunFailed(f"step {step}: unable to parse LLM response after {tries} attempts")

    async def _chat(self) -> ChatReply:
        try:
            return await self._model.chat(self._request())
        except ContextOverflow as error:
            smaller, drop = shrunk(self._max_tokens, error.window, error.used)
            dropped = drop and self._conversation.shrink()
            if smaller == self._max_tokens and not dropped:
                raise
            log.warning(
                "the prompt does not fit the model's window; trying once more with %d output "
                "tokens%s",
                smaller,
                " and without the older half of the conversation" if dropped else "",
            )
            again = replace(self._request(), max_tokens=smaller)
            if not dropped:  # with less history there is room for a whole answer next time
                self._max_tokens = smaller
            return await self._model.chat(again)

    def _request(self) -> ChatRequest:
        messages = self._conversation.messages()
        return ChatRequest(self._system, messages, self._max_tokens, label="explore")


def read_reply(reply: ChatReply, object_sources: Collection[str] = ()) -> Action:
    """The action of a reply. An empty text whose separate reasoning holds the action counts, unless
    it ran out of tokens. Raises ``ActionError``."""
    if reply.text.strip() or not reply.reasoning or reply.stop is StopReason.LENGTH:
        return parse_action(reply.text, object_sources=object_sources)
    return parse_action(reply.reasoning, object_sources=object_sources)


def kept(reply: ChatReply) -> str:
    """What stands for a reply in the conversation: its text, else its reasoning, else a word. It
    can be sent and stored: half a surrogate pair becomes U+FFFD."""
    if reply.text.strip():
        return encodable(reply.text)
    return encodable(reply.reasoning.strip()[:REASONING_CHARS]) or PLACEHOLDER


def shrunk(max_tokens: int, window: int | None, used: int | None) -> tuple[int, bool]:
    """How to try again after an overflow: the output limit, and whether history must go.

    With window and input known, the room between them less a margin of 2 %, when an action fits
    and it is smaller than before; else half of the output, when an action fits into that, and less
    history.
    """
    if window is not None and used is not None:
        room = int(window * 0.98) - used
        if LEAST_OUTPUT <= room < max_tokens:
            return room, False
    half = max_tokens // 2
    return (half if half >= LEAST_OUTPUT else max_tokens), True
