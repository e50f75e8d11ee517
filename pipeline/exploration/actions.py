"""The action grammar of exploration, and a tolerant reader for what models really send.

Legal replies are one JSON object each: ``query``, ``lookup_schema``, ``search_tables``,
``get_correlations`` or ``done``. Also read: the legacy ``action`` key and tool-use envelopes
(``{"name": …, "input": {…}}``). When a reply holds several objects the last one that carries an
action counts; when that one is cut off or malformed, the reply is refused.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pipeline.errors import ActionError
from pipeline.exploration.action_names import (
    ARGUMENTS,
    DIRECT,
    KEYS,
    TOOL,
    ActionKind,
    arguments_of,
    envelope_of,
    kind_of,
    object_of,
    plain_keys,
)
from pipeline.replies import Broken, Object, Scan, after_last_thought, read, scan

DEFAULT_TOP_K = 10
MAX_TOP_K = 30
MAX_NAME = 2_048
"""Characters; no warehouse has longer qualified names."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action of the exploring model; only the fields of its ``kind`` are filled."""

    kind: ActionKind
    rationale: str = ""
    datasource_id: str = ""
    """Empty means the primary datasource."""
    query: str = ""
    query_purpose: str = ""
    lookup_schema: list[str] = field(default_factory=list[str])
    """Table names as asked, without repeats; at least one."""
    search_tables: str = ""
    search_top_k: int = DEFAULT_TOP_K
    """1 to 30."""
    get_correlations: dict[str, str] = field(default_factory=dict[str, str])
    """Exactly ``a`` and ``b``, two datasource ids."""
    done: bool = False
    summary: str = ""

    @property
    def tables(self) -> list[str]:
        """The tables of a ``lookup_schema``."""
        return self.lookup_schema

    @property
    def text(self) -> str:
        """The text of a ``search_tables``."""
        return self.search_tables


class NoJson(ActionError):
    """The reply holds no JSON object at all."""


class NoAction(ActionError):
    """The reply holds JSON, but no object that asks for something."""


def parse_action(reply: str, *, object_sources: Collection[str] = ()) -> Action:
    """Read the action of one assistant turn.

    ``object_sources`` are ids of datasources whose queries are JSON: for them ``query`` may be an
    object, which becomes its text. Everywhere else an object is refused.

    Raises ``ActionError`` whose reason says what was wrong and what to send; ``NoJson`` and
    ``NoAction`` are the two special cases of it. Never raises anything else.
    """
    if not isinstance(reply, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a seam
        raise NoJson(f"the reply is not text; {_SEND}")
    scanned = scan(reply)
    chosen = _choose(scanned)
    if not isinstance(chosen, dict) and (tail := after_last_thought(reply)) is not None:
        chosen = _choose(scan(tail)) or chosen
    if isinstance(chosen, Broken):
        raise ActionError(_CUT_OFF if chosen.cut_off else _MALFORMED)
    if chosen is None:
        raise _nothing_usable(scanned)
    return _read(chosen, object_sources)


# ---------------------------------------------------------------- what a refusal says

_EXAMPLE = 'for example {"rationale": "...", "query": "SELECT ..."}'
_SEND = f"send one JSON object, {_EXAMPLE}"
_CUT_OFF = (
    "the JSON object is cut off or a brace is missing; "
    "send the whole object again, shorter if need be"
)
_MALFORMED = (
    "the JSON object is malformed (double quotes round all keys and strings, no comments, "
    "no trailing commas); send it again as valid JSON"
)
_NOT_DONE = '"done" must be exactly true to finish; to go on, send another action instead'


def _unknown(name: str) -> str:
    return f"there is no action {_text(name)[:60]!r}; send one of the legal shapes"


def _what(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "missing" if value is None else "not text"


# ---------------------------------------------------------------- choosing the object

_MAY_ASK = re.compile("|".join((*KEYS, *TOOL, r"\\u")), re.I)
_ACTION_KEY = re.compile(rf"""[{{,]\s*["']?(?:{"|".join(KEYS)})["']?\s*:""", re.I)
_SQL_START = re.compile(
    r"[\s(]*(?:select\b|with\s+(?:recursive\s+)?[\w\"`\[\]]+\s*(?:\(|as\b))", re.I
)
_BLANK = string.whitespace + "\0\u00a0\u200b\u200c\u200d\u2060\u3000\ufeff"
_LOOKED_AT = 100
"""Objects from the end that a refusal is worded by."""


def _choose(scanned: Scan) -> Object | Broken | None:
    outside = _last_request(scanned)
    if outside is not None or not scanned.reasoning:
        return outside
    return _last_request(scan(scanned.reasoning))


def _last_request(scanned: Scan) -> Object | Broken | None:
    for piece in reversed(scanned.pieces):
        if isinstance(piece, str) and not _MAY_ASK.search(piece):
            continue
        item = read(piece)
        if isinstance(item, Broken):
            if item.cut_off or _ACTION_KEY.search(item.text):
                return item
        elif _asks(item := plain_keys(item)):
            return item
    return None


def _asks(item: Object) -> bool:
    """True when the object carries an action key with a value; ``done: false`` asks nothing."""
    if item.get("done") not in (None, False) or item.get("action") is not None:
        return True
    envelope = envelope_of(item)
    if envelope is not None and kind_of(envelope[0]) is not None:
        return True
    return any(item.get(key) is not None for key in DIRECT)


def _nothing_usable(scanned: Scan) -> ActionError:
    pieces = scanned.pieces or scan(scanned.reasoning).pieces
    if not pieces:
        return NoJson(f"the reply holds no JSON object; {_SEND}")
    newest = (read(piece) for piece in pieces[: -_LOOKED_AT - 1 : -1])
    last = next((plain_keys(item) for item in newest if not isinstance(item, Broken)), None)
    if last is None:
        return ActionError(_MALFORMED)
    if "done" in last:
        return NoAction(_NOT_DONE)
    if (envelope := envelope_of(last)) is not None:
        return NoAction(_unknown(envelope[0]))
    named = next((key for key in DIRECT if key in last), None)
    if named is not None:
        return NoAction(f'"{named}" is null; fill it or send another action')
    return NoAction(
        "the JSON object has none of the action keys (query, lookup_schema, search_tables, done)"
    )


# ---------------------------------------------------------------- reading the object


def _read(item: Object, object_sources: Collection[str]) -> Action:
    """Precedence: done > query > lookup_schema > search_tables > get_correlations > the others.

    Empty values give way to a filled action beside them, because some models send every key.
    """
    kind, arguments = _requested(item)
    source = _first_text((arguments, item), "datasource_id")
    if kind is ActionKind.QUERY:
        arguments = _with_text(arguments, source, object_sources)
    return replace(
        _READERS[kind](arguments),
        rationale=_first_text((item, arguments), "rationale", "thinking"),
        datasource_id=source,
    )


def _with_text(arguments: Object, source: str, object_sources: Collection[str]) -> Object:
    """The arguments of a query, an object in it written out where its datasource takes objects."""
    value = object_of(_asked(arguments))
    if not value or not object_sources:
        return arguments
    if source in object_sources:
        return arguments | {"query": _text(value)}
    takers = ", ".join(sorted(object_sources))
    raise ActionError(
        f'"query" is an object, which only these datasources take: {takers}; name one of them as '
        '"datasource_id", or send the whole query as one JSON string'
    )


def _requested(item: Object) -> tuple[ActionKind, Object]:
    if item.get("done") is True:
        return ActionKind.DONE, item
    keys = [key for key in DIRECT if item.get(key) is not None]
    filled = [key for key in keys if not _is_empty(item[key])]
    if filled and not _is_legacy_search(item):
        return ActionKind(filled[0]), item
    named = envelope_of(item) or _legacy(item)
    if keys and (named is None or kind_of(named[0]) is None):
        return ActionKind(keys[0]), item
    if named is None:
        raise ActionError(_NOT_DONE)
    kind = kind_of(named[0])
    if kind is None:
        raise ActionError(_unknown(named[0]))
    return kind, named[1]


def _is_empty(value: Any) -> bool:
    return not value.strip(_BLANK) if isinstance(value, str) else value in ([], {})


def _legacy(item: Object) -> tuple[str, Object] | None:
    """Name and arguments of a legacy ``action``, whose arguments may sit beside it or below."""
    action = item.get("action")
    if action is None:
        return None
    if not isinstance(action, str):
        raise ActionError('"action" must be the name of an action; send one of the legal shapes')
    nested = next((item[key] for key in ARGUMENTS if _is_object(item.get(key))), None)
    return action, item if nested is None else arguments_of(nested, kind_of(action))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))


def _is_legacy_search(item: Object) -> bool:
    """True for ``{"action": "search_tables", "query": "words, not SQL"}``."""
    action, query = item.get("action"), item.get("query")
    if not isinstance(action, str) or not isinstance(query, str):
        return False
    return kind_of(action) is ActionKind.SEARCH_TABLES and not _SQL_START.match(query)


def _asked(arguments: Object) -> Any:
    values = [arguments[key] for key in ("query", "sql") if arguments.get(key) is not None]
    return next((value for value in values if not _is_empty(value)), values[0] if values else None)


def _query(arguments: Object) -> Action:
    value = _asked(arguments)
    if not isinstance(value, str):
        raise ActionError(
            f'"query" is {_what(value)}; send the whole query as one JSON string, {_EXAMPLE}'
        )
    query = value.strip()
    if _is_empty(query):
        raise ActionError(f'"query" is empty; send the whole query as one JSON string, {_EXAMPLE}')
    if query != _text(query):
        raise ActionError('"query" holds characters that are not valid text; write it without them')
    purpose = _first_text((arguments,), "query_purpose", "purpose")
    return Action(kind=ActionKind.QUERY, query=query, query_purpose=purpose)


def _lookup(arguments: Object) -> Action:
    keys = ("lookup_schema", "tables", "table_names", "table")
    value = _first(arguments, *keys)
    if isinstance(value, dict):
        value = _first(cast("Object", value), *keys)
    names = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        names = []
    tables = list(dict.fromkeys(stripped for name in names if (stripped := _text(name).strip())))
    if not tables:
        raise ActionError(
            '"lookup_schema" must be a list of table names, '
            'for example {"lookup_schema": ["dataset.table"]}'
        )
    if any(len(name) > MAX_NAME for name in tables):
        raise ActionError('"lookup_schema" holds a text too long for a name; send table names only')
    return Action(kind=ActionKind.LOOKUP_SCHEMA, lookup_schema=tables)


def _search(arguments: Object) -> Action:
    keys = ("search_tables", "query", "text")
    value = _first(arguments, *keys)
    if isinstance(value, dict):
        arguments = cast("Object", value)
        value = _first(arguments, *keys)
    text = _text(value).strip() if isinstance(value, str) else ""
    if not text:
        raise ActionError(
            '"search_tables" must be a text that says what to look for, '
            'for example {"search_tables": "orders and their payments"}'
        )
    top_k = _top_k(arguments.get("search_top_k", arguments.get("top_k")))
    return Action(kind=ActionKind.SEARCH_TABLES, search_tables=text, search_top_k=top_k)


def _correlations(arguments: Object) -> Action:
    pair = object_of(arguments.get("get_correlations", arguments)) or {}
    a, b = pair.get("a"), pair.get("b")
    if not (isinstance(a, str) and isinstance(b, str) and a.strip() and b.strip()):
        raise ActionError(
            '"get_correlations" must name two datasources, '
            'for example {"get_correlations": {"a": "one", "b": "other"}}'
        )
    between = {"a": _text(a).strip(), "b": _text(b).strip()}
    return Action(kind=ActionKind.GET_CORRELATIONS, get_correlations=between)


def _done(arguments: Object) -> Action:
    if arguments.get("done", True) is not True:
        raise ActionError(_NOT_DONE)
    summary = _first_text((arguments,), "summary", "reason", "message")
    return Action(kind=ActionKind.DONE, done=True, summary=summary)


_READERS: Mapping[ActionKind, Callable[[Object], Action]] = {
    ActionKind.QUERY: _query,
    ActionKind.LOOKUP_SCHEMA: _lookup,
    ActionKind.SEARCH_TABLES: _search,
    ActionKind.GET_CORRELATIONS: _correlations,
    ActionKind.DONE: _done,
}


# ---------------------------------------------------------------- reading values


def _first(item: Object, *keys: str) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _first_text(holders: tuple[Object, ...], *keys: str) -> str:
    for holder in holders:
        for key in keys:
            value = holder.get(key)
            if value is not None and value != "":
                return _text(value).strip()
    return ""


def _text(value: Any) -> str:
    """Any JSON value as text that can be encoded."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""
    return encodable(text)


def encodable(text: str) -> str:
    """``text`` with U+FFFD in place of half a surrogate pair, which nothing can send or store."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _top_k(value: Any) -> int:
    try:
        number = DEFAULT_TOP_K if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        number = DEFAULT_TOP_K
    return max(1, min(MAX_TOP_K, number))
