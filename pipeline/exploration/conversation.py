"""The exploring conversation: it grows at its end only, so that provider prompt caches hit."""

from __future__ import annotations

from dataclasses import replace

from pipeline.ports import Message


class Conversation:
    """A first message and then turns of two messages each: what the model said, what it was told.

    When more than ``cap`` messages have gathered, the oldest turns go in one big stride, so that
    the prefix stays the same for many calls after. The first message never goes.
    """

    def __init__(self, first: str, cap: int) -> None:
        self._first = Message("user", first, cache=True)
        self._turns: list[tuple[Message, Message]] = []
        self._cap = max(cap, 6)
        self.dropped = 0
        """Turns that are gone from the beginning."""

    @property
    def turns(self) -> int:
        """Turns so far, those that are gone included."""
        return self.dropped + len(self._turns)

    def messages(self) -> tuple[Message, ...]:
        """What to send: cache marks on the first and on the newest message."""
        flat = [message for turn in self._turns for message in turn]
        if not flat:
            return (self._first,)
        return (self._first, *flat[:-1], replace(flat[-1], cache=True))

    @property
    def last(self) -> str:
        """The newest message to the model."""
        return self._turns[-1][1].content if self._turns else self._first.content

    def add(self, said: str, told: str) -> None:
        """Append a turn. ``said`` must not be empty: some providers refuse empty turns."""
        self._turns.append((Message("assistant", said), Message("user", told)))
        if 1 + 2 * len(self._turns) > self._cap:
            self._drop(len(self._turns) - self._cap // 4)

    def shrink(self) -> bool:
        """Drop the older half of the turns; False when there is nothing to drop."""
        count = (len(self._turns) + 1) // 2
        self._drop(count)
        return count > 0

    def _drop(self, count: int) -> None:
        del self._turns[:count]
        self.dropped += count
