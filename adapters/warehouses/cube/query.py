"""A Cube query as a model writes it, checked against the data model before it is sent.

Only the keys below are passed on, and only as names of the data model and plain values, so that a
query can do nothing but read: no member expression, no join hint, no forced refresh.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from adapters.warehouses.cube.filters import FilterProblem, read_filter
from adapters.warehouses.cube.model import CubeModel, Member, MemberKind
from pipeline.errors import QueryFailed

KEYS = (
    "measures",
    "dimensions",
    "timeDimensions",
    "filters",
    "segments",
    "order",
    "limit",
    "offset",
    "timezone",
    "ungrouped",
)
EXAMPLE = (
    '{"measures": ["orders.count"], "dimensions": ["orders.status"], '
    '"order": {"orders.count": "desc"}, "limit": 100}'
)
MAX_PROBLEMS = 5
_FENCED = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")
_NOT_MEMBERS = {
    "compareDateRange": "ask for one date range at a time",
    "renewQuery": "leave it out; results may come from Cube's cache",
    "total": "leave it out, and ask a second query for a total",
}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: the key that Cube gives it, and the member behind it."""

    name: str
    member: Member


@dataclass(frozen=True, slots=True)
class CubeQuery:
    """A query that the data model allows."""

    body: dict[str, Any]
    """As it is sent, without any limit of our own."""
    columns: tuple[ResultColumn, ...]
    """Dimensions, time dimensions with their granularity, measures."""

    @property
    def text(self) -> str:
        """The query as it is stored and shown."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def limit(self) -> int | None:
        return self.body.get("limit")


def read_query(text: str, model: CubeModel) -> CubeQuery:
    """Parse and check a query. Raises ``QueryFailed`` with every problem found (up to five), each
    with what to write instead."""
    return _Reader(text, model).read(_parse(text))


def _parse(text: str) -> Mapping[str, Any]:
    stripped = text.strip()
    fenced = _FENCED.fullmatch(stripped)
    if fenced:
        stripped = fenced.group(1).strip()
    try:
        value: Any = json.loads(stripped)
    except (ValueError, RecursionError):
        value = None
        if not stripped.startswith("{"):
            raise QueryFailed(
                "this datasource is a cube and takes no SQL; send a JSON request such as "
                f"{EXAMPLE}",
                text,
            ) from None
    if not isinstance(value, dict):
        what = "is not valid JSON" if value is None else "must be one JSON object"
        raise QueryFailed(f"the query {what}; send a request such as {EXAMPLE}", text)
    if _HALF.search(json.dumps(value, ensure_ascii=False)):
        raise QueryFailed("the query holds characters that are not valid text", stripped)
    request = cast("dict[str, Any]", value)
    inner = request.get("query")
    return (
        cast("dict[str, Any]", inner)
        if set(request) == {"query"} and isinstance(inner, dict)
        else request
    )


@dataclass(slots=True)
class _Reader:
    text: str
    model: CubeModel
    problems: list[str] = field(default_factory=list[str])

    def read(self, request: Mapping[str, Any]) -> CubeQuery:
        self._check_keys(request)
        measures = self._names(request, "measures", MemberKind.MEASURE)
        plain, timed = self._dimensions(request)
        times = [*timed, *self._time_dimensions(request)]
        body: dict[str, Any] = {
            "measures": [member.name for member in measures],
            "dimensions": [member.name for member in plain],
            "timeDimensions": times,
            "filters": self._filters(request),
            "segments": [m.name for m in self._names(request, "segments", MemberKind.SEGMENT)],
            "order": self._order(request),
            "limit": self._whole(request, "limit", least=1),
            "offset": self._whole(request, "offset", least=0),
            **self._plain_options(request),
        }
        grouped = [entry for entry in times if entry.get("granularity")]
        if not self.problems and not (measures or plain or grouped):
            self._say(
                "the query asks for nothing: name measures, dimensions, or a time dimension with "
                "a granularity"
            )
        if self.problems:
            self._refuse()
        columns = [
            *(ResultColumn(member.name, member) for member in plain),
            *(self._time_column(entry) for entry in grouped),
            *(ResultColumn(member.name, member) for member in measures),
        ]
        kept = {key: value for key, value in body.items() if value not in (None, [], {})}
        if "order" in request and not body["order"]:
            kept["order"] = []
        return CubeQuery(kept, tuple({column.name: column for column in columns}.values()))

    def _refuse(self) -> NoReturn:
        more = len(self.problems) - MAX_PROBLEMS
        told = "; ".join(self.problems[:MAX_PROBLEMS])
        raise QueryFailed(f"{told}; and {more} more problems" if more > 0 else told, self.text)

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def _check_keys(self, request: Mapping[str, Any]) -> None:
        for key in request:
            if key in KEYS:
                continue
            near = difflib.get_close_matches(key, KEYS, n=1)
            advice = _NOT_MEMBERS.get(key) or (
                f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(KEYS)}"
            )
            self._say(f"a request has no key {key!r}: {advice}")

    # ------------------------------------------------------------ members

    def _names(self, request: Mapping[str, Any], key: str, kind: MemberKind) -> list[Member]:
        members = [self._member(name, kind) for name in self._texts(request, key)]
        return list({m.name: m for m in members if m is not None}.values())

    def _texts(self, request: Mapping[str, Any], key: str) -> list[str]:
        value = request.get(key)
        if value is None:
            return []
        given = cast("list[Any]", value) if isinstance(value, list) else [value]
        names = [item.strip() for item in given if isinstance(item, str) and item.strip()]
        if len(names) < len(given):
            self._say(f"{key!r} must be a list of names such as {self._some(key)}")
        return names

    def _some(self, key: str) -> str:
        kind = {"measures": MemberKind.MEASURE, "segments": MemberKind.SEGMENT}.get(key)
        names = self.model.of_kind(kind or MemberKind.DIMENSION)
        return json.dumps(names[:2] or ["cube.member"], ensure_ascii=False)

    def _member(self, name: str, *kinds: MemberKind) -> Member | None:
        found = self.model.members.get(name)
        if found is not None and found.kind in kinds:
            return found
        wanted = " or ".join(kinds)
        if found is not None:
            place = "segments" if found.kind is MemberKind.SEGMENT else f"{found.kind}s"
            self._say(f"{name!r} is a {found.kind}, not a {wanted}: put it under {place!r}")
            return None
        near = self.model.near(name, kinds)
        advice = f"near names: {', '.join(near)}" if near else "see the catalog for its members"
        self._say(f"there is no {wanted} {name!r}; {advice}")
        return None

    def _dimensions(self, request: Mapping[str, Any]) -> tuple[list[Member], list[dict[str, Any]]]:
        """Plain dimensions, and those written ``cube.time.month``."""
        plain: dict[str, Member] = {}
        timed: list[dict[str, Any]] = []
        for name in self._texts(request, "dimensions"):
            stem, _, granularity = name.rpartition(".")
            base = self.model.members.get(stem)
            if name not in self.model.members and base is not None and base.type == "time":
                timed += self._timed(base, granularity, {})
                continue
            member = self._member(name, MemberKind.DIMENSION)
            if member is not None:
                plain[name] = member
        return list(plain.values()), timed

    def _time_dimensions(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        value = request.get("timeDimensions")
        given = cast("list[Any]", value) if isinstance(value, list) else [value] if value else []
        entries: list[dict[str, Any]] = []
        for item in given:
            entry = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
            if not isinstance(entry.get("dimension"), str):
                self._say(
                    "'timeDimensions' must be a list of objects such as "
                    '{"dimension": "orders.created_at", "granularity": "month", '
                    '"dateRange": ["2024-01-01", "2024-12-31"]}'
                )
                continue
            entries += self._time_dimension(entry)
        return entries

    def _time_dimension(self, item: Mapping[str, Any]) -> list[dict[str, Any]]:
        for key in set(item) - {"dimension", "granularity", "dateRange"}:
            advice = _NOT_MEMBERS.get(key, "its keys are dimension, granularity and dateRange")
            self._say(f"a time dimension has no key {key!r} here: {advice}")
        member = self._member(item["dimension"].strip(), MemberKind.DIMENSION)
        if member is None:
            return []
        if member.type != "time":
            self._say(
                f"{member.name!r} is of type {member.type}, not time: put it under 'dimensions'"
            )
            return []
        extra: dict[str, Any] = {}
        if item.get("dateRange") is not None:
            extra["dateRange"] = self._date_range(item["dateRange"])
        return self._timed(member, item.get("granularity"), extra)

    def _timed(
        self, member: Member, granularity: Any, extra: dict[str, Any]
    ) -> list[dict[str, Any]]:
        entry: dict[str, Any] = {"dimension": member.name}
        if granularity is not None:
            if granularity not in member.granularities:
                known = ", ".join(sorted(member.granularities))
                self._say(f"{member.name!r} has no granularity {granularity!r}; it has {known}")
                return []
            entry["granularity"] = granularity
        return [entry | extra]

    def _date_range(self, value: Any) -> str | list[str] | None:
        if isinstance(value, str) and value.strip():
            return value.strip()
        given = cast("list[Any]", value) if isinstance(value, list) else []
        if 1 <= len(given) <= 2 and all(isinstance(item, str) and item.strip() for item in given):
            return [item.strip() for item in cast("list[str]", given)]
        self._say(
            '\'dateRange\' must be two dates such as ["2024-01-01", "2024-12-31"], or a text such '
            'as "last month"'
        )
        return None

    def _time_column(self, entry: Mapping[str, Any]) -> ResultColumn:
        name = f"{entry['dimension']}.{entry['granularity']}"
        return ResultColumn(name, self.model.members[entry["dimension"]])

    # ------------------------------------------------------------ the other keys

    def _filters(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        value = request.get("filters")
        given = cast("list[Any]", value) if isinstance(value, list) else [value] if value else []
        filters: list[dict[str, Any]] = []
        for item in given:
            try:
                filters.append(read_filter(item, self._filtered))
            except FilterProblem as problem:
                self._say(str(problem))
        return filters

    def _filtered(self, name: str) -> bool:
        return self._member(name, MemberKind.MEASURE, MemberKind.DIMENSION) is not None

    def _order(self, request: Mapping[str, Any]) -> list[list[str]]:
        """As pairs, whose order is certain to survive."""
        pairs: list[list[str]] = []
        for name, direction in self._order_pairs(request.get("order")):
            stem, _, granularity = name.rpartition(".")
            base = self.model.members.get(stem)
            timed = base is not None and granularity in base.granularities
            if not timed and not self._filtered(name):
                continue
            if str(direction).lower() not in ("asc", "desc"):
                self._say(f'the order of {name!r} must be "asc" or "desc"')
                continue
            pairs.append([stem if timed else name, str(direction).lower()])
        return pairs

    def _order_pairs(self, value: Any) -> list[tuple[str, Any]]:
        if value is None:
            return []
        if isinstance(value, dict):
            return list(cast("dict[str, Any]", value).items())
        given = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs = [pair for item in given for pair in _pairs_of(item)]
        if len(pairs) < len(given):
            self._say('\'order\' must be an object such as {"orders.count": "desc"}')
        return pairs

    def _whole(self, request: Mapping[str, Any], key: str, *, least: int) -> int | None:
        value = request.get(key)
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self._say(f"{key!r} must be a whole number from {least} on")
            return None
        return value

    def _plain_options(self, request: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        timezone, ungrouped = request.get("timezone"), request.get("ungrouped")
        if timezone is not None and not (isinstance(timezone, str) and timezone.strip()):
            self._say("'timezone' must be a name such as \"Europe/Berlin\"")
        elif timezone:
            options["timezone"] = timezone.strip()
        if ungrouped is not None and not isinstance(ungrouped, bool):
            self._say("'ungrouped' must be true or false")
        elif ungrouped:
            options["ungrouped"] = True
        return options


def _pairs_of(item: Any) -> Sequence[tuple[str, Any]]:
    """``["a.b", "desc"]``, ``{"id": "a.b", "desc": true}`` or an object of one key."""
    if isinstance(item, list) and len(cast("list[Any]", item)) == 2:
        name, direction = cast("list[Any]", item)
        return [(name, direction)] if isinstance(name, str) else []
    if not isinstance(item, dict):
        return []
    entry = cast("dict[str, Any]", item)
    if isinstance(entry.get("id"), str):
        return [(entry["id"], "desc" if entry.get("desc") is True else "asc")]
    return list(entry.items()) if len(entry) == 1 else []
