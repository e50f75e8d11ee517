"""Tables, views and columns of a DuckDB file, as records.

System schemas are left out, and so are tables that the tenant filter makes unreadable.
"""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# The driver's stubs type rows as Any.

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapters.warehouses.gate import Gate
from pipeline.records import Column, Table
from pipeline.schema.columns import ColumnPool
from pipeline.schema.names import spelled

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger(__name__)

COUNT_SECONDS = 5.0
"""How long counting one view, or one table behind a filter, may take before it stays unknown."""
COUNT_ALL_SECONDS = 30.0
"""How long counting may take in all; the tables after that stay unknown."""

_RELATIONS = """
    SELECT schema_name, table_name, estimated_size, comment FROM duckdb_tables()
    WHERE database_name = current_database() AND NOT internal AND NOT temporary
    UNION ALL
    SELECT schema_name, view_name, -1, comment FROM duckdb_views()
    WHERE database_name = current_database() AND NOT internal AND NOT temporary
    ORDER BY ALL
"""
_COLUMNS = """
    SELECT schema_name, table_name, column_name, data_type, is_nullable FROM duckdb_columns()
    WHERE database_name = current_database() AND NOT internal
    ORDER BY schema_name, table_name, column_index
"""
_KEYS = """
    SELECT schema_name, table_name, constraint_column_names[1] FROM duckdb_constraints()
    WHERE database_name = current_database() AND constraint_type = 'PRIMARY KEY'
    AND len(constraint_column_names) = 1
"""


@dataclass(slots=True)
class Relation:
    """A table or view of the file."""

    name: str
    """Schema and table with a dot between; see ``pipeline.schema.names``."""
    parts: tuple[str, str]
    estimate: int
    description: str
    columns: list[Column] = field(default_factory=list[Column])


def relations(cursor: DuckDBPyConnection, datasets: tuple[str, ...]) -> dict[str, Relation]:
    """Every table and view of the given schemas (all, if none is given), by qualified name."""
    wanted = {dataset.strip().lower() for dataset in datasets if dataset.strip()}
    found: dict[str, Relation] = {}
    by_parts: dict[tuple[str, str], Relation] = {}
    for schema, table, estimate, comment in cursor.execute(_RELATIONS).fetchall():
        if not wanted or str(schema).lower() in wanted:
            parts = (str(schema), str(table))
            name = spelled(parts)
            found[name] = by_parts[parts] = Relation(name, parts, int(estimate), comment or "")
    keys = {tuple(row) for row in cursor.execute(_KEYS).fetchall()}
    pool = ColumnPool()
    for schema, table, column, kind, nullable in cursor.execute(_COLUMNS).fetchall():
        relation = by_parts.get((schema, table))
        if relation is not None:
            is_key = (schema, table, column) in keys
            relation.columns.append(pool.listed(column, kind, bool(nullable), is_key=is_key))
    return found


def column_names(found: dict[str, Relation]) -> dict[str, list[str]]:
    """Column names by table, as the tenant filter wants them."""
    return {name: [column.name for column in table.columns] for name, table in found.items()}


def listed(
    cursor: DuckDBPyConnection, found: dict[str, Relation], gate: Gate, datasource_id: str
) -> list[Table]:
    """The readable ones as records, ordered by name, with the number of readable rows."""
    columns = column_names(found)
    readable = [t for name, t in sorted(found.items()) if gate.reads(name, columns)]
    hidden = len(found) - len(readable)
    if hidden:
        log.info("%d tables lack the filter field %s and are not shown", hidden, gate.field)
    until = time.monotonic() + COUNT_ALL_SECONDS
    return [
        Table(
            datasource_id=datasource_id,
            name=table.name,
            columns=table.columns,
            row_count=_rows(cursor, table, gate, columns, until),
            description=table.description,
        )
        for table in readable
    ]


def _rows(
    cursor: DuckDBPyConnection,
    table: Relation,
    gate: Gate,
    columns: dict[str, list[str]],
    until: float,
) -> int:
    """Readable rows: DuckDB's own number for whole tables, a count otherwise; -1 if unknown."""
    if table.estimate >= 0 and not gate.is_filtered(table.name, columns):
        return table.estimate
    seconds = min(COUNT_SECONDS, until - time.monotonic())
    if seconds <= 0:
        return -1
    sql = gate.sample_sql(table.parts, 0, columns).removesuffix(" LIMIT 0")
    return _count(cursor, f"SELECT count(*) FROM ({sql})", seconds)


def _count(cursor: DuckDBPyConnection, sql: str, seconds: float) -> int:
    from duckdb import Error

    timer = threading.Timer(seconds, cursor.interrupt)
    timer.daemon = True
    started = time.monotonic()
    timer.start()
    try:
        row: Any = cursor.execute(sql).fetchone()
        return int(row[0])
    except Error as error:
        log.info("cannot count rows (%.1f s): %s", time.monotonic() - started, error)
        return -1
    finally:
        timer.cancel()
