"""What a run knows of key pairs between its datasources; answers ``get_correlations``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.correlations.candidates import candidates, identity
from pipeline.correlations.keeping import keep, overlap_of, recalled
from pipeline.correlations.measuring import Measurer, measure
from pipeline.correlations.overlap import Overlap, PairStatus, judge_pair
from pipeline.errors import ToolError
from pipeline.ports import PairStore, Warehouse
from pipeline.records import DEFAULT_DATASOURCE, KeyColumn, KeyPair, Table

MEASURE_SECONDS = 60.0
"""For all pairs of a run together."""
MAX_PROHIBITIONS = 30
"""Rejected pairs that every prompt repeats."""


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A pair with what was found out about it."""

    pair: KeyPair
    declared: bool
    """True when a person named it, False when it was only tried for its names."""
    measured: Overlap | str
    """The overlap, or why there is none."""

    @property
    def status(self) -> PairStatus:
        if self.pair.rejected:
            return PairStatus.REJECTED
        return PairStatus.UNKNOWN if isinstance(self.measured, str) else judge_pair(self.measured)

    @property
    def datasources(self) -> frozenset[str]:
        return frozenset((self.pair.left.datasource_id, self.pair.right.datasource_id))

    def shown(self) -> dict[str, Any]:
        """As people and programs are shown it."""
        return {
            "left": placed(self.pair.left),
            "right": placed(self.pair.right),
            "status": self.status.value,
            "declared": self.declared,
            "found_out": self.found_out,
            "note": self.pair.note,
        }

    @property
    def found_out(self) -> str:
        """What the measure said, in words."""
        if self.pair.rejected:
            return "declared never to be joined"
        return self.measured if isinstance(self.measured, str) else self.measured.described()

    def told(self, a: str) -> dict[str, Any]:
        """As an answer shows it, the column of datasource ``a`` first."""
        left, right = self.pair.left, self.pair.right
        if left.datasource_id != a:
            left, right = right, left
        shown: dict[str, Any] = {"a": column_text(left), "b": column_text(right)}
        if self.declared:
            shown["declared"] = True
        key = "not_measured" if self._unmeasured else "measured"
        shown[key] = self.found_out
        return shown | ({"note": self.pair.note} if self.pair.note else {})

    @property
    def _unmeasured(self) -> bool:
        return isinstance(self.measured, str) and not self.pair.rejected


@dataclass(frozen=True, slots=True)
class KnownPairs:
    """All pairs of a run. Empty answers mean that nothing is known, not that no key exists."""

    pairs: tuple[KnownPair, ...] = field(default=())

    async def between(self, a: str, b: str) -> Mapping[str, Sequence[Any]]:
        """``rejected``, ``confirmed`` and ``declared`` pairs of two datasources; of the last those
        that no measure has decided.

        Raises ``ToolError`` for one and the same datasource, and when nothing is known because the
        measuring failed.
        """
        if a == b:
            raise ToolError(
                f"{a!r} is one datasource; name two different ones, or join its tables in a query"
            )
        here = [known for known in self.pairs if known.datasources == frozenset((a, b))]
        lists: dict[str, list[Any]] = {
            "rejected": [k.told(a) for k in here if k.status is PairStatus.REJECTED],
            "confirmed": [k.told(a) for k in here if k.status is PairStatus.CONFIRMED],
            "declared": [k.told(a) for k in here if k.status is PairStatus.UNKNOWN and k.declared],
        }
        failures = [k.measured for k in here if isinstance(k.measured, str) and not k.pair.rejected]
        if failures and not any(lists.values()):
            raise ToolError(f"the keys of {a} and {b} could not be measured: {failures[0]}")
        return lists

    def prohibitions(self, limit: int = MAX_PROHIBITIONS) -> list[str]:
        """The rejected pairs, one a line; a last line says how many are left out."""
        rejected = [
            f"{placed(k.pair.left)} and {placed(k.pair.right)}: {k.found_out}"
            + (f" ({k.pair.note})" if k.pair.note else "")
            for k in self.pairs
            if k.status is PairStatus.REJECTED
        ]
        more = len(rejected) - limit
        told = [f"and {more} more, which get_correlations tells"] if more > 0 else []
        return [*rejected[:limit], *told]

    def counts(self) -> dict[PairStatus, int]:
        """How many pairs there are of each status."""
        return {status: sum(k.status is status for k in self.pairs) for status in PairStatus}


def column_text(key: KeyColumn) -> str:
    """``main.orders.customer_id``; a cube's member names its cube itself."""
    inside = key.column.startswith(f"{key.table}.")
    return key.column if inside or not key.table else f"{key.table}.{key.column}"


def placed(key: KeyColumn) -> str:
    return f"{key.datasource_id}: {column_text(key)}"


async def know_pairs(
    declared: Sequence[KeyPair],
    tables: Sequence[Table],
    warehouses: Mapping[str, Warehouse],
    seconds: float = MEASURE_SECONDS,
    *,
    store: PairStore | None = None,
    anew: bool = False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> KnownPairs:
    """What is known of the pairs that were declared and of those that their names suggest, between
    the datasources of a run.

    ``warehouses`` by id, the primary first. Pairs of other datasources are left out. What indexing
    or an earlier run has measured is taken from the ``store`` unless it is wanted ``anew``; the
    rest is measured and kept there. A store that fails costs nothing but time.
    """
    named = [_with_ids(pair, warehouses) for pair in declared]
    once = {identity(p): p for p in sorted(named, key=lambda p: p.rejected)}
    mine = [pair for pair in once.values() if _within(pair, warehouses)]
    known = {identity(pair) for pair in mine}
    tried = [p for p in candidates(tables, list(warehouses)) if identity(p) not in known]
    wanted = [*(pair for pair in mine if not pair.rejected), *tried]
    kept = {} if store is None or anew else await recalled(store)
    asked = [pair for pair in wanted if identity(pair) not in kept]
    found = await measure(asked, Measurer(warehouses), seconds)
    measured: dict[tuple[str, ...], Overlap | str] = {
        identity(pair): found[place] for place, pair in enumerate(asked)
    }
    if store is not None:
        await keep(store, [(pair, measured[identity(pair)]) for pair in asked], clock())
    for pair in wanted:
        if (one := kept.get(identity(pair))) is not None:
            measured[identity(pair)] = overlap_of(one, pair)
    return KnownPairs(
        tuple(
            KnownPair(pair, identity(pair) in known, measured.get(identity(pair), "not measured"))
            for pair in (*mine, *tried)
        )
    )


def _with_ids(pair: KeyPair, warehouses: Mapping[str, Warehouse]) -> KeyPair:
    """The pair with the primary's own id where it was left out."""
    primary = next(iter(warehouses), "")

    def meant(key: KeyColumn) -> KeyColumn:
        if key.datasource_id in warehouses or key.datasource_id not in ("", DEFAULT_DATASOURCE):
            return key
        return key.model_copy(update={"datasource_id": primary})

    return pair.model_copy(update={"left": meant(pair.left), "right": meant(pair.right)})


def _within(pair: KeyPair, warehouses: Mapping[str, Warehouse]) -> bool:
    ids = {pair.left.datasource_id, pair.right.datasource_id}
    return len(ids) == 2 and ids <= set(warehouses)
