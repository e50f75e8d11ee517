"""From the port's messages to what providers accept: turns whose roles alternate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.ports import Message

MAX_MESSAGE_BREAKS = 3
"""A provider honours four cache break points; the system text takes one."""

_PLACEHOLDER = "(empty)"


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a turn. ``text`` is never empty: providers refuse empty text."""

    text: str
    cache: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All parts as one text, a blank line between them."""
        return "\n\n".join(part.text for part in self.parts)


def turns(messages: Iterable[Message]) -> list[Turn]:
    """Merge neighbours of the same role, in order, and drop parts without any text.

    A role that would vanish because all its parts are empty keeps a placeholder, so that roles go
    on alternating. A cache mark of a dropped part moves to the part before it in the same turn.
    """
    merged: list[tuple[Literal["user", "assistant"], list[Part]]] = []
    for message in messages:
        if not merged or merged[-1][0] != message.role:
            merged.append((message.role, []))
        parts = merged[-1][1]
        if message.content.strip():
            parts.append(Part(message.content, message.cache))
        elif message.cache and parts:
            parts[-1] = Part(parts[-1].text, cache=True)
    return [Turn(role, tuple(parts) or (Part(_PLACEHOLDER),)) for role, parts in merged]


def break_points(conversation: Sequence[Turn]) -> set[tuple[int, int]]:
    """Which parts end a cached prefix, as (turn, part), at most ``MAX_MESSAGE_BREAKS``.

    Parts marked ``cache`` do. In a conversation that has begun to grow (it holds an assistant turn)
    the last part does too, because the next request repeats everything up to it. Of too many, the
    first is kept, which most requests share, and the latest.
    """
    marked = [
        (t, p)
        for t, turn in enumerate(conversation)
        for p, part in enumerate(turn.parts)
        if part.cache
    ]
    if any(turn.role == "assistant" for turn in conversation):
        tail = (len(conversation) - 1, len(conversation[-1].parts) - 1)
        if tail not in marked:
            marked.append(tail)
    if len(marked) <= MAX_MESSAGE_BREAKS:
        return set(marked)
    return {marked[0], *marked[-(MAX_MESSAGE_BREAKS - 1) :]}
