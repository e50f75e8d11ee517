"""Token budgets of the long prompts (reference facts, section H)."""

from __future__ import annotations

from pipeline.errors import ContextOverflow
from pipeline.ports import ModelInfo

QUERY_RESULTS_TOKENS = 200_000
QUERY_RESULTS_FLOOR = 4_096
OUTPUT_RESERVE = 16_384
OVERHEAD = 512
MARGIN = 0.15
"""Of the window: tokens are estimated, at four characters each."""
LEAST_OUTPUT = 512

_OVERFLOW_MARGIN = 0.02


def estimated_tokens(*texts: str) -> int:
    return sum(len(text) for text in texts) // 4 + 1


def query_results_budget(info: ModelInfo) -> int:
    """Tokens that the digests of an area's prompt may take."""
    reserve = min(OUTPUT_RESERVE, info.max_output)
    room = info.context_window - reserve - OVERHEAD - int(info.context_window * MARGIN)
    return max(min(QUERY_RESULTS_TOKENS, room), QUERY_RESULTS_FLOOR)


def output_budget(info: ModelInfo, input_tokens: int, floor: int) -> int:
    """Tokens that the reply to a prompt of about ``input_tokens`` may take."""
    room = info.context_window - input_tokens - OVERHEAD - int(info.context_window * MARGIN)
    return min(max(room, floor), info.max_output)


def output_after_overflow(overflow: ContextOverflow, max_tokens: int) -> int | None:
    """A smaller reply with which the same prompt fits, or None when the prompt is the problem."""
    if overflow.window is None or overflow.used is None:
        return None
    room = int(overflow.window * (1 - _OVERFLOW_MARGIN)) - overflow.used
    return room if LEAST_OUTPUT <= room < max_tokens else None


def results_after_overflow(overflow: ContextOverflow, rendered_tokens: int) -> int:
    """A budget for digests with which a prompt that overflowed should fit."""
    if overflow.window and overflow.used and overflow.used > overflow.window:
        excess = overflow.used - overflow.window + LEAST_OUTPUT
        fitting = int((rendered_tokens - excess) * (1 - MARGIN))
        return max(min(fitting, rendered_tokens - 1), 1)
    return max(rendered_tokens // 2, 1)
