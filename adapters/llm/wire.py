"""Tolerant reads of a provider's JSON: a wrong shape becomes an error or a default, no crash."""

from __future__ import annotations

import json
from typing import Any, cast

from adapters.llm.failures import Endpoint, bad_reply, failure, problem


def read_body(endpoint: Endpoint, text: str) -> dict[str, Any]:
    """The JSON object of a 200 answer.

    Raises ``ModelBadReply`` for anything else, or what the body says if it is an error object.
    """
    try:
        payload = json.loads(text)
    except ValueError:
        page = text.lstrip()[:1] == "<"
        raise bad_reply(endpoint, "a web page" if page else "broken JSON") from None
    if not isinstance(payload, dict):
        raise bad_reply(endpoint, "JSON that is no object")
    body = cast("dict[str, Any]", payload)
    if isinstance(body.get("error"), (dict, str)):
        raise failure(endpoint, problem(200, body))
    return body


def mapping(value: Any) -> dict[str, Any]:
    """``value`` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """``value`` if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def count(value: Any) -> int:
    """A token count; anything that is none counts as 0."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def words(value: Any) -> str:
    """``value`` if it is text; the text parts, joined, if it is a list of parts; else empty."""
    if isinstance(value, str):
        return value
    return "".join(words(mapping(part).get("text")) for part in items(value))
