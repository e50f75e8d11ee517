"""Finds the JSON objects in a free-form model reply.

One pass from left to right. Outside objects, think blocks are set aside as reasoning; an object
runs to its balancing brace, with strings and escapes respected. Nothing is ever searched for
*inside* an object: a draft nested in a broken object is not an answer.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, cast

Object = dict[str, Any]

_NAME = r"(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reasoning)"
_OPEN_TAG = rf"<{_NAME}(?:\s[^<>]*)?>|\[(?-i:THINK)\]"
_CLOSE_TAG = rf"</{_NAME}\s*>|\[/(?-i:THINK)\]"
_FLAT = r'\{(?:[^{}"<]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\}'
"""An object without objects in it, found in one go: a reply may hold a million of them."""
_OUTSIDE = re.compile(
    rf"(?P<flat>{_FLAT})|(?P<brace>\{{)|(?P<open>{_OPEN_TAG})|(?P<close>{_CLOSE_TAG})",
    re.I | re.S,
)
_INSIDE = re.compile(rf'\{{++|[}}"]|{_OPEN_TAG}', re.I)
_CLOSE = re.compile(_CLOSE_TAG, re.I)
_TAGS = re.compile(rf"{_OPEN_TAG}|{_CLOSE_TAG}", re.I)
THOUGHTS = re.compile(rf"<(?:{_NAME}|think(?:ing)?\s[^<>]*)>.*?(?:</{_NAME}\s*>|\Z)", re.I | re.S)
"""Think blocks of a text that is not JSON, closed or dangling. That text may be SQL: what could be
a comparison or a bracketed name there is no tag."""
_STRING_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S)
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```|\Z)", re.S | re.M)
_LOOKS_LIKE_JSON = re.compile(r'\{\s*(?:"|\Z)')


@dataclass(frozen=True, slots=True)
class Broken:
    """Something in braces that is not a JSON object."""

    text: str
    cut_off: bool
    """True when its closing brace is missing."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What a reply holds, in order of appearance."""

    pieces: list[str | Broken]
    """Balanced braces with all between them, not parsed yet, and what is cut off."""
    reasoning: str
    """The inside of all think blocks, joined, without tags."""

    @property
    def found(self) -> list[Object | Broken]:
        """Every piece, parsed."""
        return [read(piece) for piece in self.pieces]


def scan(reply: str) -> Scan:
    """Objects and broken objects outside think blocks. Linear in the length of the reply."""
    pieces: list[str | Broken] = []
    reasoning: list[str] = []
    start = position = 0
    while match := _OUTSIDE.search(reply, position):
        if match["flat"]:
            pieces.append(match["flat"])
            position = match.end()
        elif match["open"]:
            close = _CLOSE.search(reply, match.end())
            reasoning.append(reply[match.end() : close.start() if close else len(reply)])
            position = close.end() if close else len(reply)
        elif match["close"]:
            # A closing tag alone: the prompt template opened the block, all before it is thought.
            reasoning.append(reply[start : match.start()])
            pieces.clear()
            start = position = match.end()
        else:
            text, position = _balanced(reply, match.start())
            if text is None:
                pieces.extend(_after_unbalanced(reply, match.start()))
                break
            pieces.append(text)
    return Scan(pieces, _TAGS.sub(" ", "\n".join(reasoning)))


def after_last_thought(reply: str) -> str | None:
    """What follows the last closing tag of a reply that begins as prose, if there is one.

    The second try for reasoning whose stray braces or quotes hid its own closing tag.
    """
    if reply.lstrip().startswith(("{", "[", "`")):
        return None
    closes = list(_CLOSE.finditer(reply))
    return reply[closes[-1].end() :] if closes else None


def objects(text: str) -> Iterator[Object]:
    """The well-formed objects of a text without think blocks, in order."""
    return (item for item in scan(text).found if not isinstance(item, Broken))


def _balanced(text: str, start: int) -> tuple[str | None, int]:
    """The object that starts at ``start``, think blocks between its tokens left out, and its end;
    (None, end of text) when it never closes."""
    depth, position, kept_from = 0, start, start
    parts: list[str] = []
    while match := _INSIDE.search(text, position):
        token, position = match[0], match.end()
        if token[0] == "{":
            depth += len(token)
        elif token == "}":
            depth -= 1
            if depth == 0:
                parts.append(text[kept_from:position])
                return "".join(parts), position
        elif token == '"':
            rest = _STRING_REST.match(text, position)
            if rest is None:
                break
            position = rest.end()
        else:
            close = _CLOSE.search(text, position)
            if close is None:
                break
            parts.append(text[kept_from : match.start()])
            position = kept_from = close.end()
    return None, len(text)


def _after_unbalanced(reply: str, start: int) -> list[str | Broken]:
    """An unbalanced brace ends the search. Only when it is plainly prose and not the start of an
    object may fenced blocks after it still count, those in a thought excepted."""
    if _LOOKS_LIKE_JSON.match(reply, start):
        return [Broken(reply[start:], cut_off=True)]
    thoughts = deque(thought.span() for thought in THOUGHTS.finditer(reply, start))
    found: list[str | Broken] = []
    for fence in _FENCE.finditer(reply):
        while thoughts and thoughts[0][1] <= fence.start():
            thoughts.popleft()
        if fence.start() < start or (thoughts and thoughts[0][0] <= fence.start()):
            continue
        body, position = fence[1], 0
        while (brace := body.find("{", position)) >= 0:
            text, position = _balanced(body, brace)
            found.append(Broken(body[brace:], cut_off=True) if text is None else text)
    hidden = None if found else _LOOKS_LIKE_JSON.search(reply, start)
    return [Broken(reply[start:], cut_off=True)] if hidden else found


def read(piece: str | Broken) -> Object | Broken:
    """The object that a piece of a scan is."""
    if isinstance(piece, Broken):
        return piece
    try:
        # strict=False: many models break lines inside a SQL string without escaping them.
        value: Any = json.loads(piece, strict=False, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return Broken(piece, cut_off=False)
    return cast("Object", value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
