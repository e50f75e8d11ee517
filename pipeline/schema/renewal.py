"""What of an earlier reading of a table still holds beside today's listing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.records import IndexedTable, Table
from pipeline.schema.fingerprint import table_fingerprint


def unchanged(kept: IndexedTable | None, listed: Table) -> bool:
    """True when a table has the columns and the number of rows that it had, and could be read."""
    return (
        kept is not None
        and not kept.table.error
        and kept.fingerprint == table_fingerprint(listed)
        and kept.table.row_count == listed.row_count
    )


def renewed(kept: IndexedTable, listed: Table) -> IndexedTable:
    """The earlier reading of an unchanged table, with what the listing says today."""
    changes: dict[str, Any] = {"columns": listed.columns}
    if listed.description:
        changes["description"] = listed.description
    return kept.model_copy(update={"table": kept.table.model_copy(update=changes)})


def described_as(kept: IndexedTable | None, listed: Table) -> Table:
    """The table with its earlier description, if it has none of its own and the same columns."""
    if kept is None or listed.description or kept.fingerprint != table_fingerprint(listed):
        return listed
    return listed.model_copy(update={"description": kept.table.description})


def carried(
    listed: Table, earlier: Mapping[str, IndexedTable], *, anew: bool = False
) -> IndexedTable:
    """A listed table with what is known of it from before: its sample rows too if it is unchanged,
    unless ``anew``."""
    kept = earlier.get(listed.name)
    if kept is not None and not anew and unchanged(kept, listed):
        return renewed(kept, listed)
    return IndexedTable(table=described_as(kept, listed), fingerprint=table_fingerprint(listed))
