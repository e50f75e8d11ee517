"""What the SQL fixer is shown and what is read from its answer. Pure functions."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.records import Table
from pipeline.replies import THOUGHTS, objects

MAX_TABLES = 12
MAX_COLUMNS = 120
_FENCE = re.compile(
    r"```[ \t]*(?P<tag>sql\b|json\b|(?!select\b|with\b)\w+(?=[ \t\r]*\n))?"
    r"(?:[ \t\r]*\n(?P<block>.*?)(?:^[ \t]*```|```[ \t\r]*$|(?P<open>\Z))"
    r"|(?P<inline>.*?)(?:```|(?P<open_inline>\Z)))",
    re.S | re.I | re.M,
)
"""A block ends at a fence that begins or ends a line: a text in the SQL may hold one, too."""
_TILDES = re.compile(r"^[ \t]*~~~+", re.M)
_COMMENTS = r"(?:--[^\n]*\n|/\*.*?\*/)"
_FENCED_SELECT = re.compile(rf"(?:[\s(]|{_COMMENTS})*(?:select|with|from)\b", re.I | re.S)
_SELECT = re.compile(
    r"(?:^|^[^\n:`]{1,60}:)[ \t(]*(?P<sql>select\b"
    r"|with\s+(?:recursive\s+)?[\w\"`\[\]]+\s*(?:\(|as\b)"
    r"|from\s+[\w.\"]+\s+(?:\w+\s+)?select\b)",
    re.I | re.M,
)
_END = re.compile(r";[ \t]*(?:\n|\Z)")
_WORD = re.compile(r"[\w$]+")
_NAME = r"""(?:[\w$-]+|"[^"]+"|`[^`]+`|\[[^\]]+\])"""
_SOURCE = re.compile(rf"\b(?:from|join)\s+({_NAME}(?:\.{_NAME})*)", re.I)
_KEYS = ("fixed_sql", "sql", "query")


def extract_sql(reply: str, *, original: str = "", cut_off: bool = False) -> str:
    """The repaired SQL in a reply, or "".

    Order: a ``sql`` fence; any fence with JSON ``fixed_sql`` or a SELECT; JSON ``fixed_sql``
    without a fence; a bare SELECT. Of several fences the last counts that is not ``original``
    quoted back. ``cut_off`` says that the reply ended at its token limit: what has no end of its
    own is then not trusted.
    """
    text = _TILDES.sub("```", THOUGHTS.sub(" ", reply))
    if text.lstrip().startswith("{"):
        whole = _from_json(text)
        if whole:
            return extract_sql(whole, original=original) if "```" in whole else whole
    fences = _fences(text, cut_off)
    tagged = [_unwrap(body) for tag, body in fences if tag == "sql"]
    others = [
        _from_json(body) or (body if _FENCED_SELECT.match(body) else "") for _, body in fences
    ]
    for candidates in (tagged, others):
        usable = [sql for sql in candidates if sql]
        if usable:
            changed = [sql for sql in usable if sql.split() != original.split()]
            return (changed or usable)[-1]
    plain = _FENCE.sub(" ", text).strip("`* ")
    return _from_json(plain) or ("" if cut_off else _bare(plain))


def _fences(text: str, cut_off: bool) -> list[tuple[str, str]]:
    """Tag and body of every fence; a fence without an end only if the reply has its own."""
    found: list[tuple[str, str]] = []
    for fence in _FENCE.finditer(text):
        has_end = fence["open"] is None and fence["open_inline"] is None
        if has_end or not cut_off:
            body = fence["block"] if fence["block"] is not None else fence["inline"]
            found.append(((fence["tag"] or "").lower(), body.strip()))
    return found


def extract_request(reply: str) -> str:
    """The repaired request of a language whose queries are JSON objects, as text, or "".

    The last object of the reply counts, or what it holds under ``fixed_sql`` or ``query``.
    """
    found = list(objects(THOUGHTS.sub(" ", reply)))
    if not found:
        return ""
    inner: Any = next((found[-1][key] for key in _KEYS if key in found[-1]), found[-1])
    if isinstance(inner, str):
        return inner.strip()
    return json.dumps(inner, ensure_ascii=False) if isinstance(inner, dict) and inner else ""


def describe_tables(sql: str, tables: Sequence[Table]) -> str:
    """Schema lines for the tables that ``sql`` names, and near names for those that do not exist.

    Without any match, the names of the first tables are listed, so that a wrong name can be mended.
    """
    words = {word.casefold() for word in _WORD.findall(sql)}
    lowered = sql.casefold()
    named = [t for t in tables if _mentions(t.name, words, lowered)]
    lines = [_line(table) for table in named[:MAX_TABLES]]
    known = {_bare_name(t.name) for t in named}
    bare = {_bare_name(t.name): t.name for t in tables}
    for asked in dict.fromkeys(_bare_name(m) for m in _SOURCE.findall(sql)):
        near = difflib.get_close_matches(asked, bare, n=5, cutoff=0.5) if asked not in known else []
        if near:
            lines.append(f"near {asked}: {', '.join(bare[name] for name in near)}")
    if not lines:
        return "tables: " + ", ".join(t.name for t in tables[: MAX_TABLES * 5])
    return "\n".join(lines)


def _mentions(table: str, words: set[str], lowered: str) -> bool:
    name = _bare_name(table)
    return name in words if _WORD.fullmatch(name) else name in lowered


def _bare_name(qualified: str) -> str:
    return qualified.rsplit(".", 1)[-1].strip('`"[]').casefold()


def _line(table: Table) -> str:
    columns = ", ".join(f"{c.name} {c.type}" for c in table.columns[:MAX_COLUMNS])
    more = len(table.columns) - MAX_COLUMNS
    return f"{table.name}: {columns}{f', and {more} more' if more > 0 else ''}"


def _from_json(text: str) -> str:
    found: Iterable[dict[str, Any]] = objects(text)
    values: list[str] = []
    for item in found:
        named = {key.lower(): value for key, value in item.items()}
        values += [named[key] for key in _KEYS if isinstance(named.get(key), str)]
    return values[-1].strip() if values else ""


def _unwrap(body: str) -> str:
    return _from_json(body) if body.startswith("{") else body


def _bare(text: str) -> str:
    start = _SELECT.search(text)
    if start is None:
        return ""
    rest = text[_opening(text, start) :]
    end = _END.search(rest)
    return rest[: end.start() if end else len(rest)].strip()


def _opening(text: str, found: re.Match[str]) -> int:
    """Where the SQL begins: at its word, or at the brackets before it."""
    start = found.start("sql")
    while start > found.start() and text[start - 1] in "( \t":
        start -= 1
    return start
