"""Section F.4 of the reference: what is read from the fixer's reply and what it is shown."""

from __future__ import annotations

import json

import pytest

from pipeline.ports import ChatReply
from pipeline.records import Column, Table
from pipeline.sql.healing import judge_repair
from pipeline.sql.repair import describe_tables, extract_sql


def table(name: str, *columns: str) -> Table:
    return Table(name=name, columns=[Column(name=column, type="INTEGER") for column in columns])


def fence(sql: str) -> str:
    return f"```sql\n{sql}\n```"


# ---------------------------------------------------------------- reading the reply

EXTRACTED = {
    "a sql fence": ("Here:\n```sql\nSELECT 1\n```\nDone.", "SELECT 1"),
    "a sql fence on one line": ("```sql SELECT 1```", "SELECT 1"),
    "a sql fence that never closes": ("```sql\nSELECT 1", "SELECT 1"),
    "a sql fence before json": (
        '```json\n{"fixed_sql": "SELECT 2"}\n```\n```sql\nSELECT 1\n```',
        "SELECT 1",
    ),
    "a sql fence with json in it": ('```sql\n{"fixed_sql": "SELECT 1"}\n```', "SELECT 1"),
    "the last sql fence": ("```sql\nSELECT 2\n```\nbetter\n```sql\nSELECT 1\n```", "SELECT 1"),
    "the query quoted back after the repair": (
        "```sql\nSELECT 1\n```\ninstead of\n```sql\nSELECT bad\n```",
        "SELECT 1",
    ),
    "a json fence": ('```json\n{"fixed_sql": "SELECT 1", "why": "}"}\n```', "SELECT 1"),
    "a plain fence with a select": ("```\nSELECT 1 FROM a\n```", "SELECT 1 FROM a"),
    "a plain fence with a with": ("```\nWITH a AS (SELECT 1)\n```", "WITH a AS (SELECT 1)"),
    "a fence of another tag": ("```duckdb\nFROM t SELECT 1\n```", "FROM t SELECT 1"),
    "a fence without a tag on one line": ("```SELECT 1```", "SELECT 1"),
    "raw json": ('The column was wrong. {"fixed_sql": "SELECT 1"}', "SELECT 1"),
    "raw json in the explorer's words": ('{"rationale": "r", "query": "SELECT 1"}', "SELECT 1"),
    "a raw select": ("SELECT 1", "SELECT 1"),
    "a raw select between prose": (
        "With this it runs:\nSELECT 1\nFROM t;\nIt reads less.",
        "SELECT 1\nFROM t",
    ),
    "a raw with": (
        "Fixed:\nWITH x AS (SELECT 1)\nSELECT * FROM x",
        "WITH x AS (SELECT 1)\nSELECT * FROM x",
    ),
    "a semicolon in a string": ("SELECT ';' AS a, 1", "SELECT ';' AS a, 1"),
    "think block first": ("<think>```sql\nSELECT 2\n```</think>```sql\nSELECT 1\n```", "SELECT 1"),
    "only thoughts": ("<think>SELECT 1", ""),
    "backticks in the query": ("```sql\nSELECT `a` FROM `p.d.t`\n```", "SELECT `a` FROM `p.d.t`"),
    "a fence of tildes": ("~~~sql\nSELECT 1\n~~~", "SELECT 1"),
    "a fence whose sql holds a fence": ("```sql\nSELECT '```' AS a\n```", "SELECT '```' AS a"),
    "a plain fence that begins with a comment": (
        "```\n-- fixed\nSELECT 1\n```",
        "-- fixed\nSELECT 1",
    ),
    "a fence with carriage returns": ("```sql\r\nSELECT 1\r\n```", "SELECT 1"),
    "json in capitals": ('{"Fixed_SQL": "SELECT 1"}', "SELECT 1"),
    "json that holds a fence": ('{"fixed_sql": "```sql\\nSELECT 1\\n```"}', "SELECT 1"),
    "a raw from": ("FROM t SELECT a", "FROM t SELECT a"),
    "a raw select behind a colon": ("Corrected query: SELECT a FROM t", "SELECT a FROM t"),
    "a raw select in backticks": ("`SELECT 1`", "SELECT 1"),
    "a raw select in bold": ("**SELECT 1**", "SELECT 1"),
    "prose that begins with from": ("From the error, a column is missing.", ""),
    "prose": ("I would select another column, from elsewhere.", ""),
    "nothing": ("", ""),
    "a fence of python": ("```python\nprint(1)\n```", ""),
    "broken json": ('{"fixed_sql": "SELECT 1"', ""),
}


@pytest.mark.parametrize(("reply", "sql"), EXTRACTED.values(), ids=EXTRACTED.keys())
def test_extraction_order(reply: str, sql: str) -> None:
    assert extract_sql(reply, original="SELECT bad") == sql


@pytest.mark.parametrize(
    ("reply", "sql"),
    [
        ("```sql\nSELECT 1\n```\nand so on", "SELECT 1"),
        ("```sql\nSELECT 1", ""),
        ("SELECT 1", ""),
        (json.dumps({"fixed_sql": "SELECT 1"}), "SELECT 1"),
    ],
)
def test_what_is_cut_off_is_not_trusted(reply: str, sql: str) -> None:
    assert extract_sql(reply, cut_off=True) == sql


def test_a_repair_is_judged_against_all_that_was_tried() -> None:
    assert judge_repair(ChatReply(fence("SELECT 3")), ["SELECT 1", "SELECT 2"]) == ("SELECT 3", "")
    assert judge_repair(ChatReply(fence("SELECT 1;")), ["SELECT 1", "SELECT 2"])[0] == ""


# ---------------------------------------------------------------- the tables that are shown

TABLES = [
    table("main.flights", "carrier", "dep_delay"),
    table("main.planes", "tailnum"),
    table("main.Order Lines", "id"),
    table("main.wide", *(f"c{i}" for i in range(200))),
]


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        ("SELECT * FROM FLIGHTS", ["main.flights: carrier INTEGER, dep_delay INTEGER"]),
        ('SELECT * FROM main."planes"', ["main.planes: tailnum INTEGER"]),
        ('SELECT * FROM "Order Lines"', ["main.Order Lines: id INTEGER"]),
        ("SELECT * FROM main.flight", ["near flight: main.flights"]),
        (
            "SELECT * FROM flights JOIN plane USING (tailnum)",
            ["main.flights: carrier INTEGER, dep_delay INTEGER", "near plane: main.planes"],
        ),
        ("SELECT 1", ["tables: main.flights, main.planes, main.Order Lines, main.wide"]),
    ],
)
def test_tables_that_the_query_names_and_near_names_are_shown(sql: str, lines: list[str]) -> None:
    assert describe_tables(sql, TABLES).splitlines() == lines


def test_a_wide_table_is_cut() -> None:
    assert describe_tables("SELECT * FROM wide", TABLES).endswith("c119 INTEGER, and 80 more")
