"""From when to when a table reaches: the first and the last value of its time column."""

from __future__ import annotations

from sqlglot import exp

from pipeline.ports import Warehouse, WarehouseInfo
from pipeline.records import Column, ColumnCategory, Shape, Table, TableKind, TimeSpan
from pipeline.schema.names import parts_of
from pipeline.sql.rows import column_values

MAX_CHARS = 40
_DAY = ("date", "timestamp", "datetime", "smalldatetime")


def time_column(table: Table) -> Column | None:
    """The first column that tells a day, not only an hour of one."""
    times = (c for c in table.columns if c.category is ColumnCategory.TIME)
    return next((c for c in times if c.type.strip().lower().startswith(_DAY)), None)


async def time_span(warehouse: Warehouse, table: Table) -> TimeSpan | None:
    """Asks for the span of the time column, through guard and filter; None without one, or without
    rows. Raises what ``Warehouse.query`` raises."""
    column = time_column(table)
    if column is None or table.kind is not TableKind.TABLE or table.row_count == 0:
        return None
    if warehouse.info.shape is not Shape.ENTITIES:
        return None
    result = await warehouse.query(span_query(warehouse.info, table.name, column.name), max_rows=1)
    if not result.row_count or result.table.num_columns < 2:
        return None
    first, last = (column_values(result.table.column(place))[0] for place in (0, 1))
    if first is None or last is None:
        return None
    return TimeSpan(column=column.name, first=_short(first), last=_short(last))


def span_query(info: WarehouseInfo, table: str, column: str) -> str:
    """The query for the least and the greatest value of a column."""
    parts = parts_of(table, info.dialect)
    named = exp.Table()
    for key, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
        named.set(key, exp.to_identifier(part, quoted=True))
    wanted = exp.column(exp.to_identifier(column, quoted=True))
    query = exp.select(exp.Min(this=wanted.copy()), exp.Max(this=wanted.copy())).from_(named)
    return query.sql(dialect=info.dialect)


def _short(value: object) -> str:
    text = str(value)
    if text.endswith(("T00:00:00", " 00:00:00")):
        text = text[:-9]
    return text[:MAX_CHARS]
