"""What every SQL warehouse does to a query before it runs: the guard, then the tenant filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pipeline.ports import WarehouseInfo
from pipeline.records import WarehouseConfig
from pipeline.sql.guard import check_read_only
from pipeline.sql.tenant import TenantFilter, apply_filter, sample_query


@dataclass(frozen=True, slots=True)
class Gate:
    dialect: str
    field: str
    value: str
    shared: tuple[str, ...]
    extra_functions: tuple[str, ...]

    @classmethod
    def of(cls, config: WarehouseConfig, dialect: str) -> Gate:
        return cls(
            dialect=dialect,
            field=config.filter_field.strip(),
            value=config.filter_value,
            shared=tuple(config.shared_tables),
            extra_functions=tuple(config.extra_functions),
        )

    @property
    def filters(self) -> bool:
        return bool(self.field)

    def pass_query(self, sql: str, columns: Mapping[str, Collection[str]]) -> str:
        """The query as it runs. Raises ``UnsafeSql``. ``columns`` are needed under a filter."""
        if not self.filters:
            return check_read_only(sql, self.dialect, extra_functions=self.extra_functions)
        return apply_filter(
            sql,
            self.dialect,
            self.field,
            self.value,
            columns=columns,
            shared=self.shared,
            extra_functions=self.extra_functions,
        )

    def sample_sql(
        self, parts: tuple[str, ...], rows: int, columns: Mapping[str, Collection[str]]
    ) -> str:
        """The first rows of a table, through the filter."""
        return sample_query(self._rule(columns), parts, rows)

    def reads(self, name: str, columns: Mapping[str, Collection[str]]) -> bool:
        """True when the table has the filter's field or is shared."""
        if not self.filters:
            return True
        rule = self._rule({name: columns[name]})
        return rule.reads(name)

    def is_filtered(self, name: str, columns: Mapping[str, Collection[str]]) -> bool:
        """True when only a part of the table's rows may be read."""
        return self.filters and self._rule({name: columns[name]}).is_filtered(name)

    def _rule(self, columns: Mapping[str, Collection[str]]) -> TenantFilter:
        return TenantFilter(self.dialect, self.field, self.value, columns, self.shared)


def warehouse_info(config: WarehouseConfig, dialect: str) -> WarehouseInfo:
    """The unchanging facts of a datasource."""
    return WarehouseInfo(
        id=config.id,
        dialect=dialect,
        datasets=tuple(config.datasets),
        label=config.label,
        filter_field=config.filter_field.strip(),
        filter_value=config.filter_value if config.filter_field.strip() else "",
        anchors=config.anchors,
    )


_VALUE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|(?<![A-Za-z_])\d[\d.:,+-]*")


def without_values(message: str, sql: str, names: Mapping[str, Collection[str]]) -> str:
    """An error text without quoted texts and numbers that are neither in the query nor names."""
    known = {part for name in names for part in (name, *name.split("."))}
    known.update(column for columns in names.values() for column in columns)

    def keep(match: re.Match[str]) -> str:
        text = match.group()
        bare = text.strip("'\"")
        return text if bare in known or text in sql or bare in sql else "…"

    first, line, rest = message.partition("\nLINE ")
    return _VALUE.sub(keep, first) + line + rest
