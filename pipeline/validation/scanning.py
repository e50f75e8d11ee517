"""The JSON objects that stand at the top level of a model's reply.

The reply is read from left to right and each JSON value is skipped as a whole, so that nothing
inside a string, a row or a list is ever found. Reasoning blocks and code fences are seen through.
Whatever a reply holds, the time for it grows with its length and no faster.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

MAX_MARKS = 2_000
"""Braces, fences and tags outside of JSON values that are looked at; an honest reply has a few."""
MAX_DANGLING_CHARS = 200_000
"""Of a reasoning block that never closes and is still searched."""
MAX_DANGLING_LINES = 200
MAX_DEPTH = 10_000
PROSE_CHARS = 200
"""A list that stops being JSON within so many characters was prose in brackets."""

_MARK = re.compile(r"</?think(?:ing)?>|```|[{\[]", re.IGNORECASE)
_BRACKETS = re.compile(r"\[[\[\s]*")
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)
_LINE = re.compile(r"^[ \t]*(?=\{)", re.MULTILINE)


class ScannedObject(dict[str, Any]):
    """A JSON object that remembers which of its keys were written more than once."""

    repeated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    value: ScannedObject
    region: int
    """0 for plain text, n for the n-th code fence."""


@dataclass(slots=True)
class Scan:
    objects: list[Found] = field(default_factory=list[Found])
    problem: str = ""
    """Why something that looked like JSON was passed over."""


def scan(reply: str) -> Scan:
    """What stands at the top level of ``reply``, after its last reasoning block if it has one."""
    found, at, fences, in_fence = Scan(), 0, 0, False
    for _ in range(MAX_MARKS):
        mark = _MARK.search(reply, at)
        if mark is None:
            return found
        token, at = mark.group().lower(), mark.end()
        if token == "```":
            in_fence = not in_fence
            fences += in_fence
        elif token.startswith("</"):
            found, in_fence = Scan(), False  # all before it was reasoning
        elif token.startswith("<"):
            end = _THINK_END.search(reply, at)
            if end is None:
                return _inside_dangling(reply, at, found)
            at = end.end()
        else:
            at = _take(reply, mark.start(), found, fences if in_fence else 0)
    return Scan(problem="the reply is cluttered with braces, fences or tags")


def _inside_dangling(reply: str, at: int, found: Scan) -> Scan:
    """A reasoning block that never closes. What came before it counts; else only an object that
    begins a line and ends the reply, because a model may quote rows while it thinks."""
    if found.objects:
        return found
    tail = reply.rstrip().removesuffix("```").rstrip()
    if len(tail) - at <= MAX_DANGLING_CHARS:
        inside = reply[at:]
        for _, line in zip(range(MAX_DANGLING_LINES), _LINE.finditer(inside), strict=False):
            value, end = _decode(reply, at + line.end())
            if isinstance(value, ScannedObject) and end == len(tail):
                return Scan([Found(value, 0)])
    return Scan(problem="the reasoning block was never closed and no envelope follows it")


def _take(reply: str, start: int, found: Scan, region: int) -> int:
    """Read the JSON value at ``start`` into ``found``; where to go on."""
    value, end = _decode(reply, start)
    if value is None:
        return _pass_over(reply, start, end, found)
    quoted = reply[start - 1 : start] in ('"', "'") and reply[end : end + 1] in ('"', "'")
    if quoted:
        found.problem = found.problem or "the reply only quotes an object"
    elif isinstance(value, ScannedObject):
        found.objects.append(Found(value, region))
    elif any(isinstance(v, dict) for v in value):
        found.problem = found.problem or "the reply holds a list, not one JSON object"
    return end


def _pass_over(reply: str, start: int, broken: int, found: Scan) -> int:
    """Something in braces that is not JSON: skip it whole, or stop if it never closes. ``broken``
    is where it stopped being JSON."""
    brackets = _BRACKETS.match(reply, start)
    inside = brackets.end() if brackets else start
    if brackets and not reply.startswith("{", inside) and broken - inside <= PROSE_CHARS:
        return inside
    end = _balanced_end(reply, start)
    if end is None:
        found.problem = "the JSON object is cut off or not balanced"
        closing = _THINK_END.search(reply, start)
        return len(reply) if closing is None else closing.start()
    looks_meant = re.match(r"\{\s*[\"']", reply[start : start + 50]) is not None
    if looks_meant:
        found.problem = "the object is not valid JSON"
    return end


def _balanced_end(reply: str, start: int) -> int | None:
    """Just behind the bracket that closes the one at ``start``; strings and escapes are minded.
    None when it never closes, a string in it never ends, or it is absurdly deep."""
    depth = 0
    for token in _TOKEN.finditer(reply, start):
        mark = token.group()
        if mark in ("{", "["):
            depth += 1
        elif mark in ("}", "]"):
            depth -= 1
        elif mark == '"':
            return None
        if depth == 0:
            return token.end()
        if depth > MAX_DEPTH:
            return None
    return None


# ---------------------------------------------------------------- decoding one value


def _pairs(pairs: list[tuple[str, Any]]) -> ScannedObject:
    found = ScannedObject(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        found.repeated = frozenset(name for name, count in counts.items() if count > 1)
    return found


def _no_number(_: str) -> None:
    """NaN and the infinities are no JSON values; they are read as null."""


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_pairs, parse_constant=_no_number)


def _decode(reply: str, start: int) -> tuple[ScannedObject | list[Any] | None, int]:
    """The object or list at ``start`` and where it ends, or None and where it broke."""
    try:
        value, end = _DECODER.raw_decode(reply, start)
    except json.JSONDecodeError as error:
        return None, error.pos
    except (ValueError, RecursionError):  # a number of too many digits, a nest too deep
        return None, len(reply)
    return cast("ScannedObject | list[Any]", value), end
