"""Markdown to plain text, for the form that searches, previews and embeddings read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

_TASK_BOX = re.compile(r"^\[[ xX]\]\s+")
_PARAGRAPH, _LINE = "\n\n", "\n"


def reduce(markdown: str) -> tuple[str, str | None]:
    """Split an authored description into plain text and Markdown.

    Emphasis, headings, list markers, quotes, rules and code marks go; links keep their text, images
    their alternative text; a table becomes one line a row, each cell under its heading's name.
    The second value is the Markdown itself, or None where reducing changed nothing but spaces.
    """
    source = markdown.replace("\r\n", "\n").replace("\r", "\n").strip()
    plain = _blocks(SyntaxTreeNode(_parser().parse(source)).children).strip()
    return (source, None) if plain.split() == source.split() else (plain, source)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _blocks(nodes: Iterable[SyntaxTreeNode], between: str = _PARAGRAPH) -> str:
    return between.join(text for node in nodes if (text := _block(node)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "inline":
            return _inline(node)
        case "code_block" | "fence" | "html_block":
            return node.content.rstrip("\n")
        case "bullet_list" | "ordered_list":
            return _list(node)
        case "table":
            return _table(node)
        case _:
            return _blocks(node.children)


def _list(node: SyntaxTreeNode) -> str:
    """One line an item, nested items after theirs. "2013. was" is a number, not a list marker."""
    start = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else 1
    lines: list[str] = []
    for position, item in enumerate(node.children):
        text = _TASK_BOX.sub("", _blocks(item.children, _LINE))
        number = f"{start + position}{item.markup} " if start > 1 else ""
        lines.append(number + text)
    return _LINE.join(line for line in lines if line)


def _table(node: SyntaxTreeNode) -> str:
    rows = [_cells(row) for part in node.children for row in part.children]
    if not rows:
        return ""
    titles, body = rows[0], rows[1:]
    if not body:
        return "; ".join(title for title in titles if title)
    return _LINE.join(
        "; ".join(
            f"{title}: {cell}" if title else cell
            for title, cell in zip(titles, row, strict=False)
            if cell
        )
        for row in body
    )


def _cells(row: SyntaxTreeNode) -> list[str]:
    return [_blocks(cell.children, " ").strip() for cell in row.children]


def _inline(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "code_inline" | "text_special" | "html_inline":
            return node.content
        case "softbreak" | "hardbreak":
            return _LINE
        case _:
            return "".join(_inline(child) for child in node.children)
