"""The tenant filter: every base table of a query is read through it.

``FROM orders AS o`` becomes ``FROM (SELECT * FROM orders AS _tenant_row WHERE
_tenant_row.tenant = 'a') AS o``. The filter stands where the table stood, so that outer joins,
USING, correlated subqueries and aggregates keep their meaning, and nothing that the query says
elsewhere (a comment, an alias, one arm of a UNION, an OR) can reach around it.

The field is written with the inner alias before it: a table that lacks the field is an error of the
warehouse, never a reference to some outer table that happens to have it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from pipeline.errors import UnsafeSql
from pipeline.sql.functions import function_names
from pipeline.sql.guard import checked_tree, render
from pipeline.sql.nodes import NAMED_FUNCTIONS
from pipeline.sql.references import Reference, Sources, base_tables, rename_common_tables
from pipeline.sql.relations import is_system

INNER_ALIAS = "_tenant_row"
_SAMPLES_SUBQUERIES = frozenset({"duckdb", "snowflake", "databricks"})
"""Dialects that can sample a subquery; the others sample the table, below the filter."""


@dataclass(frozen=True, slots=True)
class TenantFilter:
    """Which rows may be read. ``columns`` are the known tables' columns, by ``dataset.table``."""

    dialect: str
    field: str
    value: Any
    columns: Mapping[str, Collection[str]] | None = None
    shared: Collection[str] = ()

    def condition(self, field: str, alias: str) -> exp.Expr:
        """``alias.field = value`` with both quoted for the dialect."""
        column = exp.column(_field(field, self.dialect), table=exp.to_identifier(alias))
        return exp.EQ(this=column, expression=_literal(self.value, self.dialect))

    def field_of(self, parts: tuple[str, ...]) -> str | None:
        """The field as the named table spells it; None for a shared table, which is read whole.

        Raises ``UnsafeSql`` for a table that lacks the field and for system catalogs.
        """
        name = ".".join(parts)
        dotted = any("." in part for part in parts)  # not to be mistaken for another table's name
        known = [] if dotted else _matching(name, self.columns or {})
        if not known and is_system(parts):
            raise UnsafeSql(f"{name} describes other tenants' data too; use lookup_schema instead")
        if known:
            return self._field_of_known(name, known)
        return None if not dotted and _is_shared(name, self.shared) else self.field

    def reads(self, name: str) -> bool:
        """True when a known table may be read at all."""
        return self._is_shared(name) or _spelled(self.field, (self.columns or {})[name]) is not None

    def is_filtered(self, name: str) -> bool:
        """True when only a part of a known table's rows may be read."""
        return not self._is_shared(name)

    def _is_shared(self, name: str) -> bool:
        return _is_shared(name, self.shared)

    def _field_of_known(self, name: str, known: list[str]) -> str | None:
        columns = self.columns or {}
        if all(_is_shared(table, self.shared) for table in known):
            return None
        fields = {_spelled(self.field, columns[table]) for table in known}
        if None in fields:
            raise UnsafeSql(
                f"the table {name} has no column {self.field}, which every read must be filtered "
                "by; use tables that have it"
            )
        return fields.pop() if len(fields) == 1 else self.field


def apply_filter(
    sql: str,
    dialect: str,
    field: str,
    value: str | int,
    *,
    columns: Mapping[str, Collection[str]] | None = None,
    shared: Collection[str] = (),
    extra_functions: Collection[str] = (),
) -> str:
    """The query as it may run for one tenant: each base table in each scope is read where
    ``field = value``.

    ``shared`` lists tables that may be read whole. With ``columns`` (``dataset.table`` to column
    names) a table without the field is refused here; without, the warehouse refuses it. Raises
    ``UnsafeSql`` with a reason; the read-only guard is applied first.
    """
    tree = checked_tree(sql, dialect, extra_functions)
    rule = TenantFilter(dialect, _checked_field(field), value, columns, tuple(shared))
    _literal(value, dialect)
    try:
        return render(filtered(tree, rule), dialect)
    except RecursionError:
        raise UnsafeSql("the query is nested too deeply; write it flatter") from None


def filtered(tree: exp.Query, rule: TenantFilter) -> exp.Query:
    """The checked ``tree`` with every base table behind the filter. Changes ``tree``."""
    _refuse_foreign_rows(tree, rule.dialect)
    _refuse_statistics(tree)
    rename_common_tables(tree, rule.dialect)
    taken = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    alias = _fresh(INNER_ALIAS, taken)
    references = base_tables(tree, rule.dialect)
    fields = [(ref, rule.field_of(ref.names)) for ref in references]
    sources = Sources()
    for reference, field in fields:
        if field is not None:
            reference.requalify(taken, sources)
    for reference, field in fields:
        if field is not None:
            _wrap(reference, rule, field, alias)
    return tree


def _wrap(reference: Reference, rule: TenantFilter, field: str, inner: str) -> None:
    table = reference.table
    outside = ["joins", "laterals", "pivots"]
    if rule.dialect in _SAMPLES_SUBQUERIES:
        outside.append("sample")
    moved = {key: table.args.get(key) for key in outside if table.args.get(key)}
    query = exp.Select(expressions=[exp.Star()])
    wrapped = exp.Subquery(this=query, alias=reference.outer_alias())
    table.replace(wrapped)
    for key, value in moved.items():
        table.set(key, None)
        wrapped.set(key, value)
    table.set("alias", exp.TableAlias(this=exp.to_identifier(inner)))
    # The table moves and is no copy: what it holds (AT, TABLESAMPLE) may read tables in turn.
    query.set("from_", exp.From(this=table))
    query.set("where", exp.Where(this=rule.condition(field, inner)))


def _refuse_foreign_rows(tree: exp.Query, dialect: str) -> None:
    """Functions in FROM that may read tables: only those that compute rows stay."""
    allowed = function_names(dialect).table | {"nodes"}  # of an XML column
    for holder in tree.find_all(exp.Table, exp.TableFromRows, exp.Lateral):
        source: Any = holder.args.get("this")
        if isinstance(source, exp.Dot):
            source = source.expression
        if type(source) in NAMED_FUNCTIONS and str(source.name).lower() not in allowed:
            raise UnsafeSql(
                f"the table function {source.name} may read rows that the filter cannot reach"
            )


_VALUES_OF_TYPE = frozenset({"enum_first", "enum_last", "enum_range", "enum_range_boundary"})


def _refuse_statistics(tree: exp.Query) -> None:
    """Functions that answer from a type or a table's statistics instead of the filtered rows."""
    for call in tree.find_all(*NAMED_FUNCTIONS):
        name = str(call.name).lower()
        if name in _VALUES_OF_TYPE:
            raise UnsafeSql(f"{name} lists the values of all tenants; select DISTINCT the column")
        if name == "bitstring_agg" and len(call.expressions) < 3:
            raise UnsafeSql(
                "bitstring_agg without bounds takes them from all tenants' rows; "
                "write bitstring_agg(column, lowest, highest)"
            )


def _fresh(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 1
    while name.lower() in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


# ---------------------------------------------------------------- names of tables and fields


def _matching(name: str, tables: Iterable[str]) -> list[str]:
    """Known tables that a reference may mean: equal, or equal but for leading parts."""
    if isinstance(tables, Mapping) and name in tables:
        return [name]
    return [table for table in tables if _same_table(name, table)]


def _same_table(left: str, right: str) -> bool:
    a, b = left.lower(), right.lower()
    return a == b or a.endswith(f".{b}") or b.endswith(f".{a}")


def _is_shared(name: str, shared: Collection[str]) -> bool:
    """A shared entry may leave out leading parts of the name; a name may not be vaguer."""
    return any(name.lower() == s.lower() or name.lower().endswith(f".{s.lower()}") for s in shared)


def _spelled(field: str, columns: Collection[str]) -> str | None:
    if field in columns:
        return field
    alike = [column for column in columns if column.lower() == field.lower()]
    return alike[0] if len(alike) == 1 else None


def _checked_field(field: Any) -> str:
    if not isinstance(field, str) or not field.strip() or "\0" in field:
        raise UnsafeSql("the tenant filter has no field; set filter_field of the datasource")
    return field.strip()


def _field(field: str, dialect: str) -> exp.Identifier:
    """Quoted, so that any name works; Snowflake folds plain names to upper case first."""
    plain = field.isascii() and field.replace("_", "a").isalnum() and field == field.lower()
    name = field.upper() if dialect == "snowflake" and plain else field
    return exp.to_identifier(name, quoted=True)


# ---------------------------------------------------------------- the value


def _literal(value: Any, dialect: str) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite()):
        return exp.Literal.number(value)
    if not isinstance(value, str):
        raise UnsafeSql(
            "the tenant filter's value must be a text or a whole number, "
            f"not {type(value).__name__}"
        )
    # T-SQL makes a question mark of what its code page lacks, unless the text is national.
    national = dialect == "tsql" and not value.isascii()
    literal = exp.National(this=value) if national else exp.Literal.string(value)
    _check_text(value, literal, dialect)
    return literal


_LINE_JOINED = re.compile(r"\\\r?\n")


def _check_text(value: str, literal: exp.Expr, dialect: str) -> None:
    """The dialect must read the written literal back as the very same text."""
    if value.isascii() and value.replace("-", "a").replace("_", "a").isalnum():
        return
    try:
        # In T-SQL a backslash at the end of a line joins it to the next and is gone.
        if "\0" in value or (dialect == "tsql" and _LINE_JOINED.search(value)):
            raise ValueError
        value.encode("utf-8")
        text = literal.sql(dialect=dialect)
        engine = Dialect.get_or_raise(dialect)
        tokens = engine.tokenize(text)
        back = cast("exp.Select", engine.parse(f"SELECT {text}")[0]).expressions[0]
    except Exception:  # noqa: BLE001 - a value that cannot be written is refused
        raise UnsafeSql(f"the tenant filter's value cannot be written in {dialect}") from None
    if len(tokens) != 1 or back != literal:
        raise UnsafeSql(f"the tenant filter's value cannot be written in {dialect}")


def sample_query(rule: TenantFilter, parts: tuple[str, ...], rows: int) -> str:
    """``SELECT *`` of the first ``rows`` rows of a table, through the filter."""
    table = exp.Table()
    for key, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
        table.set(key, exp.to_identifier(part, quoted=True))
    query = exp.Select(expressions=[exp.Star()])
    query.set("from_", exp.From(this=table))
    query.set("limit", exp.Limit(expression=exp.Literal.number(max(0, rows))))
    tree = filtered(query, rule) if rule.field else query
    return render(cast("exp.Expr", tree), rule.dialect)
