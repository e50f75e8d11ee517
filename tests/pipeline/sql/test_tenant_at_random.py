"""Queries nobody thought of: each answers as if the tenant were alone in the warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from pipeline.sql.tenant import apply_filter

NUMBERS = {"orders": ("id", "amt", "cust"), "customers": ("id", "parent"), "items": ("id", "qty")}
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
SHADOWS = ("orders", "customers", "Items", "tenant", "_tenant_row")
BATCHES, QUERIES = 10, 25


class Writer:
    """Writes one random query; a source is its text, its alias and its number columns."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.count = 0

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def source(self, depth: int, known: dict[str, tuple[str, ...]]) -> tuple[str, str, list[str]]:
        if known and self.random.random() < 0.4:
            name = self.random.choice(list(known))
            alias = self.fresh("c")
            return f"{name} AS {alias}", alias, [f"{alias}.{c}" for c in known[name]]
        if depth > 0 and self.random.random() < 0.3:
            alias = self.fresh("s")
            return f"({self.query(depth - 1, known)}) AS {alias}", alias, [f"{alias}.n"]
        table = self.random.choice(list(NUMBERS))
        place = self.pick("", "main.", "s2.", "memory.main.")
        shown = self.pick(table, table.upper(), f'"{table}"')
        columns = NUMBERS[table]
        if not place and table in {name.lower() for name in known}:
            place = "main."
        if self.random.random() < 0.3:
            return place + shown, table, [f"{table}.{c}" for c in columns]
        alias = self.pick(self.fresh("t"), self.fresh("t"), *SHADOWS)
        return f"{place}{shown} AS {alias}", alias, [f"{alias}.{c}" for c in columns]

    def relation(self, depth: int, known: dict[str, tuple[str, ...]]) -> tuple[str, list[str]]:
        text, alias, columns = self.source(depth, known)
        if depth < 1 or self.random.random() < 0.4:
            return text, columns
        other, second, more = self.source(depth - 1, known)
        if alias.lower() == second.lower():
            return text, columns
        left, right = self.random.choice(columns), self.random.choice(more)
        join = self.pick(*JOINS)
        text = f"{text} {join} {other} ON {left} = {right}"
        return text, columns if join in JOINS[-2:] else columns + more

    def condition(self, columns: list[str], depth: int, known: dict[str, tuple[str, ...]]) -> str:
        column = self.random.choice(columns)
        if depth > 0 and self.random.random() < 0.5:
            text, inner = self.relation(depth - 1, known)
            found = self.random.choice(inner)
            return self.pick(
                f"{column} IN (SELECT {found} FROM {text})",
                f"EXISTS (SELECT 1 FROM {text} WHERE {found} >= {column})",
                f"NOT EXISTS (SELECT 1 FROM {text} WHERE {found} > {column})",
                f"{column} <= (SELECT MAX({found}) FROM {text})",
                f"{column} <> ALL (SELECT {found} FROM {text} WHERE {found} IS NOT NULL)",
            )
        return self.pick(
            "TRUE OR 1 = 1", f"{column} > 2", f"{column} IS NOT NULL", f"{column} = 900"
        )

    def select(self, depth: int, known: dict[str, tuple[str, ...]]) -> str:
        text, columns = self.relation(depth, known)
        column = self.random.choice(columns)
        value = self.pick(
            column,
            f"MAX({column})",
            f"SUM({column})",
            "COUNT(*)",
            f"SUM({column}) OVER ()",
            f"RANK() OVER (ORDER BY {column})",
        )
        where = self.condition(columns, depth, known)
        if self.random.random() < 0.2:
            return f"FROM {text} SELECT {value} AS n WHERE {where}"
        return f"SELECT {value} AS n FROM {text} WHERE {where}"

    def query(self, depth: int, known: dict[str, tuple[str, ...]]) -> str:
        chance = self.random.random()
        if depth > 0 and chance < 0.25:
            name = self.pick(*SHADOWS)
            body = self.query(depth - 1, known)
            word = self.pick("", "", "RECURSIVE ")
            return f"WITH {word}{name} AS ({body}) {self.select(depth, {**known, name: ('n',)})}"
        if depth > 0 and chance < 0.4:
            operator = self.pick("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "UNION ALL BY NAME")
            return f"{self.select(depth - 1, known)} {operator} {self.select(depth - 1, known)}"
        return self.select(depth, known)


def database(tenants: dict[str | None, int]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE SCHEMA s2")
    for schema in ("main", "s2"):
        for table, columns in NUMBERS.items():
            numbers = ", ".join(f"{column} INT" for column in columns)
            connection.execute(f"CREATE TABLE {schema}.{table}(tenant VARCHAR, {numbers})")
            for tenant, base in tenants.items():
                rows = [
                    [tenant, *(base + (i + j) % 4 for j in range(len(columns)))] for i in range(5)
                ]
                marks = ", ".join("?" for _ in range(len(columns) + 1))
                connection.executemany(f"INSERT INTO {schema}.{table} VALUES ({marks})", rows)
    return connection


@pytest.fixture(scope="module")
def shared() -> Iterator[duckdb.DuckDBPyConnection]:
    with database({"b": 900, "a": 1, None: 2, "A": 3}) as connection:
        yield connection


@pytest.fixture(scope="module")
def alone() -> Iterator[duckdb.DuckDBPyConnection]:
    with database({"a": 1}) as connection:
        yield connection


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    return sorted(map(repr, connection.execute(sql).fetchall()))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_random_query_answers_as_if_the_tenant_were_alone(
    batch: int, shared: duckdb.DuckDBPyConnection, alone: duckdb.DuckDBPyConnection
) -> None:
    compared = 0
    for number in range(QUERIES):
        sql = Writer(batch * QUERIES + number).query(2, {})
        try:
            expected = rows(alone, sql)
        except duckdb.Error:
            continue  # a query that DuckDB itself does not take
        assert rows(shared, apply_filter(sql, "duckdb", "tenant", "a")) == expected, sql
        compared += 1
    assert compared > QUERIES // 3
