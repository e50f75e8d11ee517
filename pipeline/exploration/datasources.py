"""Which datasource an action means, and tables that belong to another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipeline.errors import ToolError
from pipeline.ports import Warehouse
from pipeline.records import DEFAULT_DATASOURCE, Shape, Table


def chosen(datasource_id: str, warehouses: Mapping[str, Warehouse]) -> Warehouse:
    """The warehouse of that id; an empty id or ``default`` means the primary, which is the first.

    Raises ``ToolError`` with the valid ids.
    """
    if datasource_id in warehouses:
        return warehouses[datasource_id]
    if datasource_id in ("", DEFAULT_DATASOURCE):
        return next(iter(warehouses.values()))
    ids = ", ".join(warehouses)
    raise ToolError(f"there is no datasource {datasource_id!r}; the ids are: {ids}")


def owners(name: str, tables: Sequence[Table], besides: str) -> list[str]:
    """Datasources other than ``besides`` that have a table of that name, with its full name."""
    return [
        f"{table.datasource_id}: {table.name}"
        for table in tables
        if table.datasource_id != besides and matches(name, table.name)
    ]


def foreign_table(sql: str, warehouse: Warehouse, tables: Sequence[Table]) -> str:
    """Advice when a query reads a table, or a cube, that only another datasource has, else ""."""
    here = warehouse.info.id
    mine = [table.name for table in tables if table.datasource_id == here]
    cube = warehouse.info.shape is Shape.CUBE
    for name in _cubes_read(sql) if cube else _tables_read(sql, warehouse.info.dialect):
        if any(matches(name, known) for known in mine):
            continue
        elsewhere = owners(name, tables, here) or _owned_by_its_prefix(name, tables, here)
        if elsewhere:
            what = "cube" if cube else "table"
            return (
                f"{what} {name} is not in datasource {here!r} but in {'; '.join(elsewhere)}. One "
                "query reads one datasource: query that one with its datasource_id, and pass the "
                "values you need into the other query as a short list of literals"
            )
    return ""


def _owned_by_its_prefix(name: str, tables: Sequence[Table], besides: str) -> list[str]:
    """The owner of ``crm.contacts`` where ``crm`` is a datasource and no schema."""
    source, _, rest = name.partition(".")
    theirs = [table for table in tables if table.datasource_id == source]
    return owners(rest, theirs, besides) if rest else []


def matches(asked: str, known: str) -> bool:
    """True when ``asked`` is the qualified name or its bare last part, without regard to case."""
    asked, known = asked.casefold(), known.casefold()
    return asked == known or ("." not in asked and asked == known.rsplit(".", 1)[-1])


def _tables_read(sql: str, dialect: str) -> list[str]:
    """Names of the base tables in a query; none when it cannot be parsed, which the guard says."""
    try:
        tree = sqlglot.parse_one(sql, read=dialect)
        found = [node for node in tree.find_all(exp.Table) if node.name]
        defined = {cte.alias_or_name.casefold() for cte in tree.find_all(exp.CTE)}
    except (SqlglotError, RecursionError, ValueError):
        return []
    return [
        ".".join(part for part in (node.db, node.name) if part)
        for node in found
        if node.db or node.name.casefold() not in defined
    ]


def _cubes_read(query: str) -> list[str]:
    """Names of the cubes whose members a JSON query names; none when it cannot be read."""
    try:
        value: Any = json.loads(query)
    except (ValueError, RecursionError):
        return []
    request = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    named: list[Any] = []
    for key in ("measures", "dimensions", "segments"):
        entry = request.get(key)
        named += cast("list[Any]", entry) if isinstance(entry, list) else [entry]
    members = [name for name in named if isinstance(name, str) and "." in name]
    return list(dict.fromkeys(name.partition(".")[0] for name in members))
