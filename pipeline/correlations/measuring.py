"""Measures how many values two columns have in common, by asking both datasources.

Each column's distinct values are read once, up to a cap. Where a column has more, a sample of the
other side is looked for in it. Guard, filter and cap of the datasource apply as to any query.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from pipeline.correlations.overlap import Overlap
from pipeline.errors import ForModel, QueryFailed, WarehouseUnavailable
from pipeline.ports import Warehouse, WarehouseInfo
from pipeline.records import KeyColumn, KeyPair, QualityKind, Shape
from pipeline.schema.names import parts_of
from pipeline.sql.rows import column_values

log = logging.getLogger(__name__)

DISTINCT_CAP = 5_000
"""Distinct values of a column that are read."""
PROBE = 200
"""Values of one side that are looked for in a column with more values than the cap."""


@dataclass(frozen=True, slots=True)
class Values:
    """Distinct values of a column, lowest first, as texts and as they came."""

    texts: frozenset[str]
    given: tuple[Any, ...]
    complete: bool


@dataclass(slots=True)
class Measurer:
    """Measures pairs of one run; what was read of a column serves all of its pairs."""

    warehouses: Mapping[str, Warehouse]
    cap: int = DISTINCT_CAP
    _values: dict[tuple[str, str, str], Values] = field(
        default_factory=dict[tuple[str, str, str], Values]
    )

    async def overlap(self, pair: KeyPair) -> Overlap:
        """How far the two columns have values in common.

        Raises ``QueryFailed`` (also for a datasource, table or column that is not there) or
        ``WarehouseUnavailable``.
        """
        left, right = await asyncio.gather(self._read(pair.left), self._read(pair.right))
        if left.complete and right.complete:
            shared = len(left.texts & right.texts)
            return Overlap(len(left.texts), shared, len(right.texts), shared)
        asked_left, found_left = await self._looked_for(left, right, pair.right)
        asked_right, found_right = await self._looked_for(right, left, pair.left)
        return Overlap(asked_left, found_left, asked_right, found_right)

    async def _read(self, key: KeyColumn) -> Values:
        place = (key.datasource_id, key.table, key.column)
        if place not in self._values:
            self._values[place] = await self._distinct(key)
        return self._values[place]

    async def _distinct(self, key: KeyColumn) -> Values:
        given, cut = await self._ask(key, None, self.cap + 1)
        kept = [value for value in given if value is not None and value != ""][: self.cap]
        complete = not cut and len(given) <= self.cap
        return Values(frozenset(map(spelt, kept)), tuple(kept), complete)

    async def _looked_for(self, these: Values, among: Values, where: KeyColumn) -> tuple[int, int]:
        """How many values were looked for in a column, and how many it has."""
        if among.complete:
            return len(these.texts), len(these.texts & among.texts)
        sample = spread(these.given, PROBE)
        usable = as_kind_of(sample, among.given)
        if not usable:
            return len(sample), 0
        found, _ = await self._ask(where, usable, len(usable))
        wanted = {spelt(value) for value in usable}
        return len(sample), len(wanted & {spelt(v) for v in found if v is not None})

    async def _ask(
        self, key: KeyColumn, only: Sequence[Any] | None, limit: int
    ) -> tuple[list[Any], bool]:
        """Distinct values, and whether the datasource's own cap cut them off."""
        warehouse = self.warehouses.get(key.datasource_id)
        if warehouse is None:
            raise QueryFailed(f"there is no datasource {key.datasource_id!r} in this run")
        query = distinct_query(warehouse.info, key, only, limit)
        result = await warehouse.query(query, max_rows=limit)
        cut = any(c.kind is QualityKind.TRUNCATED for c in result.caveats)
        values = column_values(result.table.column(0)) if result.table.num_columns else []
        return values, cut and result.row_count < limit


def distinct_query(
    info: WarehouseInfo, key: KeyColumn, only: Sequence[Any] | None, limit: int
) -> str:
    """The query for the lowest distinct values of a column, in the datasource's language; with
    ``only``, for those of them that it has."""
    if info.shape is Shape.CUBE:
        request: dict[str, Any] = {"dimensions": [key.column], "order": {key.column: "asc"}}
        if only is not None:
            values = [spelt(value) for value in only]
            request["filters"] = [{"member": key.column, "operator": "equals", "values": values}]
        return json.dumps(request | {"limit": limit})
    column = exp.column(key.column, quoted=True)
    *parents, name = (
        exp.to_identifier(part, quoted=True) for part in parts_of(key.table, info.dialect)
    )
    table = exp.Table(
        this=name,
        db=parents[-1] if parents else None,
        catalog=parents[-2] if len(parents) > 1 else None,
    )
    query = exp.select(column).distinct().from_(table).where(column.is_(exp.null()).not_())
    if only is not None:
        query = query.where(column.isin(*(_literal(value) for value in only)))
    return query.order_by(column).limit(limit).sql(dialect=info.dialect)


def as_kind_of(values: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
    """Values as the column that holds ``examples`` would have them; those it cannot have are left
    out: a text that is no number for a column of numbers."""
    if examples and all(type(example) in (int, float) for example in examples):
        return [n for value in values if (n := _as_number(value)) is not None]
    return [spelt(value) for value in values]


def spelt(value: Any) -> str:
    """A value as text, whole numbers without a fraction: 7, "7" and 7.0 are the same key."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.strip() if isinstance(value, str) else str(value)


def spread(values: Sequence[Any], count: int) -> list[Any]:
    """So many values at even distances."""
    if len(values) <= count:
        return list(values)
    return [values[i * len(values) // count] for i in range(count)]


def _as_number(value: Any) -> int | float | None:
    if isinstance(value, int | float):
        return value
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return exp.Literal.number(value)
    return exp.Literal.string(str(value))


async def measure(
    pairs: Sequence[KeyPair], measurer: Measurer, seconds: float
) -> dict[int, Overlap | str]:
    """The overlap of each pair by its place, or why it could not be measured. Pairs that are not
    reached within ``seconds`` say so."""
    measured: dict[int, Overlap | str] = {}
    try:
        async with asyncio.timeout(seconds):
            for place, pair in enumerate(pairs):
                measured[place] = await _measured(pair, measurer)
    except TimeoutError:
        log.warning("measuring key pairs took longer than %g s and was stopped", seconds)
    late = f"not measured within {seconds:g} s"
    return {place: measured.get(place, late) for place in range(len(pairs))}


async def _measured(pair: KeyPair, measurer: Measurer) -> Overlap | str:
    try:
        return await measurer.overlap(pair)
    except (ForModel, WarehouseUnavailable) as error:
        log.warning("a key pair could not be measured: %s", error)
        return str(error)
