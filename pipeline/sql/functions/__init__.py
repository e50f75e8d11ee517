"""Names of harmless functions, one file a dialect: what sqlglot does not know or would rename.

They are read when this module is loaded, since a guard may run on an event loop.

A file holds names parted by white space; ``#`` starts a comment, and ``[table]`` starts the part
with functions that may stand where a table stands. None of them reads a table, a file or the
network by itself, changes state or waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files


def words(text: str) -> frozenset[str]:
    """The words of a text, for lists that read better as lines."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class FunctionNames:
    scalar: frozenset[str]
    table: frozenset[str]
    """May stand in FROM; they compute rows from their arguments alone."""


def function_names(dialect: str) -> FunctionNames:
    """The lists of a dialect, in lower case. Raises ``KeyError`` for an unknown one."""
    return _LISTS[dialect]


def _parse(text: str) -> FunctionNames:
    lines = [line.partition("#")[0] for line in text.splitlines()]
    scalar, _, table = "\n".join(lines).lower().partition("[table]")
    tables = words(table)
    return FunctionNames(scalar=words(scalar) | tables, table=tables)


_LISTS = {
    file.name.removesuffix(".txt"): _parse(file.read_text(encoding="utf-8"))
    for file in files(__name__).iterdir()
    if file.name.endswith(".txt")
}
