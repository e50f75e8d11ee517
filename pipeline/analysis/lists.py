"""Reading lists out of a model's reply, tolerant of what models put around and inside JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pipeline.errors import ParseError

_THINKING = re.compile(r"<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THINKING_TAG = re.compile(r"</?(?:think|thinking)>", re.IGNORECASE)
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_INT64 = 2**63


def find_list(reply: str, key: str) -> list[Any]:
    """The list under ``key`` (in any case) of the reply's JSON object, or a bare array of objects.

    Reasoning blocks and prose around it are passed over; of several candidates the last counts.
    An empty list is an answer like any other. Raises ``ParseError`` when there is no such list.
    """
    without_thinking = _THINKING.sub("", reply)
    if "</think" in without_thinking.lower():
        without_thinking = re.split(r"</think(?:ing)?>", without_thinking, flags=re.I)[-1]
    for text in (without_thinking, _THINKING_TAG.sub("\n", reply)):
        found = _last_list(text, key)
        if found is not None:
            return found
    if not reply.strip():
        raise ParseError("the reply is empty")
    raise ParseError(f'the reply holds no JSON object with a list "{key}"')


def _last_list(text: str, key: str) -> list[Any] | None:
    enveloped: list[Any] | None = None
    bare: list[Any] | None = None
    for value, whole in _json_values(text):
        if isinstance(value, dict):
            found = _enveloped(cast("dict[str, Any]", value), key)
            enveloped = enveloped if found is None else found
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            if any(isinstance(item, dict) for item in items) or (whole and not items):
                bare = items
    return enveloped if enveloped is not None else bare


def _enveloped(value: Mapping[str, Any], key: str) -> list[Any] | None:
    for name, held in value.items():
        if name.strip().lower() == key:
            if isinstance(held, list):
                return cast("list[Any]", held)
            if isinstance(held, dict) and held:
                return [held]
    return None


def _json_values(text: str) -> Iterator[tuple[Any, bool]]:
    """JSON values in order of trust (loose regions, then fences, then the whole text), each with
    whether it is all of its text. Only outermost regions count: no draft is dug out of a broken
    object."""
    fenced = [match.group(1) for match in _FENCE.finditer(text)]
    for region in _regions(_FENCE.sub("\n", text)):
        yield from _decoded(region, whole=False)
    for content in fenced:
        yield from _decoded(content, whole=True)
        for region in _regions(content):
            yield from _decoded(region, whole=region.strip() == content.strip())
    yield from _decoded(text, whole=True)


def _decoded(text: str, *, whole: bool) -> Iterator[tuple[Any, bool]]:
    try:
        yield clean(json.loads(text.strip(), strict=False)), whole
    except (ValueError, RecursionError):
        return


def _regions(text: str) -> Iterator[str]:
    """Outermost balanced ``{…}`` and ``[…]``; what an unbalanced one opens ends the search."""
    start, depth, quoted, escaped = -1, 0, False, False
    for position, char in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped = char == "\\"
            quoted = char != '"'
        elif char in "{[":
            start = position if not depth else start
            depth += 1
        elif depth and char in "}]":
            depth -= 1
            if not depth:
                yield text[start : position + 1]
        elif depth and char == '"':
            quoted = True


def clean(value: Any) -> Any:
    """JSON that a document store and a prompt both take: no NaN, no infinity, no integer beyond 64
    bits, no lone surrogate, no NUL."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _INT64:
        return float(value) if abs(value) < 10**300 else None
    if isinstance(value, dict):
        return {clean(str(k)): clean(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [clean(v) for v in cast("list[Any]", value)]
    return value
