"""A DuckDB file is read and only read; results are capped while they stream."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline.errors import QueryFailed, QueryTimeout, UnsafeSql, WarehouseUnavailable
from pipeline.records import QualityKind
from pipeline.sql.rows import rows_of
from tests.adapters.warehouses.conftest import Maker, Opener

ENDLESS = (
    "SELECT count(*) FROM range(1000000) AS a(x), range(1000000) AS b(y), range(1000) AS c(z) "
    "WHERE (x * y) % 7 = z"
)


# ---------------------------------------------------------------- results


async def test_a_result_is_an_arrow_table_with_what_ran(demo_file: Path, opened: Opener) -> None:
    warehouse = opened(demo_file)
    result = await warehouse.query(
        "select carrier, count(*) as flights, sum(distance) as miles from flights -- all\n"
        "group by carrier order by flights desc;"
    )
    assert result.sql == (
        "SELECT carrier, COUNT(*) AS flights, SUM(distance) AS miles FROM flights "
        "GROUP BY carrier ORDER BY flights DESC"
    )
    assert result.row_count == result.table.num_rows == 16
    assert result.caveats == ()
    assert result.duration_ms >= 0
    assert rows_of(result.table)[0] == {"carrier": "UA", "flights": 58665, "miles": 89705524}


async def test_a_result_is_never_read_beyond_the_row_cap(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_MAX_ROWS": 100})
    result = await warehouse.query("SELECT x FROM range(100000000000) AS t(x)")
    assert result.row_count == 100
    assert rows_of(result.table)[-1] == {"x": 99}
    [caveat] = result.caveats
    assert caveat.kind is QualityKind.TRUNCATED
    assert "WAREHOUSE_MAX_ROWS" in caveat.detail


async def test_a_result_that_just_fits_has_no_caveat(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_MAX_ROWS": 100})
    result = await warehouse.query("SELECT x FROM range(100) AS t(x)")
    assert (result.row_count, result.caveats) == (100, ())


async def test_a_result_is_never_kept_beyond_the_byte_cap(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_MAX_BYTES": 100_000})
    result = await warehouse.query("SELECT repeat('x', 1000) AS s FROM range(100000000)")
    assert 0 < result.table.nbytes <= 100_000
    assert 90 <= result.row_count <= 100
    assert "WAREHOUSE_MAX_BYTES" in result.caveats[0].detail


async def test_one_row_beyond_the_byte_cap_is_told_to_the_model(
    make_file: Maker, opened: Opener
) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_MAX_BYTES": 1_000})
    with pytest.raises(QueryFailed, match="select fewer columns"):
        await warehouse.query("SELECT repeat('x', 100000) AS s")


@pytest.mark.parametrize(("asked", "given"), [(5, 5), (1_000_000, 50), (0, 0), (-1, 0)])
async def test_max_rows_may_only_lower_the_cap(
    make_file: Maker, opened: Opener, asked: int, given: int
) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_MAX_ROWS": 50})
    result = await warehouse.query("SELECT x FROM range(1000) AS t(x)", max_rows=asked)
    assert result.row_count == given
    assert result.table.column_names == ["x"]


async def test_the_cap_of_the_query_itself_is_a_caveat(demo_file: Path, opened: Opener) -> None:
    result = await opened(demo_file).query("SELECT * FROM flights LIMIT 7")
    assert [c.kind for c in result.caveats] == [QualityKind.TRUNCATED]


async def test_no_rows_is_a_result(demo_file: Path, opened: Opener) -> None:
    result = await opened(demo_file).query("SELECT * FROM flights WHERE month = 13")
    assert result.row_count == 0
    assert len(result.table.column_names) == 19


async def test_column_names_are_unique_and_not_empty(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file("SELECT 1"))
    result = await warehouse.query("SELECT 1 AS a, 2 AS a, 3, 4")
    assert len(set(result.table.column_names)) == 4
    assert result.table.column_names[:2] == ["a", "a_2"]
    [row] = rows_of(result.table)
    assert list(row.values()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sum(x)", 3),
        ("170141183460469231731687303715884105727::HUGEINT", str(2**127 - 1)),
        ("'101'::BIT", "101"),
        ("'01:02:03+02'::TIMETZ", "01:02:03+02"),
        ("'b'::ENUM('a', 'b')", "b"),
        ("1.10::DECIMAL(18, 2)", 1.1),
        ("TIMESTAMPTZ '2024-07-01 12:00:00+02'", "2024-07-01T10:00:00+00:00"),
        ("[1, 2]", [1, 2]),
        ("NULL", None),
    ],
)
async def test_values_keep_their_meaning(
    make_file: Maker, opened: Opener, expression: str, value: Any
) -> None:
    warehouse = opened(make_file("SELECT 1"))
    result = await warehouse.query(f"SELECT {expression} AS v FROM range(3) AS t(x)")
    assert rows_of(result.table)[0] == {"v": value}


async def test_a_type_written_as_text_keeps_its_odd_column_names(
    make_file: Maker, opened: Opener
) -> None:
    warehouse = opened(make_file("SELECT 1"))
    result = await warehouse.query("SELECT '1'::BIT AS \"a\"\"b\", 2 AS x, '0'::BIT AS x")
    assert rows_of(result.table) == [{'a"b': "1", "x": 2, "x_2": "0"}]


async def test_decimals_stay_exact_in_arrow(make_file: Maker, opened: Opener) -> None:
    warehouse = opened(make_file("SELECT 1"))
    result = await warehouse.query("SELECT 12345678901234567890.12::DECIMAL(38, 2) AS d")
    assert result.table.column("d").to_pylist() == [Decimal("12345678901234567890.12")]


# ---------------------------------------------------------------- refusals and errors


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM nope", "nope does not exist"),
        ("SELECT nope FROM flights", 'column "nope" not found'),
        ("SELECT 'a'::INT", "Could not convert string 'a'"),
        ("SELECT SUM(name) FROM airlines", "Binder Error"),
    ],
)
async def test_duckdbs_own_words_reach_the_model(
    demo_file: Path, opened: Opener, sql: str, words: str
) -> None:
    with pytest.raises(QueryFailed, match=words) as failure:
        await opened(demo_file).query(sql)
    assert failure.value.sql.startswith("SELECT")


@pytest.mark.parametrize(
    "sql", ["DROP TABLE flights", "INSERT INTO airlines VALUES ('x', 'y')", "SELECT getenv('HOME')"]
)
async def test_what_does_not_only_read_is_refused(
    demo_file: Path, opened: Opener, sql: str
) -> None:
    warehouse = opened(demo_file)
    with pytest.raises(UnsafeSql):
        await warehouse.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (2)",
        "COPY t TO '{folder}/out.csv'",
        "SELECT * FROM read_text('{folder}/other.txt')",
        "SELECT * FROM '{folder}/other.csv'",
        "ATTACH '{folder}/other.duckdb'",
        "SET memory_limit = '2GB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD httpfs",
    ],
)
async def test_the_session_itself_is_closed_even_without_the_guard(
    make_file: Maker, opened: Opener, tmp_path: Path, sql: str
) -> None:
    path = make_file("CREATE TABLE t AS SELECT 1 AS a")
    (tmp_path / "other.txt").write_text("secret")
    (tmp_path / "other.csv").write_text("a\n1\n")
    warehouse: Any = opened(path)
    await warehouse.ping()
    with warehouse.cursor() as cursor, pytest.raises(duckdb.Error):
        cursor.execute(sql.format(folder=tmp_path)).fetchall()


async def test_the_operator_may_allow_a_function_of_the_file(
    make_file: Maker, opened: Opener
) -> None:
    path = make_file("CREATE MACRO margin(a, b) AS a - b")
    with pytest.raises(UnsafeSql, match="margin"):
        await opened(path).query("SELECT margin(3, 1) AS m")
    result = await opened(path, extra_functions=["margin"]).query("SELECT margin(3, 1) AS m")
    assert rows_of(result.table) == [{"m": 2}]


# ---------------------------------------------------------------- time


async def test_a_query_beyond_its_time_is_cancelled_in_the_warehouse(
    make_file: Maker, opened: Opener
) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_TIMEOUT": 0.3})
    with pytest.raises(QueryTimeout, match=r"longer than 0\.3 s"):
        await asyncio.wait_for(warehouse.query(ENDLESS), 60)
    assert rows_of((await warehouse.query("SELECT 1 AS a")).table) == [{"a": 1}]


async def test_cancelling_the_task_cancels_the_query(make_file: Maker, opened: Opener) -> None:
    warehouse: Any = opened(make_file("SELECT 1"))
    await warehouse.ping()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(warehouse.query(ENDLESS), 0.3)
    assert not warehouse._calls
    assert rows_of((await warehouse.query("SELECT 1 AS a")).table) == [{"a": 1}]


async def test_the_event_loop_stays_free_while_queries_run(
    make_file: Maker, opened: Opener
) -> None:
    warehouse = opened(make_file("SELECT 1"), {"WAREHOUSE_TIMEOUT": 0.5})
    running = asyncio.gather(*(warehouse.query(ENDLESS) for _ in range(3)), return_exceptions=True)
    beats = 0
    while not running.done():
        await asyncio.sleep(0.01)
        beats += 1
    assert beats > 5
    assert all(isinstance(answer, QueryTimeout) for answer in await running)


async def test_queries_run_beside_each_other(demo_file: Path, opened: Opener) -> None:
    warehouse = opened(demo_file)
    results = await asyncio.gather(
        *(warehouse.query(f"SELECT {i} AS i, count(*) AS n FROM flights") for i in range(12))
    )
    assert [rows_of(r.table) for r in results] == [[{"i": i, "n": 336_776}] for i in range(12)]


async def test_closing_ends_what_runs_and_leaves_no_thread(
    make_file: Maker, opened: Opener
) -> None:
    warehouse: Any = opened(make_file("SELECT 1"))
    await warehouse.ping()
    running = asyncio.ensure_future(warehouse.query(ENDLESS))
    async with asyncio.timeout(60):
        while not warehouse._calls:  # noqa: ASYNC110 - it has no event for "begun"
            await asyncio.sleep(0)
    await warehouse.close()
    await warehouse.close()
    with pytest.raises((QueryTimeout, WarehouseUnavailable)):
        await running
    with pytest.raises(WarehouseUnavailable, match="closed"):
        await warehouse.query("SELECT 1")
    for thread in threading.enumerate():
        if thread.name.startswith("duckdb"):
            thread.join(60)
            assert not thread.is_alive()
