"""The filters of a Cube query: conditions on members, and ``and`` / ``or`` over them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, cast

WITHOUT_VALUES = ("set", "notSet")
OPERATORS = (
    "equals",
    "notEquals",
    "contains",
    "notContains",
    "startsWith",
    "notStartsWith",
    "endsWith",
    "notEndsWith",
    "gt",
    "gte",
    "lt",
    "lte",
    "inDateRange",
    "notInDateRange",
    "onTheDate",
    "beforeDate",
    "beforeOrOnDate",
    "afterDate",
    "afterOrOnDate",
    *WITHOUT_VALUES,
)
_SIGNS = {
    "=": "equals",
    "eq": "equals",
    "ne": "notEquals",
    "neq": "notEquals",
    "==": "equals",
    "in": "equals",
    "!=": "notEquals",
    "<>": "notEquals",
    "notin": "notEquals",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
    "isnull": "notSet",
    "isnotnull": "set",
}
MAX_DEPTH = 10
EXAMPLE = '{"member": "orders.status", "operator": "equals", "values": ["shipped"]}'


class FilterProblem(Exception):
    """A filter that cannot be sent; the text says what to write instead."""


def read_filter(item: Any, known: Callable[[str], bool], depth: int = 0) -> dict[str, Any]:
    """The filter as it is sent: operators by their own names, values as texts.

    ``known`` says whether a member exists (and tells the model when it does not). Raises
    ``FilterProblem``.
    """
    if not isinstance(item, dict):
        raise FilterProblem(f"a filter must be an object such as {EXAMPLE}")
    entry = cast("dict[str, Any]", item)
    for word in ("and", "or"):
        if set(entry) == {word}:
            return {word: _several(entry[word], word, known, depth)}
    unknown = set(entry) - {"member", "dimension", "operator", "values"}
    name = entry.get("member", entry.get("dimension"))
    if unknown or not isinstance(name, str) or not name.strip():
        raise FilterProblem(f"a filter has member, operator and values, such as {EXAMPLE}")
    operator = _operator(entry.get("operator"))
    known(name.strip())
    condition: dict[str, Any] = {"member": name.strip(), "operator": operator}
    if operator in WITHOUT_VALUES:
        return condition
    return condition | {"values": _values(entry.get("values"), operator)}


def _several(
    value: Any, word: str, known: Callable[[str], bool], depth: int
) -> list[dict[str, Any]]:
    given = cast("list[Any]", value) if isinstance(value, list) else []
    if not given or depth >= MAX_DEPTH:
        what = f"nested deeper than {MAX_DEPTH} levels" if given else "no list of filters"
        raise FilterProblem(f"the filter {word!r} is {what}; write it as a list of {EXAMPLE}")
    return [read_filter(item, known, depth + 1) for item in given]


def _operator(value: Any) -> str:
    if isinstance(value, str):
        if value in OPERATORS:
            return value
        plain = value.lower().replace("_", "").replace(" ", "")
        folded = {operator.lower(): operator for operator in OPERATORS} | _SIGNS
        if plain in folded:
            return folded[plain]
        near = difflib.get_close_matches(plain, folded, n=1, cutoff=0.7)
        if near:
            raise FilterProblem(
                f"there is no filter operator {value!r}; did you mean {folded[near[0]]!r}?"
            )
    raise FilterProblem(
        f"there is no filter operator {value!r}; the operators are {', '.join(OPERATORS)}"
    )


def _values(value: Any, operator: str) -> list[str | None]:
    given = cast("list[Any]", value) if isinstance(value, list) else [value]
    if value is None or not given:
        raise FilterProblem(f"the filter operator {operator!r} needs a list of values")
    if any(isinstance(item, list | dict) for item in given):
        raise FilterProblem(f"the values of a filter must be plain, such as {EXAMPLE}")
    return [item if item is None else _text(item) for item in given]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
