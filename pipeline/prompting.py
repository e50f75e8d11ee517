"""Prompts as Markdown with ``{{VARIABLES}}``, and data blocks that no cell can close.

A data block is ``<name>`` newline JSON newline ``</name>``. The JSON writes ``<``, ``>`` and ``&``
as unicode escapes, so that neither a row, a column name nor an error text can end its block or
start another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

_VARIABLE = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} does not belong in a prompt; normalise it first")


def to_json(payload: Any, *, dense: bool = False) -> str:
    """JSON on one line, keys in the order given, with the characters of tags escaped. ``dense``
    leaves out the blanks between its parts."""
    separators = (",", ":") if dense else (", ", ": ")
    text = json.dumps(
        payload, default=_plain, ensure_ascii=False, allow_nan=False, separators=separators
    )
    return text.translate(_ESCAPES)


def block(name: str, payload: Any, *, dense: bool = False) -> str:
    """A data block with a JSON payload; see ``to_json``."""
    return f"<{name}>\n{to_json(payload, dense=dense)}\n</{name}>"


def text_block(name: str, text: str) -> str:
    """A data block of lines; tag characters in them are escaped."""
    return f"<{name}>\n{text.translate(_ESCAPES)}\n</{name}>"


def read_block(text: str, name: str) -> str | None:
    """The content of the last block of that name, or None."""
    start = text.rfind(f"<{name}>\n")
    if start < 0:
        return None
    end = text.find(f"\n</{name}>", start)
    return None if end < 0 else text[start + len(name) + 3 : end]


def read_json_block(text: str, name: str) -> Any:
    """The parsed payload of the last block of that name, or None."""
    content = read_block(text, name)
    return None if content is None else json.loads(content)


@cache
def load(name: str) -> str:
    """The engine's own prompt ``name``, a path below ``prompts/`` without ``.md``."""
    resource = files("prompts")
    for part in f"{name}.md".split("/"):
        resource = resource / part
    return resource.read_text(encoding="utf-8")


def render(template: str, variables: Mapping[str, str]) -> str:
    """Replace every ``{{NAME}}`` that is given; unknown ones stay as they are. One pass: text that
    a variable brings in is never expanded again."""
    return _VARIABLE.sub(lambda m: variables.get(m.group(1), m.group(0)), template)
