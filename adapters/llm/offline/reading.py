"""What a conversation says, read from its data blocks only.

Nothing here trusts a prompt to be well formed: a block that is missing, cut or not JSON reads as
nothing, so that an odd prompt ends in an honest reply and never in an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pipeline.ports import ChatRequest
from pipeline.prompting import read_block, read_json_block

_ROLE = re.compile(r"^# Veridical role: *([a-z_]+) *$", re.MULTILINE)
_BLOCK = re.compile(r"^<([a-z_]+)>\n.*?\n</\1>", re.MULTILINE | re.DOTALL)
FORCED_FINAL = "Forced final round: only submit_verdict is accepted."

Json = dict[str, Any]


def role_of(request: ChatRequest) -> str:
    """The last role line outside of data blocks, over system and user messages, or ''."""
    texts = [request.system, *(m.content for m in request.messages if m.role == "user")]
    found = [r for text in texts for r in _ROLE.findall(_BLOCK.sub("", text))]
    return found[-1] if found else ""


def payload(text: str, name: str) -> Any:
    """The JSON of a block, or None when it is missing or broken."""
    try:
        return read_json_block(text, name)
    except (ValueError, RecursionError):
        return None


def find_text(request: ChatRequest, name: str) -> str:
    """The text of the last block of that name in the whole request, or ''."""
    for text in reversed([request.system, *(m.content for m in request.messages)]):
        found = read_block(text, name)
        if found is not None:
            return _unescape(found)
    return ""


def _unescape(text: str) -> str:
    return text.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&")


def find_payload(request: ChatRequest, name: str) -> Any:
    """The JSON of the last readable block of that name in the whole request, or None."""
    for text in reversed([request.system, *(m.content for m in request.messages)]):
        found = payload(text, name)
        if found is not None:
            return found
    return None


def as_object(value: Any) -> Json:
    """The value if it is a JSON object, else an empty one."""
    if not isinstance(value, Mapping):
        return {}
    return {str(k): v for k, v in cast("Mapping[Any, Any]", value).items()}


def as_list(value: Any) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []


def objects(value: Any) -> list[Json]:
    """The objects of a JSON array."""
    return [as_object(v) for v in as_list(value) if isinstance(v, Mapping)]


def text_of(value: Any) -> str:
    """The value if it is a string, else ''."""
    return value if isinstance(value, str) else ""


def int_of(value: Any, default: int = 0) -> int:
    """The value if it is a whole number, else the default."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return int(value) if value == value and abs(value) != float("inf") else default


def number_of(value: Any) -> float | int | None:
    """A finite number from a JSON number or a string that is one; None for all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return None


def reply_object(text: str) -> Json:
    """The JSON object that this analyst itself wrote in an earlier turn, or an empty one."""
    try:
        return as_object(json.loads(text))
    except (ValueError, RecursionError):
        return {}


@dataclass(frozen=True, slots=True)
class Turn:
    """An action of the explorer and the result that came back."""

    action: Json
    result: Json


def exploration_turns(request: ChatRequest) -> Iterator[Turn]:
    """Every ``step_result`` with the reply it answers, oldest first."""
    said: Json = {}
    for message in request.messages:
        if message.role == "assistant":
            said = reply_object(message.content)
            continue
        result = as_object(payload(message.content, "step_result"))
        if result:
            yield Turn(said, result)
            said = {}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """An envelope of a validation agent and what the tool gave; ``result`` is empty on error."""

    kind: str
    body: Any
    result: Json


@dataclass(frozen=True, slots=True)
class Hearing:
    """A validation conversation so far."""

    bundle: Json
    prior_claims: list[str]
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    forced: bool = False


def hearing(request: ChatRequest) -> Hearing:
    """Read a verifier's or refuter's conversation."""
    calls: list[ToolCall] = []
    said: Json = {}
    forced = False
    for message in request.messages:
        if message.role == "assistant":
            said = reply_object(message.content)
            continue
        forced = forced or FORCED_FINAL in _BLOCK.sub("", message.content)
        if not said:
            continue
        kind = next(iter(said), "")
        result = as_object(payload(message.content, "tool_result"))
        calls.append(ToolCall(kind, said.get(kind), result))
        said = {}
    prior = find_payload(request, "prior_claims")
    claims = [c for c in as_list(prior) if isinstance(c, str)]
    return Hearing(as_object(find_payload(request, "bundle")), claims, calls, forced)
