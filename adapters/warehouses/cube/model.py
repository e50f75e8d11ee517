"""What a Cube deployment offers: cubes and views, with their measures, dimensions and segments."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from pipeline.records import Column, ColumnCategory, Table, TableKind

GRANULARITIES = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
MAX_NEAR = 4
COUNTS = frozenset({"count", "countDistinct", "countDistinctApprox"})


class MemberKind(StrEnum):
    MEASURE = "measure"
    DIMENSION = "dimension"
    SEGMENT = "segment"


@dataclass(frozen=True, slots=True)
class Member:
    """A measure, a dimension or a segment."""

    name: str
    """``orders.count``."""
    kind: MemberKind
    type: str = ""
    """Of its values: number, string, time, boolean, geo …"""
    aggregate: str = ""
    """Of a measure: count, sum, avg …"""
    key: bool = False
    granularities: frozenset[str] = frozenset()
    """Of a time dimension, the standard ones included."""

    @property
    def counts(self) -> bool:
        return self.aggregate in COUNTS

    @property
    def shown_type(self) -> str:
        """The type as the catalog shows it; a measure's with its aggregate."""
        if self.kind is MemberKind.SEGMENT:
            return "segment"
        return f"{self.type} ({self.aggregate})" if self.aggregate else self.type


@dataclass(frozen=True, slots=True)
class Cube:
    """A cube or a view."""

    name: str
    kind: TableKind
    description: str
    members: tuple[Member, ...]

    def table(self, datasource_id: str) -> Table:
        """As the catalog holds it. It has no rows of its own, so their number is unknown."""
        columns = [
            Column(name=m.name, type=m.shown_type, category=_category(m)) for m in self.members
        ]
        return Table(
            datasource_id=datasource_id,
            name=self.name,
            kind=self.kind,
            columns=columns,
            description=self.description,
        )


@dataclass(frozen=True, slots=True)
class CubeModel:
    """The public part of a data model."""

    cubes: tuple[Cube, ...] = ()
    members: Mapping[str, Member] = field(default_factory=dict[str, Member])
    """By name."""

    def of_kind(self, kind: MemberKind) -> list[str]:
        return [member.name for member in self.members.values() if member.kind is kind]

    def near(self, name: str, kinds: Collection[MemberKind]) -> list[str]:
        """Names that look like ``name``, nearest first."""
        known = [member.name for member in self.members.values() if member.kind in kinds]
        bare = name.rpartition(".")[2].lower()
        same = [other for other in known if other.rpartition(".")[2].lower() == bare]
        folded = {other.lower(): other for other in known}
        close = difflib.get_close_matches(name.lower(), folded, n=MAX_NEAR, cutoff=0.6)
        return list(dict.fromkeys([*same, *(folded[other] for other in close)]))[:MAX_NEAR]


def read_model(meta: Mapping[str, Any], only: Collection[str] = ()) -> CubeModel:
    """The model in an answer of ``/v1/meta``: hidden cubes and members are left out, and with
    ``only`` all cubes and views of other names. What is malformed is passed over."""
    wanted = {name.lower() for name in only}
    cubes = sorted(
        (
            _cube(entry)
            for entry in _objects(meta.get("cubes"))
            if _public(entry) and (not wanted or _text(entry.get("name")).lower() in wanted)
        ),
        key=lambda cube: cube.name,
    )
    shown = tuple(cube for cube in cubes if cube.name and cube.members)
    return CubeModel(shown, {m.name: m for cube in shown for m in cube.members})


def _cube(entry: Mapping[str, Any]) -> Cube:
    name = _text(entry.get("name"))
    title, description = _text(entry.get("title")), _text(entry.get("description"))
    kind = TableKind.VIEW if entry.get("type") == "view" else TableKind.CUBE
    told = description or (title if _plain(title) != _plain(name) else "")
    return Cube(name, kind, " ".join(told.split()), tuple(_members(entry)))


def _members(entry: Mapping[str, Any]) -> Iterable[Member]:
    for key, kind in (
        ("measures", MemberKind.MEASURE),
        ("dimensions", MemberKind.DIMENSION),
        ("segments", MemberKind.SEGMENT),
    ):
        for item in _objects(entry.get(key)):
            name = _text(item.get("name"))
            if name and _public(item):
                yield _member(name, kind, item)


def _member(name: str, kind: MemberKind, item: Mapping[str, Any]) -> Member:
    type_name = _text(item.get("type")) or "string"
    if kind is MemberKind.SEGMENT:
        return Member(name, kind)
    if kind is MemberKind.MEASURE:
        return Member(name, kind, type_name, _text(item.get("aggType")))
    granularities: set[str] = set()
    if type_name == "time":
        custom = {_text(entry.get("name")) for entry in _objects(item.get("granularities"))}
        granularities = {*GRANULARITIES, *custom} - {""}
    key = item.get("primaryKey") is True
    return Member(name, kind, type_name, "", key, frozenset(granularities))


def _category(member: Member) -> ColumnCategory:
    if member.kind is MemberKind.MEASURE:
        return ColumnCategory.METRIC
    if member.key:
        return ColumnCategory.PRIMARY_KEY
    return ColumnCategory.TIME if member.type == "time" else ColumnCategory.DIMENSION


def _public(item: Mapping[str, Any]) -> bool:
    return item.get("public") is not False and item.get("isVisible") is not False


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _objects(value: Any) -> list[Mapping[str, Any]]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in found if isinstance(item, dict)]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
