"""The conversation of one agent: it grows at the end only, so that its prefix can be cached.

The one exception is a result whose rows have to make room; the oldest goes first, which leaves
everything before it as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.ports import Message
from pipeline.prompting import block
from pipeline.validation.cells import cut

OMITTED = "rows_omitted_due_to_history_truncation"
EMPTY_REPLY = "(empty reply)"
ERROR_CHARS = 2_000
"""Of one error; a warehouse may quote the whole cell that it stumbled over."""


@dataclass(slots=True)
class _Turn:
    message: Message
    payload: dict[str, Any] | None = None
    """Of a tool result whose rows are still there."""


class Conversation:
    """``system``, the bundle and the role's brief, then the turns."""

    def __init__(self, system: str, bundle: str, brief: str) -> None:
        self.system = system
        self._turns = [
            _Turn(Message("user", bundle, cache=True)),
            _Turn(Message("user", brief, cache=True)),
        ]
        self._chars = len(system) + len(bundle) + len(brief)

    @property
    def chars(self) -> int:
        """Characters of everything that is sent."""
        return self._chars

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(turn.message for turn in self._turns)

    def replied(self, text: str) -> None:
        """Note what the model wrote; some providers refuse an empty turn, so it gets a word."""
        self._append(_Turn(Message("assistant", text if text.strip() else EMPTY_REPLY)))

    def answered(self, payload: dict[str, Any], closing: str) -> None:
        """Add a tool result. Rows in it are data: the block cannot be closed from inside."""
        text = f"{block('tool_result', payload)}\n{closing}"
        keeps_rows = bool(payload.get("rows"))
        self._append(_Turn(Message("user", text), payload if keeps_rows else None))

    def failed(self, errors: Sequence[str], closing: str) -> None:
        """Tell the model what was wrong with its last turn."""
        told = block("recent_tool_errors", [cut(error, ERROR_CHARS) for error in errors])
        self._append(_Turn(Message("user", f"{told}\n{closing}")))

    def demand(self, text: str) -> None:
        """Add a plain instruction."""
        self._append(_Turn(Message("user", text)))

    def drop_oldest_rows(self) -> bool:
        """Replace the rows of the oldest result that still has them by a marker; False if none."""
        for turn in self._turns:
            if turn.payload is None:
                continue
            before = turn.message.content
            whole = block("tool_result", turn.payload, dense=True)
            kept = {k: v for k, v in turn.payload.items() if k != "rows"}
            marked = block("tool_result", {**kept, OMITTED: True}, dense=True)
            turn.message = Message(turn.message.role, marked + before[len(whole) :])
            turn.payload = None
            self._chars += len(turn.message.content) - len(before)
            return True
        return False

    def _append(self, turn: _Turn) -> None:
        self._turns.append(turn)
        self._chars += len(turn.message.content)
