"""Where in the data a value of a claim may stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.llm.offline.openclaims.lexicon import Reading, Value, text_columns
from adapters.llm.offline.openclaims.meaning import Condition
from adapters.llm.offline.roles import is_name, moment, time_part
from adapters.llm.offline.schema import Column, Kind, TableInfo
from adapters.llm.offline.sqltext import literal, quote, table_ref

_DIRECT, _STARTING, _LINKED = 6, 3, 2


@dataclass(frozen=True, slots=True)
class Place:
    """A column that may hold a text value: itself, by its start, or by a name elsewhere."""

    column: str
    starts: bool = False
    names: TableInfo | None = None
    name_column: str = ""

    def condition(self, value: Value) -> Condition:
        """The rows in which the value stands here, whatever its case."""
        text = value.text.lower()
        start = literal(text.replace("%", "").replace("_", "") + "%")
        if self.names is not None:
            inner = (
                f"SELECT n.{quote(self.column)} FROM {table_ref(self.names)} AS n"
                f" WHERE LOWER(n.{quote(self.name_column)}) LIKE {start}"
            )
            return Condition(f"t.{quote(self.column)} IN ({inner})", self.column)
        spelled = f"LOWER(CAST(t.{quote(self.column)} AS VARCHAR))"
        if self.starts:
            return Condition(f"{spelled} LIKE {start}", self.column)
        return Condition(f"{spelled} = {literal(text)}", self.column)


def places(reading: Reading, tables: Sequence[TableInfo], *, exact: bool) -> list[Place]:
    """Places for the text values of a claim: columns it names first, then all text columns.
    ``exact`` leaves out those that match only the start of a text."""
    columns = text_columns(reading.table)
    named = [c for c in columns if reading.columns.get(c.name, 0) >= 1.0]
    ordered = [*named, *(c for c in columns if c not in named)]
    found = [Place(c.name) for c in ordered[:_DIRECT]]
    if exact:
        return found
    found += _linked(reading.table, tables)[:_LINKED]
    found += [Place(c.name, starts=True) for c in ordered[:_STARTING]]
    return found


def _linked(table: TableInfo, tables: Sequence[TableInfo]) -> list[Place]:
    """Keys that this table shares with one that has names for them."""
    found: list[Place] = []
    for other in tables:
        name = next((c for c in other.columns if is_name(c)), None)
        if other.name == table.name or name is None:
            continue
        for key in other.columns:
            mine = table.column(key.name)
            if key.kind is Kind.TEXT and mine is not None and key.name != name.name:
                found.append(Place(key.name, names=other, name_column=name.name))
    return found


def calendar_part(table: TableInfo, part: str) -> str | None:
    """The month or year of a row: a column of that name, else a part of a date."""
    for column in table.columns:
        if column.kind is Kind.INTEGER and time_part(column) == part:
            return f"t.{quote(column.name)}"
    for column in table.columns:
        if _dated(column):
            stamp = f"CAST({moment(column)} AS TIMESTAMP)"
            return f"CAST(EXTRACT({part.upper()} FROM {stamp}) AS INTEGER)"
    return None


def _dated(column: Column) -> bool:
    return column.kind in {Kind.DATE, Kind.STAMP}
