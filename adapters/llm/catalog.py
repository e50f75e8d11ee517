"""What is known about models by name: the defaults, and their limits in tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapters.llm.wire import mapping

DEFAULT_ANTHROPIC = "claude-sonnet-5-5"
DEFAULT_OPENAI = "gpt-6-sol"

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens; ``reasons`` tells that the model reasons before it answers unless told not to."""

    window: int = 128_000
    output: int = 64_000
    reasons: bool = False


# By the beginning of the name, the longest that fits; from the providers' model pages, Nov. 2026.
_KNOWN: dict[str, Limits] = {
    "claude-": Limits(200_000, 64_000),
    "claude-3": Limits(200_000, 8_192),
    "claude-opus-4-6": Limits(1_000_000, 128_000),
    "claude-opus-4-7": Limits(1_000_000, 128_000),
    "claude-opus-4-8": Limits(1_000_000, 128_000),
    "claude-sonnet-4-6": Limits(1_000_000, 64_000),
    "claude-opus-5": Limits(1_000_000, 128_000, reasons=True),
    "claude-sonnet-5": Limits(1_000_000, 128_000, reasons=True),
    "claude-haiku-5": Limits(1_000_000, 128_000, reasons=True),
    "claude-fable-5": Limits(1_000_000, 128_000, reasons=True),
    "claude-mythos-5": Limits(1_000_000, 128_000, reasons=True),
    "gpt-4o": Limits(128_000, 16_384),
    "gpt-4.1": Limits(1_047_576, 32_768),
    "gpt-5": Limits(400_000, 128_000, reasons=True),
    "gpt-5.6": Limits(1_050_000, 128_000, reasons=True),
    "gpt-6": Limits(1_050_000, 128_000, reasons=True),
    "o1": Limits(200_000, 100_000, reasons=True),
    "o3": Limits(200_000, 100_000, reasons=True),
    "o4-mini": Limits(200_000, 100_000, reasons=True),
}
_WINDOW_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")


def limits(model: str) -> Limits:
    """Limits of a model by name, without a vendor prefix; the reference's default if unknown."""
    name = model.rpartition("/")[2].lower()
    fitting = [beginning for beginning in _KNOWN if name.startswith(beginning)]
    return _KNOWN[max(fitting, key=len)] if fitting else Limits()


def listed_window(entry: Mapping[str, Any]) -> int | None:
    """The context window that a server's model list states for an entry, in tokens."""
    for source in (entry, mapping(entry.get("meta"))):
        for key in _WINDOW_KEYS:
            value: Any = source.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None
