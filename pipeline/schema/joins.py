"""Which tables can be joined: a column whose name is another table's key."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.records import ColumnCategory, Table
from pipeline.schema.names import bare

MAX_HINTS = 3
_KEEP_PER_COLUMN = 4


class JoinHints:
    """Looks up join partners among the tables of one datasource.

    ``flights.carrier`` joins ``airlines.carrier`` when that is the key of airlines;
    ``orders.customer_id`` also joins ``customers.id``.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._keys: dict[str, list[tuple[str, str]]] = {}
        self._ids: dict[str, list[tuple[str, str]]] = {}
        self._targets: dict[str, list[tuple[str, str]]] = {}
        for table in sorted(tables, key=lambda t: (_width(t), t.name)):
            self._learn(table)

    def of(self, table: Table) -> list[str]:
        """At most three ``dataset.table.column`` that columns of the table lead to."""
        hints: list[str] = []
        for column in table.columns:
            known = self._targets.get(column.name)
            if known is None:
                known = self._targets[column.name] = self._candidates(column.name.lower())
            if not known:
                continue
            target = next((f"{name}.{key}" for name, key in known if name != table.name), None)
            if target is not None and target not in hints:
                hints.append(target)
                if len(hints) == MAX_HINTS:
                    break
        return hints

    def _learn(self, table: Table) -> None:
        for column in table.columns:
            if column.category is not ColumnCategory.PRIMARY_KEY:
                continue
            key = column.name.lower()
            if key == "id":
                _add(self._ids, _bare(table.name), (table.name, column.name))
            else:
                _add(self._keys, key, (table.name, column.name))

    def _candidates(self, column: str) -> list[tuple[str, str]]:
        """Keys that a column of this name may lead to, the likeliest first."""
        if column == "id":
            return []
        stem = column.removesuffix("_id").removesuffix("_key")
        owners = {stem, f"{stem}s", f"{stem}es", _plural(stem)}
        same = self._keys.get(column, [])
        owned = [hit for hit in same if _bare(hit[0]) in owners]
        named = [hit for word in sorted(owners) for hit in self._ids.get(word, [])]
        return [*owned, *(named if stem != column else []), *same]


def _add(index: dict[str, list[tuple[str, str]]], key: str, hit: tuple[str, str]) -> None:
    hits = index.setdefault(key, [])
    if len(hits) < _KEEP_PER_COLUMN:
        hits.append(hit)


def _plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else word


def _bare(name: str) -> str:
    return bare(name).lower()


def _width(table: Table) -> int:
    """Tables whose key is the first column, then narrow ones: these are the ones referred to."""
    first = bool(table.columns) and table.columns[0].category is ColumnCategory.PRIMARY_KEY
    return len(table.columns) + (0 if first else 10_000)
