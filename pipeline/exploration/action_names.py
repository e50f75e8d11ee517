"""Names under which models ask for an action: keys, names of tools, tool-use envelopes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

from pipeline.errors import ActionError
from pipeline.replies import Broken, Object, read


class ActionKind(StrEnum):
    QUERY = "query"
    LOOKUP_SCHEMA = "lookup_schema"
    SEARCH_TABLES = "search_tables"
    GET_CORRELATIONS = "get_correlations"
    DONE = "done"


_NAMES: Mapping[str, ActionKind] = {
    "query": ActionKind.QUERY,
    "querydata": ActionKind.QUERY,
    "querywarehouse": ActionKind.QUERY,
    "runquery": ActionKind.QUERY,
    "runsql": ActionKind.QUERY,
    "executequery": ActionKind.QUERY,
    "executesql": ActionKind.QUERY,
    "sql": ActionKind.QUERY,
    "lookupschema": ActionKind.LOOKUP_SCHEMA,
    "searchtables": ActionKind.SEARCH_TABLES,
    "getcorrelations": ActionKind.GET_CORRELATIONS,
    "complete": ActionKind.DONE,
    "done": ActionKind.DONE,
    "finish": ActionKind.DONE,
}
"""Names of tools and of the legacy ``action``, without signs between the words."""
DIRECT = ("query", "lookup_schema", "search_tables", "get_correlations")
KEYS = (*DIRECT, "done", "action")
TOOL = ("name", "tool", "tool_name")
CALLS = ("tool_calls", "tool_call", "tool_use", "function_call")
"""Keys that providers put round a tool-use envelope, or round a list of them."""
ARGUMENTS = ("input", "arguments", "parameters", "args", "tool_input", "action_input")


def plain_keys(item: Object) -> Object:
    """Keys such as ``Query`` are read as ``query``, unless that is there too."""
    if not any(key not in _KNOWN_KEYS and key.strip().lower() in _KNOWN_KEYS for key in item):
        return item
    return {key.strip().lower(): item[key] for key in item} | item


_KNOWN_KEYS = frozenset(
    {*KEYS, *TOOL, *CALLS, *ARGUMENTS, "function", "rationale", "thinking", "query_purpose"}
    | {"datasource_id", "search_top_k", "summary", "sql", "tables"}
)


def kind_of(name: str) -> ActionKind | None:
    """The action of a name such as ``query_data``, ``Query-Data`` or ``functions.query_data``."""
    return _NAMES.get(re.sub(r"[^a-z]", "", name.lower().rpartition(".")[2]))


def envelope_of(item: Object) -> tuple[str, Object] | None:
    """Name and arguments of a tool-use envelope; with ``tool`` the arguments may sit beside it.

    Of a list of ``tool_calls`` the last counts, as of any objects in a reply.
    """
    item = next((called for key in CALLS if (called := _last_object(item.get(key)))), item)
    holder = object_of(item.get("function")) or item
    name = next((holder[key] for key in TOOL if isinstance(holder.get(key), str)), None)
    key = next((key for key in ARGUMENTS if key in holder), None)
    if name is not None and key is not None:
        return name, arguments_of(holder[key], kind_of(name))
    tool = item.get("tool")
    return (tool, item) if isinstance(tool, str) else None


def arguments_of(value: Any, kind: ActionKind | None) -> Object:
    """The arguments of a tool: an object, an object written as text, or the only argument."""
    if kind is not None and isinstance(value, str) and value.lstrip().startswith("{"):
        value = read(value)
        if isinstance(value, Broken):
            raise ActionError("the tool's arguments are not valid JSON; send them as an object")
    if isinstance(value, dict):
        return plain_keys(cast("Object", value))
    if kind is None or kind is ActionKind.DONE or not value:
        return {}
    return {kind.value: value}


def object_of(value: Any) -> Object | None:
    return cast("Object", value) if isinstance(value, dict) else None


def _last_object(value: Any) -> Object | None:
    return object_of(cast("list[Any]", value)[-1] if isinstance(value, list) and value else value)
