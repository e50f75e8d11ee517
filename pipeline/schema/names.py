"""Qualified names of tables: how they are written, taken apart and compared.

``dataset.table``, and a part that holds a dot, or begins with a quote, in double quotes:
``main."data.csv"``. A name that was written otherwise is taken apart at its first dots.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

THREE_PARTS = frozenset({"bigquery", "snowflake", "databricks"})
"""Dialects whose table names may have a catalogue in front of the schema."""
_LISTED = re.compile(r'"(?:[^"]|"")*"(?=\.|\Z)|[^.]*')
_WRITTEN = re.compile(r'\s*("(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])\s*(?=\.|\Z)|[^.]*')
_AROUND = " \t\r\n\"'`[]"


def spelled(parts: Sequence[str]) -> str:
    """The qualified name of a table."""
    return ".".join(_quoted(part) if "." in part or part[:1] == '"' else part for part in parts)


def parts_of(name: str, dialect: str = "duckdb") -> tuple[str, ...]:
    """Schema and table (a catalogue before them where the dialect has one) of a name that a
    warehouse listed; the last part keeps dots that stand outside of quotes."""
    most = 3 if dialect in THREE_PARTS else 2
    parts: list[str] = []
    rest = name
    while len(parts) < most - 1:
        head, dot, tail = _first(rest, _LISTED)
        if not dot:
            break
        parts.append(_bared(head))
        rest = tail
    return (*parts, _bared(rest))


def bare(name: str) -> str:
    """What stands after the last dot outside of quotes."""
    return pieces(name)[-1]


def pieces(name: str) -> tuple[str, ...]:
    """A name as somebody wrote it, taken apart at every dot outside of quotes; quotes and spaces
    around the parts are gone, and letters that can be composed are."""
    parts: list[str] = []
    rest, dot = composed(name).strip(), "."
    while dot:
        head, dot, rest = _first(rest, _WRITTEN)
        parts.append(_bared(head.strip()).strip(_AROUND))
    return tuple(parts)


def composed(text: str) -> str:
    """Unicode's composed form, in which é is one character however it was typed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _first(name: str, pattern: re.Pattern[str]) -> tuple[str, str, str]:
    """The first part of a name, the dot after it, and the rest."""
    match = pattern.match(name)
    end = match.end() if match else 0
    return name[:end], name[end : end + 1], name[end + 1 :]


def _bared(part: str) -> str:
    if len(part) >= 2 and part[0] == part[-1] == '"':
        return part[1:-1].replace('""', '"')
    return part


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
