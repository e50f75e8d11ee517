"""Batches are read up to the cap in rows and in bytes, and no further."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from adapters.warehouses.capping import Cap, collect
from pipeline.errors import QueryFailed

arrow: Any = pa  # its stubs leave the types of columns open
SCHEMA = pa.schema([("a", pa.int64()), ("a", pa.int64())])


def batches(sizes: list[int], read: list[int]) -> Iterator[pa.RecordBatch]:
    for size in sizes:
        read.append(size)
        column = pa.array(range(size), pa.int64())
        yield arrow.RecordBatch.from_arrays([column, column], schema=SCHEMA)


@pytest.mark.parametrize(
    ("sizes", "cap", "rows", "batches_read", "capped"),
    [
        ([10, 10], Cap(100, 10**6), 20, 2, False),
        ([10, 10], Cap(20, 10**6), 20, 2, False),
        ([10, 10], Cap(15, 10**6), 15, 2, True),
        ([10, 10, 10, 10], Cap(10, 10**6), 10, 2, True),
        ([10, 0, 10], Cap(10, 10**6), 10, 3, True),
        ([10, 10], Cap(100, 160), 10, 2, True),
        ([10, 10], Cap(100, 200), 12, 2, True),
        ([10, 10], Cap(100, 320), 20, 2, False),
        ([10], Cap(0, 10**6), 0, 1, True),
        ([], Cap(10, 10), 0, 0, False),
        ([0], Cap(10, 10), 0, 1, False),
    ],
)
def test_rows_beyond_the_cap_are_never_read(
    sizes: list[int], cap: Cap, rows: int, batches_read: int, capped: bool
) -> None:
    read: list[int] = []
    table, caveat = collect(SCHEMA, batches(sizes, read), cap)
    assert table.num_rows == rows
    assert len(read) == batches_read
    assert (caveat is not None) is capped
    assert table.column_names == ["a", "a_2"]


def test_a_first_row_beyond_the_byte_cap_fails() -> None:
    with pytest.raises(QueryFailed, match="one row"):
        collect(SCHEMA, batches([5], []), Cap(10, 8))
