"""Text that a model wrote, made safe for a page and for a Markdown file.

The subset of Markdown that insights use survives (emphasis, lists, tables, code, small headings);
raw HTML, links and pictures come out as the text they are, so that nothing written by a model or
read from a cell can reach out of the report.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from serve.report.numbers import cell, clean, exact

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_LEADING = re.compile(r"^(\d*)([-+=.)])(?=\s|$|[-=])")
_TICKS = re.compile(r"`+")


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False})
    return parser.enable("table").disable(["link", "image", "autolink", "reference", "html_block"])


def html(markdown: str) -> str:
    """Safe HTML of a description. Headings are set small: the page has its own."""
    parser = _parser()
    tokens = parser.parse(clean(markdown))
    for token in tokens:
        _soften(token)
    return str(parser.renderer.render(tokens, parser.options, {})).strip()


def _soften(token: Token) -> None:
    if token.type in ("heading_open", "heading_close"):
        token.tag = "h5"


def escaped(text: Any) -> str:
    """Text for the middle of a Markdown line, as itself."""
    flat = " ".join(clean(str(text)).split())
    return _LEADING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", _harmless(flat)))


def _harmless(text: str) -> str:
    return _ENTITY.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def quoted(markdown: str) -> str:
    """A description for a Markdown file: its own formatting stays, HTML, links and pictures do
    not come alive, and its headings rank below the file's."""
    lines: list[str] = []
    for line in clean(markdown).splitlines():
        safe = line.replace("<", "&lt;").replace("](", "]\\(").replace("]:", "]\\:")
        lines.append(re.sub(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*$", r"**\1**", safe))
    return "\n".join(lines).strip()


def fenced(text: str, language: str = "") -> str:
    """A fenced code block that its content cannot close."""
    inside = clean(text).strip("\n")
    longest = max((len(run) for run in _TICKS.findall(inside)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{inside}\n{fence}"


def table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a Markdown table, numbers exact and to the right."""
    if not columns:
        return ""
    numeric = [all(cell(r.get(c), c).numeric or r.get(c) is None for r in rows) for c in columns]
    head = "| " + " | ".join(escaped(column) or "." for column in columns) + " |"
    rule = "| " + " | ".join("---:" if right else "---" for right in numeric) + " |"
    body = ["| " + " | ".join(_exact(row.get(c), c) for c in columns) + " |" for row in rows]
    return "\n".join([head, rule, *body])


def _exact(value: Any, column: str) -> str:
    return "" if value is None else escaped(exact(value, column))
