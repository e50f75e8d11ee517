"""Which names of a query mean tables of the warehouse, and which its own common tables (CTEs).

The rule errs to one side: a name is a common table only where every dialect says so. Where they
differ (a common table that reads itself, names that differ in case) the common table gets a name
of its own, so that a warehouse that reads the name otherwise finds no table rather than all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp

_CASE_SENSITIVE_QUOTES = frozenset({"postgres", "snowflake"})
_TABLES_BEFORE_FIELDS = frozenset({"duckdb", "postgres", "tsql"})
"""Dialects in which ``a.b.c`` is column c of table a.b, even beside a source that is called a."""
_Scope = Mapping[str, exp.CTE]


@dataclass(slots=True)
class Reference:
    """One mention of a base table."""

    table: exp.Table
    dialect: str
    alias: str = ""
    """The alias it gets when it has none of its own and its name is taken beside it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Catalog, dataset and table, as far as they are written."""
        return tuple(part.name for part in self.table.parts)

    def outer_alias(self) -> exp.TableAlias:
        """What the query calls the table: its alias, else its name."""
        alias = self.table.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.args.get("this") is not None:
            return alias.copy()
        columns = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        quoted = bool(self.table.this.args.get("quoted"))
        name = exp.to_identifier(self.alias or self.names[-1], quoted=quoted or None)
        return exp.TableAlias(this=name, columns=columns)

    def requalify(self, taken: set[str], sources: Sources) -> None:
        """Let ``dataset.table.column`` go on meaning this table once it is a subquery."""
        owner = self.table.find_ancestor(exp.Select)
        if self.table.alias or owner is None:
            return
        columns = owner.find_all(exp.Column)
        mentions = [column for column in columns if self._is_mentioned(column, owner, sources)]
        if len(self.names) > 1 and _namesakes(self.table, owner):
            self.alias = _numbered(self.names[-1], taken)
        for column in mentions:
            column.set("table", self.outer_alias().this.copy())
            column.set("db", None)
            column.set("catalog", None)

    def _is_mentioned(self, column: exp.Column, owner: exp.Select, sources: Sources) -> bool:
        path = tuple(part.name.lower() for part in column.parts[:-1])
        names = tuple(name.lower() for name in self.names)
        if len(path) < 2 or path[-1] != names[-1]:
            return False
        shorter = min(len(path), len(names))
        if path[-shorter:] != names[-shorter:]:
            return False
        if self.dialect not in _TABLES_BEFORE_FIELDS and path[0] in sources.of(owner):
            return False
        return sources.nearest_owner(column, names[-1]) is owner


def base_tables(tree: exp.Expr, dialect: str) -> list[Reference]:
    """Every mention of a base table, in no promised order."""
    return [
        Reference(table, dialect)
        for table, scope in _tables(tree, dialect)
        if _common_table(table, scope, dialect) is None
    ]


def rename_common_tables(tree: exp.Expr, dialect: str) -> None:
    """Give a common table a name of its own wherever a dialect could take it for a base table."""
    if tree.find(exp.CTE) is None:
        return
    mentions: dict[int, list[exp.Table]] = {}
    commons: dict[int, exp.CTE] = {}
    for table, scope in _tables(tree, dialect):
        common = _common_table(table, scope, dialect)
        if common is not None:
            mentions.setdefault(id(common), []).append(table)
            commons[id(common)] = common
    taken = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    for key, common in commons.items():
        if any(_is_doubtful(table, common) for table in mentions[key]):
            _rename(common, mentions[key], _numbered(common.alias, taken))


def _is_doubtful(table: exp.Table, common: exp.CTE) -> bool:
    inside = any(parent is common for parent in _ancestors(table))
    return inside or table.name != common.alias


def _rename(common: exp.CTE, mentions: list[exp.Table], name: str) -> None:
    alias = cast("exp.TableAlias", common.args["alias"])
    alias.set("this", exp.to_identifier(name))
    for table in mentions:
        if not table.alias:
            old = cast("exp.Identifier", table.this).copy()
            given = table.args.get("alias")
            columns = given.args.get("columns") if isinstance(given, exp.TableAlias) else None
            table.set("alias", exp.TableAlias(this=old, columns=columns))
        table.set("this", exp.to_identifier(name))


# ---------------------------------------------------------------- scopes


def _tables(tree: exp.Expr, dialect: str) -> Iterator[tuple[exp.Table, _Scope]]:
    """Every table mention with the common tables that are visible to it."""
    pending: list[tuple[exp.Expr, _Scope]] = [(tree, {})]
    while pending:
        node, scope = pending.pop()
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            yield node, scope
        clause = node.args.get("with_")
        if isinstance(clause, exp.With):
            scope = _enter(clause, scope, dialect, pending)
        pending.extend((c, scope) for c in node.iter_expressions() if c.arg_key != "with_")


def _enter(
    clause: exp.With, outer: _Scope, dialect: str, pending: list[tuple[exp.Expr, _Scope]]
) -> _Scope:
    """Queue the bodies of a WITH clause, each with what it may see; return what the query sees."""
    scope: dict[str, exp.CTE] = dict(outer)
    for common in cast("list[exp.CTE]", clause.expressions):
        before = dict(scope)
        scope[_key(common.args["alias"].this, dialect)] = common
        body = common.this
        if dialect == "tsql":
            pending.append((body, dict(scope)))
        elif clause.args.get("recursive") and isinstance(body, exp.Union):
            _queue_recursive(body, before, dict(scope), dialect, pending)
        else:
            pending.append((body, before))
    return scope


def _queue_recursive(
    body: exp.Union,
    before: _Scope,
    inside: _Scope,
    dialect: str,
    pending: list[tuple[exp.Expr, _Scope]],
) -> None:
    """Only the second arm of the UNION sees the common table that is being defined."""
    clause = body.args.get("with_")
    if isinstance(clause, exp.With):
        inner = _enter(clause, before, dialect, pending)
        own = {key: inner[key] for key in inner if key not in before or inner[key] != before[key]}
        before, inside = inner, {**inside, **own}
    for child in body.iter_expressions():
        if child.arg_key != "with_":
            pending.append((child, inside if child.arg_key == "expression" else before))


def _common_table(table: exp.Table, scope: _Scope, dialect: str) -> exp.CTE | None:
    if table.args.get("db") is not None or table.args.get("catalog") is not None:
        return None
    return scope.get(_key(table.this, dialect))


def _key(name: Any, dialect: str) -> str:
    """Two names with the same key mean the same common table."""
    text = str(name.name)
    if dialect in _CASE_SENSITIVE_QUOTES:
        folded = text.upper() if dialect == "snowflake" else text.lower()
        return text if name.args.get("quoted") else folded
    return text.lower()


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


# ---------------------------------------------------------------- names beside each other


def _own_tables(owner: exp.Select) -> Iterator[exp.Table]:
    return (t for t in owner.find_all(exp.Table) if t.find_ancestor(exp.Select) is owner)


class Sources:
    """The names by which the tables of each SELECT may be called; each is looked up once."""

    def __init__(self) -> None:
        self._names: dict[int, set[str]] = {}

    def of(self, owner: exp.Select) -> set[str]:
        """In lower case; they stay the same while only columns change."""
        known = self._names.get(id(owner))
        if known is None:
            known = {table.alias_or_name.lower() for table in _own_tables(owner)}
            self._names[id(owner)] = known
        return known

    def nearest_owner(self, column: exp.Column, name: str) -> exp.Select | None:
        """The innermost SELECT around ``column`` with a table of that name."""
        for parent in _ancestors(column):
            if isinstance(parent, exp.Select) and name in self.of(parent):
                return parent
        return None


def _namesakes(table: exp.Table, owner: exp.Select) -> bool:
    """True when an earlier table beside this one goes by the same name."""
    for other in _own_tables(owner):
        if other is table:
            return False
        if other.alias_or_name.lower() == table.name.lower():
            return True
    return False


def _numbered(wanted: str, taken: set[str]) -> str:
    count = 2
    while f"{wanted}_{count}".lower() in taken:
        count += 1
    name = f"{wanted}_{count}"
    taken.add(name.lower())
    return name
