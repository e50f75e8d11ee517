"""The data model of the Cube server, and what its queries are in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

DEFAULT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class ModelledMember:
    """A member: its short name, its expression over the table, and what ``/meta`` says of it."""

    name: str
    sql: str
    type: str
    aggregate: str = ""
    key: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class ModelledCube:
    name: str
    table: str
    description: str
    measures: Sequence[ModelledMember] = ()
    dimensions: Sequence[ModelledMember] = ()
    segments: Mapping[str, str] = field(default_factory=dict[str, str])
    view: bool = False
    hidden: bool = False

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": "view" if self.view else "cube",
            "title": self.name.replace("_", " ").title(),
            "description": self.description,
            "isVisible": not self.hidden,
            "public": not self.hidden,
            "measures": [
                self._member(m) | {"aggType": m.aggregate, "cumulative": False}
                for m in self.measures
            ],
            "dimensions": [self._member(m) | {"primaryKey": m.key} for m in self.dimensions],
            "segments": [
                {"name": f"{self.name}.{name}", "title": name, "shortTitle": name}
                for name in self.segments
            ],
        }

    def _member(self, member: ModelledMember) -> dict[str, Any]:
        return {
            "name": f"{self.name}.{member.name}",
            "title": member.name,
            "type": member.type,
            "isVisible": not member.hidden,
            "public": not member.hidden,
        }

    def member(self, name: str) -> ModelledMember | None:
        return next((m for m in (*self.measures, *self.dimensions) if m.name == name), None)


ORDERS = ModelledCube(
    "orders",
    "sales",
    "Orders of the web shop",
    measures=[
        ModelledMember("count", "count(*)", "number", "count"),
        ModelledMember("total", "sum(amount)", "number", "sum"),
        ModelledMember("mean", "avg(amount)", "number", "avg"),
        ModelledMember("latest", "max(ordered_at)", "time", "max"),
    ],
    dimensions=[
        ModelledMember("id", "id", "number", key=True),
        ModelledMember("customer_id", "customer_id", "number"),
        ModelledMember("status", "status", "string"),
        ModelledMember("paid", "paid", "boolean"),
        ModelledMember("ordered_at", "ordered_at", "time"),
        ModelledMember("secret", "status", "string", hidden=True),
    ],
    segments={"large": "amount >= 100"},
)
ORDERS_VIEW = ModelledCube(
    "order_view",
    "sales",
    "Orders by status",
    measures=ORDERS.measures[:2],
    dimensions=[ORDERS.dimensions[2]],
    view=True,
)
HIDDEN = ModelledCube("internal", "sales", "", measures=ORDERS.measures[:1], hidden=True)
# ------------------------------------------------------------ from a query to SQL


class QueryRefused(Exception):
    """The server does not understand the query."""


_COMPARED = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, slots=True)
class Translation:
    """Queries over one cube, as SQL. Values are quoted, names must be of the model."""

    cubes: Sequence[ModelledCube]
    highest_limit: int

    def sql(self, query: Mapping[str, Any]) -> str:
        dimensions = [(name, self._member(name).sql) for name in query.get("dimensions", ())]
        where: list[str] = [self._segment(name) for name in query.get("segments", ())]
        for entry in query.get("timeDimensions", ()):
            column = self._member(entry["dimension"]).sql
            if entry.get("granularity"):
                name = f"{entry['dimension']}.{entry['granularity']}"
                dimensions.append((name, f"date_trunc('{entry['granularity']}', {column})"))
            if entry.get("dateRange"):
                first, last = (entry["dateRange"] * 2)[:2]
                where.append(f"{column} >= {_text(first)} AND {column} < {_text(last)}::DATE + 1")
        measures = [(name, self._member(name).sql) for name in query.get("measures", ())]
        if not dimensions and not measures:
            raise QueryRefused("Query should contain either measures or dimensions")
        having: list[str] = []
        for item in query.get("filters", ()):
            (having if self._measured(item) else where).append(self._condition(item))
        limit = query.get("limit", DEFAULT_LIMIT)
        if limit > self.highest_limit:
            raise QueryRefused("The query limit has been exceeded.")
        shown = ", ".join(f'{sql} AS "{name}"' for name, sql in (*dimensions, *measures))
        text = f"SELECT {shown} FROM {self._table(query)}"
        if where:
            text += f" WHERE {' AND '.join(where)}"
        if dimensions:
            text += f" GROUP BY {', '.join(str(n + 1) for n in range(len(dimensions)))}"
        if having:
            text += f" HAVING {' AND '.join(having)}"
        return (
            f"{text}{self._order(query, dimensions)} LIMIT {limit} OFFSET {query.get('offset', 0)}"
        )

    def _table(self, query: Mapping[str, Any]) -> str:
        named = [*query.get("measures", ()), *query.get("dimensions", ())]
        named += [entry["dimension"] for entry in query.get("timeDimensions", ())]
        tables = {self._cube(name).table for name in named}
        if len(tables) != 1:
            raise QueryRefused("Can't find join path to join the cubes")
        return tables.pop()

    def _order(self, query: Mapping[str, Any], dimensions: Sequence[tuple[str, str]]) -> str:
        if "order" not in query:
            return " ORDER BY ALL" if dimensions else ""
        order: Any = query["order"]
        if isinstance(order, dict):
            order = list(cast("dict[str, str]", order).items())
        pairs: list[tuple[str, str]] = order
        periods = {name.rpartition(".")[0]: sql for name, sql in dimensions if name.count(".") == 2}
        terms = [
            f"{periods.get(name) or self._member(name).sql} {direction}"
            for name, direction in pairs
        ]
        return f" ORDER BY {', '.join(terms)}" if terms else ""

    def _condition(self, item: Mapping[str, Any]) -> str:
        for word in ("and", "or"):
            if word in item:
                parts = [self._condition(part) for part in item[word]]
                return f"({f' {word.upper()} '.join(parts)})"
        column, operator = self._member(item["member"]).sql, item["operator"]
        if operator in ("set", "notSet"):
            return f"{column} IS {'NOT ' if operator == 'set' else ''}NULL"
        values: list[str | None] = item.get("values") or []
        if not values or any(type(value) not in (str, type(None)) for value in values):
            raise QueryRefused(f"Values required for filter: {json.dumps(item)}")
        listed = ", ".join(_text(value) for value in values)
        if operator in ("equals", "notEquals"):
            return f"{column}::VARCHAR {'' if operator == 'equals' else 'NOT '}IN ({listed})"
        if operator == "contains":
            return f"{column} ILIKE '%' || {listed} || '%'"
        if operator in _COMPARED:
            return f"{column} {_COMPARED[operator]} {listed}::DOUBLE"
        raise QueryRefused(f"Operator {operator} not supported for filter: {json.dumps(item)}")

    def _measured(self, item: Mapping[str, Any]) -> bool:
        return "member" in item and bool(self._member(item["member"]).aggregate)

    def _cube(self, name: str) -> ModelledCube:
        cube = next((c for c in self.cubes if c.name == str(name).split(".")[0]), None)
        if cube is None or cube.hidden:
            raise QueryRefused(f"Cube '{str(name).split('.')[0]}' not found for path '{name}'")
        return cube

    def _member(self, name: str) -> ModelledMember:
        member = self._cube(name).member(str(name).partition(".")[2])
        if member is None or member.hidden:
            raise QueryRefused(f"'{name}' not found")
        return member

    def _segment(self, name: str) -> str:
        condition = self._cube(name).segments.get(name.partition(".")[2])
        if condition is None:
            raise QueryRefused(f"'{name}' not found")
        return condition


def sent(value: Any) -> Any:
    """A value as Cube sends it: numbers as texts, times to the millisecond, without an offset."""
    if value is None or isinstance(value, bool | str):
        return value
    if hasattr(value, "isoformat"):
        return f"{value.isoformat()}.000" if "T" in value.isoformat() else f"{value}T00:00:00.000"
    return str(value)


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"
