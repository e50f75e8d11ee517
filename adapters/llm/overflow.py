"""What providers say when a request does not fit, in their many wordings. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.errors import ModelError

LEAST_OUTPUT = 512
"""Tokens; what is asked of a model does not fit into less."""

_N = r"(\d[\d,_]*)"


def _of(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in patterns)


_RECOGNISED = _of(
    r"maximum context length",
    r"context[_ ]length[_ ]exceeded",
    r"context[_ ](?:window|limit)[_ ]exceeded",
    r"exceed\w*[_ ]context[_ ]size",
    r"exceeds? the (?:\w+ )?context (?:window|length|size|limit)",
    r"exceeds? (?:the )?(?:model'?s?|available|maximum) context",
    r"exceeds? context (?:window|length|size|limit)",
    r"exceed context (?:window|length|size|limit)",
    r"context window exceeds limit",
    r"context[_ ]?window[_ ]?exceeded",
    r"exceeded max context length",
    r"prompt exceeds max(?:imum)? length",
    r"input tokens exceed(?:ed\b| the)",
    r"too many input tokens",
    r"number of input tokens exceeds",
    r"range of input length should be",
    r"input token count.{0,40}model only supports",
    r"`?inputs`? must have less than",
    r"current length is \d+ while limit is",
    r"(?:longer|greater|larger) than the (?:model'?s )?(?:maximum )?(?:context|model) length",
    r"prompt is too long",
    r"input is too long",
    r"input token count.{0,40}exceeds the maximum",
    r"maximum prompt length is",
    r"prompt token count.{0,40}exceeds the limit",
    r"reduce the length of the (?:input prompt|messages|prompt|input)",
    r"reduce your prompt",
    r"exceeded model token limit",
    r"total number of tokens in the prompt cannot exceed",
    r"too large for model with \d+ maximum context",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be",
    r"context the overflows",
)

_WINDOW = _of(
    rf"exceed context limit:.*> {_N}",
    rf"maximum context length (?:is|of) {_N}",
    rf"maximum prompt length is {_N}",
    rf"context (?:length|window|size|limit)(?: of)?(?: only)?:? {_N}",
    rf"context (?:length|window|size) (?:is|of) (?:only )?{_N}",
    rf"available context size \({_N}",
    rf"context length \({_N}",
    rf"maximum model length of {_N}",
    rf"too large for model with {_N} maximum context",
    rf"maximum number of tokens allowed \(?{_N}",
    rf"configured limit of {_N}",
    rf"max input tokens: {_N}",
    rf"model only supports up to {_N}",
    rf"range of input length should be \[\d+, ?{_N}\]",
    rf"must have less than {_N}",
    rf"while limit is {_N}",
    rf"max context length (?:is|of) {_N}",
    rf"exceeds the limit of {_N}",
    rf"model token limit: {_N}",
    rf"prompt cannot exceed {_N}",
    rf"must be <= {_N}",
    rf"> {_N} maximum",
    rf"\bn_ctx\D{{1,4}}{_N}",
)

# The prompt alone where it is told apart, the whole request where only that is stated.
_USED = _of(
    rf"\({_N} (?:in|from|of)(?: the| your)? (?:messages|prompt|text|input)",
    rf"{_N} tokens from the input messages",
    rf"request has {_N} input tokens",
    rf"\bn_prompt_tokens\D{{1,4}}{_N}",
    rf"context limit: {_N} \+",
    rf"prompt is too long: {_N}",
    rf"input token count: {_N}",
    rf"input token count is {_N}",
    rf"current length is {_N}",
    rf"input token count \({_N}",
    rf"input length \({_N}",
    rf"prompt token count of {_N}",
    rf"prompt contains {_N} tokens",
    rf"given: {_N}",
    rf"keep the first {_N} tokens",
    rf"request contains {_N} tokens",
    rf"(?:decoder )?prompt \(length {_N}",
    rf"the input \({_N} tokens",
    rf"request \({_N} tokens",
    rf"resulted in {_N} tokens",
    rf"\(requested: {_N}",
    rf"requested tokens \({_N}",
    rf"requested (?:about |a total of )?{_N} tokens",
    rf"you (?:passed|sent|provided) {_N} (?:input )?tokens",
)

_OUTPUT_LIMIT = _of(
    rf"at most {_N} (?:completion|output) tokens",
    rf"max_(?:completion_|output_)?tokens: \d[\d,_]* > {_N}, which is the maximum",
    rf"max_(?:completion_|output_)?tokens\W+(?:must|should|cannot|can't) be\D{{0,40}}{_N}",
    rf"valid range of max_(?:completion_|output_)?tokens is \[\d+, ?{_N}\]",
    rf"maximum (?:allowed )?(?:number of )?(?:output|completion) tokens[^\d]{{0,40}}{_N}",
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """``window`` and ``used`` (the prompt, or the request when that is all we are told), tokens."""

    window: int | None = None
    used: int | None = None


class OutputTooLarge(ModelError):
    """More output was asked for than the model ever writes; ``limit`` is what it allows."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message, limit)
        self.limit = limit

    def __str__(self) -> str:
        return str(self.args[0])


def overflow(message: str) -> Overflow | None:
    """Read a provider's error text: None when it does not speak of the context window."""
    if not any(pattern.search(message) for pattern in _RECOGNISED):
        return None
    return Overflow(_first(_WINDOW, message), _first(_USED, message))


def output_limit(message: str) -> int | None:
    """The most output tokens that an error text allows, when it speaks of that."""
    return _first(_OUTPUT_LIMIT, message)


def smaller_output(requested: int, window: int | None, used: int | None) -> int | None:
    """Output tokens for the one further try after an overflow, or None when no try can help.

    Reference F.6: what the window leaves after the input and a margin of 2 % of the window, if at
    least 512 and less than before; else half, if at least 512. ``used`` may be more than the window
    for a prompt that fits, because some providers state prompt and output as one.
    """
    if window is not None and used is not None:
        rest = int(window * 0.98) - used
        if LEAST_OUTPUT <= rest < requested:
            return rest
    half = requested // 2
    return half if half >= LEAST_OUTPUT else None


def _first(patterns: tuple[re.Pattern[str], ...], message: str) -> int | None:
    for pattern in patterns:
        if found := pattern.search(message):
            return int(found.group(1).replace(",", "").replace("_", ""))
    return None
