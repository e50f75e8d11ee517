"""A result that ends where its query asked it to end says so."""

from __future__ import annotations

import pytest

from pipeline.records import Quality, QualityKind
from pipeline.sql.caveats import query_caveats, row_cap

CAPPED = [
    ("duckdb", "SELECT * FROM t LIMIT 10"),
    ("duckdb", "SELECT * FROM t LIMIT 10 OFFSET 5"),
    ("duckdb", "(SELECT * FROM t LIMIT 10)"),
    ("duckdb", "SELECT 1 UNION ALL SELECT 2 LIMIT 10"),
    ("duckdb", "WITH x AS (SELECT 1) SELECT * FROM x LIMIT 10"),
    ("postgres", "SELECT * FROM t FETCH FIRST 10 ROWS ONLY"),
    ("tsql", "SELECT TOP 10 * FROM t"),
    ("tsql", "SELECT TOP (10) * FROM t"),
    ("tsql", "SELECT * FROM t ORDER BY a OFFSET 0 ROWS FETCH NEXT 10 ROWS ONLY"),
    ("snowflake", "SELECT TOP 10 * FROM t"),
    ("redshift", "SELECT TOP 10 * FROM t"),
    ("bigquery", "SELECT * FROM t LIMIT 10"),
    ("databricks", "SELECT * FROM t LIMIT 10"),
    ("postgres", "SELECT * FROM t WHERE ROWNUM <= 10 AND b = 1"),
    ("snowflake", "SELECT * FROM t WHERE 10 >= ROWNUM"),
    ("snowflake", "SELECT * FROM t WHERE ROWNUM < 11 AND ROWNUM <= 20"),
    ("postgres", "SELECT * FROM t FETCH NEXT 10 ROW ONLY"),
    ("tsql", "SELECT DISTINCT TOP 10 a FROM t"),
    ("databricks", "SELECT * FROM t LIMIT 5, 10"),
    ("bigquery", "FROM t |> LIMIT 10"),
    ("duckdb", "SELECT * FROM t LIMIT 10; -- the first ten"),
]
OPEN = [
    ("duckdb", "SELECT * FROM t"),
    ("duckdb", "SELECT * FROM (SELECT * FROM t LIMIT 10)"),
    ("duckdb", "WITH x AS (SELECT * FROM t LIMIT 10) SELECT * FROM x"),
    ("duckdb", "SELECT * FROM t LIMIT 10%"),
    ("duckdb", "SELECT * FROM t LIMIT 11"),
    ("duckdb", "SELECT 'limit 10' FROM t"),
    ("tsql", "SELECT TOP 10 PERCENT * FROM t"),
    ("tsql", "SELECT TOP 10 WITH TIES * FROM t ORDER BY a"),
    ("postgres", "SELECT * FROM t FETCH FIRST 10 ROWS WITH TIES"),
    ("postgres", "SELECT * FROM t LIMIT ALL"),
    ("duckdb", "not sql at all ("),
    ("nonsense", "SELECT 1 LIMIT 10"),
    ("duckdb", "(SELECT 1 LIMIT 10) UNION ALL (SELECT 2 LIMIT 10)"),
    ("snowflake", "SELECT * FROM t WHERE a = 1 OR ROWNUM <= 10"),
    ("snowflake", "SELECT * FROM t FETCH FIRST 10 PERCENT ROWS ONLY"),
    ("tsql", "SELECT a FROM t ORDER BY a OFFSET 10 ROWS"),
    ("tsql", "SELECT * FROM (SELECT TOP 10 * FROM t) AS x"),
    ("duckdb", "SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " LIMIT 10"),
]


@pytest.mark.parametrize(("dialect", "sql"), CAPPED)
def test_limit_top_and_fetch_that_equal_the_rows_returned_are_truncated(
    dialect: str, sql: str
) -> None:
    caveat = row_cap(sql, dialect, 10)
    assert caveat is not None
    assert caveat.kind is QualityKind.TRUNCATED
    assert "10" in caveat.detail
    assert row_cap(sql, dialect, 9) is None


@pytest.mark.parametrize(("dialect", "sql"), OPEN)
def test_no_cap_of_the_outermost_query_gives_no_caveat(dialect: str, sql: str) -> None:
    assert row_cap(sql, dialect, 10) is None


def test_no_rows_are_never_truncated() -> None:
    assert row_cap("SELECT * FROM t LIMIT 0", "duckdb", 0) is None


@pytest.mark.parametrize(
    ("dialect", "sql", "kinds"),
    [
        ("duckdb", "SELECT * FROM t USING SAMPLE 10 ROWS", ["sampled"]),
        ("duckdb", "SELECT * FROM t USING SAMPLE 100%", []),
        ("bigquery", "SELECT * FROM t TABLESAMPLE SYSTEM (10 PERCENT)", ["sampled"]),
        ("snowflake", "SELECT * FROM t SAMPLE (5)", ["sampled"]),
        ("postgres", "SELECT * FROM (SELECT * FROM t TABLESAMPLE BERNOULLI (1)) x", ["sampled"]),
        ("databricks", "SELECT * FROM t TABLESAMPLE (5 ROWS) LIMIT 3", ["truncated", "sampled"]),
        ("tsql", "SELECT TOP 3 * FROM t", ["truncated"]),
        ("duckdb", "SELECT 'sample' AS tablesample", []),
        ("duckdb", "no sql", []),
    ],
)
def test_a_query_that_reads_a_sample_says_so(dialect: str, sql: str, kinds: list[str]) -> None:
    assert [caveat.kind.value for caveat in query_caveats(sql, dialect, 3)] == kinds


def test_a_cap_of_ours_is_named_rather_than_the_query_s_own() -> None:
    cut = Quality(kind=QualityKind.TRUNCATED, detail="ours")
    assert query_caveats("SELECT * FROM t LIMIT 3", "duckdb", 3, cut=cut) == (cut,)
