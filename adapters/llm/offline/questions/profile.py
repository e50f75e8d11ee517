"""First looks at a table: how many rows, how many distinct values, which range."""

from __future__ import annotations

from adapters.llm.offline.questions.question import Question, Theme, ask
from adapters.llm.offline.reading import Json, number_of
from adapters.llm.offline.roles import moment
from adapters.llm.offline.schema import Column, Facts, Kind, TableInfo
from adapters.llm.offline.sqltext import quote, table_ref

_COLUMNS = 30
_DISTINCT, _LOW, _HIGH = "distinct_", "min_", "max_"


def shape(table: TableInfo, weight: float) -> Question:
    """Row count, distinct values of each column, and the range of numbers and times."""
    outputs = ['COUNT(*) AS "row_count"']
    for column in _countable(table):
        name = quote(column.name)
        outputs.append(f"COUNT(DISTINCT {name}) AS {quote(_DISTINCT + column.name)}")
    for column in _countable(table):
        if column.kind in {Kind.TEXT, Kind.BOOLEAN}:
            continue
        value = quote(column.name)
        if column.kind in {Kind.DATE, Kind.STAMP}:
            value = moment(column)
        for function, prefix in (("MIN", _LOW), ("MAX", _HIGH)):
            whole = f"{function}({value})"
            if column.kind in {Kind.DATE, Kind.STAMP}:
                whole = f"CAST({whole} AS VARCHAR)"
            elif column.kind is Kind.FLOAT:
                whole = f"ROUND(CAST({whole} AS DOUBLE), 4)"
            outputs.append(f"{whole} AS {quote(prefix + column.name)}")
    return ask(
        Theme.PROFILE,
        weight,
        table,
        (),
        f"Total rows of {table.bare}, distinct values and value range of each column",
        f"What is in {table.name}: how many rows, how many different values in each column, and"
        " which range do numbers and dates cover?",
        f"SELECT {', '.join(outputs)} FROM {table_ref(table)} AS t",
    )


def _countable(table: TableInfo) -> list[Column]:
    return [c for c in table.columns if c.kind is not Kind.OTHER][:_COLUMNS]


def facts_from(table: TableInfo, row: Json) -> Facts:
    """Read back the answer to ``shape``."""
    rows = number_of(row.get("row_count"))
    if rows is None:
        return Facts()
    distinct: dict[str, int] = {}
    low: Json = {}
    high: Json = {}
    for column in table.columns:
        count = number_of(row.get(_DISTINCT + column.name))
        if count is not None:
            distinct[column.name] = int(count)
        if row.get(_LOW + column.name) is not None:
            low[column.name] = row[_LOW + column.name]
        if row.get(_HIGH + column.name) is not None:
            high[column.name] = row[_HIGH + column.name]
    return Facts(int(rows), distinct, low, high)
