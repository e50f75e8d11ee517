"""Results are capped while they stream: rows beyond the cap are never read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from pipeline.errors import QueryFailed
from pipeline.records import Quality, QualityKind
from pipeline.sql.rows import unique_names


@dataclass(frozen=True, slots=True)
class Cap:
    rows: int
    bytes: int

    def lowered(self, rows: int | None) -> Cap:
        """The same cap, or a lower one in rows."""
        return self if rows is None else Cap(min(self.rows, max(0, rows)), self.bytes)


def collect(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], cap: Cap
) -> tuple[pa.Table, Quality | None]:
    """Read batches up to the cap. Gives the table, its column names unique, and a caveat if more
    rows exist.

    Raises ``QueryFailed`` when the first row alone is larger than the cap.
    """
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    caveat: Quality | None = None
    for batch in batches:
        room = cap.rows - rows
        taken = batch if batch.num_rows <= room else batch.slice(0, room)
        fitting = _fitting_rows(taken, cap.bytes - size)
        if fitting < taken.num_rows:
            taken = taken.slice(0, fitting)
            caveat = _truncated(rows + fitting, f"{cap.bytes} bytes (WAREHOUSE_MAX_BYTES)")
        elif taken.num_rows < batch.num_rows:
            caveat = _truncated(cap.rows, f"{cap.rows} rows (WAREHOUSE_MAX_ROWS)")
        if taken.num_rows:
            kept.append(taken)
            rows += taken.num_rows
            size += taken.nbytes
        if caveat is not None:
            break
    if caveat is not None and not rows and cap.rows:
        raise QueryFailed(
            f"one row of the result is larger than {cap.bytes} bytes; "
            "select fewer columns or shorten the long ones"
        )
    names = unique_names(schema.names)
    return pa.Table.from_batches(kept, schema=schema).rename_columns(names), caveat


def _truncated(rows: int, limit: str) -> Quality:
    return Quality(
        kind=QualityKind.TRUNCATED,
        detail=f"only the first {rows} rows were read, because results are capped at {limit}; "
        "more rows exist, so aggregate in SQL",
    )


def _fitting_rows(batch: pa.RecordBatch, room: int) -> int:
    """How many leading rows stay within ``room`` bytes."""
    if batch.nbytes <= room:
        return batch.num_rows
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if batch.slice(0, middle).nbytes <= room else (low, middle - 1)
    return low
