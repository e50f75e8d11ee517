"""No query reaches another tenant's rows. Every case runs on real rows of two tenants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline.errors import UnsafeSql
from pipeline.sql.guard import DIALECTS
from pipeline.sql.tenant import apply_filter

CASES = json.loads((Path(__file__).parent / "cases" / "tenants.json").read_text(encoding="utf-8"))

MINE = (
    "INSERT INTO orders VALUES (1, 'a', 10, 1, ['x']), (2, 'a', 20, 2, [])",
    "INSERT INTO customers VALUES (1, 'a', 'ann', NULL), (2, 'a', 'al', 1)",
    "INSERT INTO \"My Table\" VALUES ('a', 1)",
)
THEIRS = (
    "INSERT INTO orders VALUES (3, 'b', 999, 3, ['SECRET']), (4, 'b', 888, 1, ['SECRET']), "
    "(5, NULL, 777, 1, ['SECRET'])",
    "INSERT INTO customers VALUES (3, 'b', 'SECRETBOB', NULL), (4, 'b', 'SECRETBILL', 3)",
    "INSERT INTO \"My Table\" VALUES ('b', 999)",
    "INSERT INTO secrets VALUES ('SECRET')",
)
SECRETS = ("SECRET", "999", "888", "777", "'b'")


def database(*statements: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for statement in (
        "CREATE TABLE orders(id INT, tenant VARCHAR, amt INT, cust INT, tags VARCHAR[])",
        "CREATE TABLE customers(id INT, tenant VARCHAR, name VARCHAR, parent INT)",
        'CREATE TABLE "My Table"("Tenant" VARCHAR, "order" INT)',
        "CREATE TABLE secrets(x VARCHAR)",
        "CREATE TABLE geo(code INT, label VARCHAR)",
        "INSERT INTO geo VALUES (1, 'ok')",
        *statements,
        "CREATE SCHEMA s2",
        "CREATE TABLE s2.orders AS SELECT * FROM orders",
        "CREATE VIEW v AS SELECT * FROM orders",
        "CREATE MACRO lk() AS (SELECT max(amt) FROM orders)",
        "CREATE MACRO lkt() AS TABLE SELECT * FROM orders",
    ):
        connection.execute(statement)
    return connection


@pytest.fixture(scope="module")
def shared() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows of two tenants, and rows of nobody."""
    with database(*MINE, *THEIRS) as connection:
        yield connection


@pytest.fixture(scope="module")
def alone() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same warehouse if tenant a were its only tenant."""
    with database(*MINE) as connection:
        yield connection


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return sorted(connection.execute(sql).fetchall(), key=str)


@pytest.mark.parametrize("sql", CASES["same_as_alone"])
def test_a_query_answers_as_if_the_tenant_were_alone(
    sql: str, shared: duckdb.DuckDBPyConnection, alone: duckdb.DuckDBPyConnection
) -> None:
    got = rows(shared, apply_filter(sql, "duckdb", "tenant", "a"))
    assert not [secret for secret in SECRETS if secret in str(got).replace("SECRET' END", "")]
    try:
        expected = rows(alone, sql)
    except duckdb.Error:
        expected = rows(alone, apply_filter(sql, "duckdb", "tenant", "a"))
    assert got == expected


@pytest.mark.parametrize("sql", CASES["nothing"])
def test_what_cannot_be_filtered_gives_nothing(sql: str, shared: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises((UnsafeSql, duckdb.Error)):
        shared.execute(apply_filter(sql, "duckdb", "tenant", "a")).fetchall()


COLUMNS = {
    "main.orders": ["id", "tenant", "amt"],
    "s2.orders": ["id", "tenant", "amt"],
    "main.secrets": ["x"],
    "main.geo": ["code", "label"],
    "main.My Table": ["Tenant", "order"],
}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM secrets",
        "SELECT * FROM main.secrets",
        "SELECT * FROM memory.main.secrets",
        "SELECT * FROM orders WHERE EXISTS (SELECT 1 FROM secrets)",
        "SELECT * FROM geo",
        "WITH geo AS (SELECT * FROM geo) SELECT * FROM geo",
    ],
)
def test_a_table_that_lacks_the_field_is_refused_by_name(sql: str) -> None:
    with pytest.raises(UnsafeSql, match=r"(secrets|geo) has no column tenant"):
        apply_filter(sql, "duckdb", "tenant", "a", columns=COLUMNS)


@pytest.mark.parametrize(
    ("name", "listed"),
    [("geo", "geo"), ("main.geo", "geo"), ("geo", "main.geo"), ("GEO", "main.geo")],
)
def test_a_shared_table_is_read_whole(
    name: str, listed: str, shared: duckdb.DuckDBPyConnection
) -> None:
    sql = apply_filter(
        f"SELECT code FROM {name}", "duckdb", "tenant", "a", columns=COLUMNS, shared=[listed]
    )
    assert rows(shared, sql) == [(1,)]


def test_a_dot_inside_a_name_is_not_mistaken_for_a_shared_table() -> None:
    sql = apply_filter(
        'SELECT * FROM "main.geo"', "duckdb", "tenant", "a", columns=COLUMNS, shared=["main.geo"]
    )
    assert "tenant" in sql


SYSTEM = [
    ("duckdb", "information_schema.columns"),
    ("duckdb", "sqlite_master"),
    ("postgres", "pg_catalog.pg_class"),
    ("postgres", "pg_stats"),
    ("postgres", "information_schema.tables"),
    ("redshift", "svv_tables"),
    ("redshift", "stl_query"),
    ("bigquery", "d.INFORMATION_SCHEMA.TABLES"),
    ("bigquery", "`p`.`region-us`.INFORMATION_SCHEMA.TABLES"),
    ("bigquery", "d.__TABLES__"),
    ("snowflake", "db.information_schema.tables"),
    ("snowflake", "snowflake.account_usage.query_history"),
    ("tsql", "sys.tables"),
    ("tsql", "INFORMATION_SCHEMA.TABLES"),
    ("databricks", "system.information_schema.tables"),
]


@pytest.mark.parametrize(("dialect", "name"), SYSTEM)
def test_system_catalogs_are_refused_under_a_filter(dialect: str, name: str) -> None:
    with pytest.raises(UnsafeSql, match="use lookup_schema"):
        apply_filter(f"SELECT * FROM {name}", dialect, "tenant", "a")


def test_a_vaguer_name_is_not_shared_when_the_tables_are_not_known() -> None:
    sql = apply_filter("SELECT * FROM geo", "duckdb", "tenant", "a", shared=["main.geo"])
    assert "tenant" in sql


def test_the_field_is_written_as_the_table_spells_it(shared: duckdb.DuckDBPyConnection) -> None:
    sql = apply_filter('SELECT "order" FROM "My Table"', "duckdb", "TENANT", "a", columns=COLUMNS)
    assert '"Tenant"' in sql
    assert rows(shared, sql) == [(1,)]


def test_a_numeric_tenant_may_be_given_as_text_or_number() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'x'), (2, 'y')) v(org, n)")
        for value in ("1", 1):
            sql = apply_filter("SELECT n FROM t", "duckdb", "org", value)
            assert rows(connection, sql) == [("x",)]


NASTY = [
    "a' OR 1=1 --",
    "a'; DROP TABLE orders; --",
    "\\",
    "\\' OR 1=1 --",
    "''",
    "a\nb",
    'a"b`c]',
    "ünï-çødé 🙂",
    "$$",
    "{{x}}",
    "%s ? :x @y",
    " ",
    "",
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("value", NASTY)
def test_the_value_is_quoted_for_the_dialect(dialect: str, value: str) -> None:
    import sqlglot
    from sqlglot import exp

    sql = apply_filter("SELECT * FROM t", dialect, "tenant", value)
    trees = sqlglot.parse(sql, dialect=dialect)
    assert len(trees) == 1
    tree = trees[0]
    assert tree is not None
    condition = tree.find(exp.EQ)
    assert condition is not None
    national = dialect == "tsql" and not value.isascii()
    literal = exp.National(this=value) if national else exp.Literal.string(value)
    assert condition.expression == literal
    assert len(list(tree.find_all(exp.Literal, exp.National))) == 1


@pytest.mark.parametrize("value", NASTY)
def test_the_value_selects_exactly_its_rows(value: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t(tenant VARCHAR, n INT)")
        connection.execute("INSERT INTO t VALUES (?, 1), ('other', 2)", [value])
        sql = apply_filter("SELECT n FROM t", "duckdb", "tenant", value)
        assert rows(connection, sql) == [(1,)]


@pytest.mark.parametrize("field", ["", "  ", "a\0b"])
def test_a_filter_without_a_field_is_refused(field: str) -> None:
    with pytest.raises(UnsafeSql, match="no field"):
        apply_filter("SELECT 1", "duckdb", field, "a")


@pytest.mark.parametrize("value", [None, [], {}, b"a", "a\0b", "a\ud800", 1.5, float("nan")])
def test_a_value_that_cannot_be_written_is_refused(value: Any) -> None:
    for dialect in DIALECTS:
        with pytest.raises(UnsafeSql, match="value"):
            apply_filter("SELECT * FROM t", dialect, "tenant", value)


def test_a_text_that_t_sql_would_join_over_the_end_of_a_line_is_refused() -> None:
    for value in ("a\\\nb", "a\\\r\nb"):
        with pytest.raises(UnsafeSql, match="cannot be written in tsql"):
            apply_filter("SELECT * FROM t", "tsql", "tenant", value)


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("bigquery", "SELECT * FROM t FOR SYSTEM_TIME AS OF (SELECT MAX(a) FROM u)"),
        ("snowflake", "SELECT * FROM t AT (TIMESTAMP => (SELECT MAX(a) FROM u))"),
        ("databricks", "SELECT * FROM t TIMESTAMP AS OF (SELECT MAX(a) FROM u)"),
        ("duckdb", "SELECT * FROM t AT (VERSION => (SELECT MAX(a) FROM u))"),
        ("tsql", "SELECT * FROM t FOR SYSTEM_TIME AS OF (SELECT MAX(a) FROM u)"),
    ],
)
def test_a_table_read_inside_the_mention_of_another_is_filtered_too(dialect: str, sql: str) -> None:
    assert apply_filter(sql, dialect, "tenant", "zz-1").count("'zz-1'") == 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["a.b.c.d", "a.b.c.d.e", "srv.db..t"])
def test_a_name_of_too_many_parts_never_passes_unfiltered(dialect: str, name: str) -> None:
    with pytest.raises(UnsafeSql):
        apply_filter(f"SELECT * FROM {name}", dialect, "tenant", "a")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT * FROM t", 1),
        ("SELECT * FROM s.t AS x JOIN s.u AS y ON x.a = y.a", 2),
        ("SELECT a FROM t UNION ALL SELECT a FROM u UNION ALL SELECT a FROM t", 3),
        ("WITH x AS (SELECT * FROM t) SELECT * FROM x AS p JOIN x AS q ON p.a = q.a", 1),
        ("SELECT (SELECT MAX(a) FROM u) FROM t WHERE b IN (SELECT c FROM v)", 3),
        ("SELECT * FROM t LEFT JOIN (SELECT * FROM u) AS s ON t.a = s.a", 2),
        ("SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)", 2),
    ],
)
def test_every_base_table_in_every_scope_is_filtered_once(
    dialect: str, sql: str, reads: int
) -> None:
    filtered = apply_filter(sql, dialect, "tenant", "zz-1")
    assert filtered.count("'zz-1'") == reads


@pytest.mark.parametrize("dialect", ["tsql", "snowflake"])
def test_a_common_table_that_may_read_itself_never_reads_the_base_table(dialect: str) -> None:
    """Whether the inner name is the table or itself differs by dialect; neither may leak."""
    sql = apply_filter("WITH t AS (SELECT * FROM t) SELECT * FROM t", dialect, "tenant", "zz")
    base_reads = sql.lower().count("from t as _tenant_row")
    assert base_reads == sql.count("'zz'")
    assert "FROM t)" not in sql


def test_many_qualified_columns_are_filtered() -> None:
    columns = ", ".join(f"s.t.c{n}" for n in range(1_500))
    apply_filter(f"SELECT {columns} FROM s.t", "snowflake", "tenant", "a")


def test_the_guard_is_applied_first() -> None:
    with pytest.raises(UnsafeSql, match="only a SELECT"):
        apply_filter("DELETE FROM orders", "duckdb", "tenant", "a")
    with pytest.raises(UnsafeSql, match="made_up"):
        apply_filter("SELECT made_up(a) FROM orders", "duckdb", "tenant", "a")


def test_an_extra_function_may_compute_but_not_stand_for_a_table() -> None:
    allowed = ("lkt", "lk")
    assert apply_filter("SELECT lk()", "duckdb", "tenant", "a", extra_functions=allowed)
    with pytest.raises(UnsafeSql, match="cannot reach"):
        apply_filter("SELECT * FROM lkt()", "duckdb", "tenant", "a", extra_functions=allowed)
    applied = "SELECT * FROM t CROSS APPLY dbo.lkt(t.a) AS x"
    with pytest.raises(UnsafeSql, match="cannot reach"):
        apply_filter(applied, "tsql", "tenant", "a", extra_functions=["dbo.lkt"])


@pytest.mark.parametrize("field", ['a"b', "a b", "select", "ünï", 'x" OR 1=1 --', "a.b", "A"])
def test_any_name_may_be_the_field(field: str) -> None:
    quoted = '"' + field.replace('"', '""') + '"'
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t({quoted} VARCHAR, n INT)")
        connection.execute("INSERT INTO t VALUES ('mine', 1), ('other', 2)")
        sql = apply_filter("SELECT n FROM t WHERE TRUE OR n = 2", "duckdb", field, "mine")
        assert rows(connection, sql) == [(1,)]


def test_a_value_beyond_the_code_page_is_national_text_in_t_sql() -> None:
    assert "= N'日本'" in apply_filter("SELECT * FROM t", "tsql", "tenant", "日本")
    assert "= 'a'" in apply_filter("SELECT * FROM t", "tsql", "tenant", "a")
