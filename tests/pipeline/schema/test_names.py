"""Names of tables are written so that they can be taken apart again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.schema.names import bare, parts_of, pieces, spelled

PARTS = st.text(min_size=1, max_size=6, alphabet='ab.".`[] \n')


@settings(max_examples=50)
@given(PARTS, PARTS)
def test_what_was_spelled_is_taken_apart_again(schema: str, table: str) -> None:
    assert parts_of(spelled((schema, table))) == (schema, table)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("main", "flights"), "main.flights"),
        (("main", "with space"), "main.with space"),
        (("main", "data.csv"), 'main."data.csv"'),
        (("my.schema", "plain"), '"my.schema".plain'),
        (("main", 'quo"te'), 'main.quo"te'),
        (("main", '"x"'), 'main."""x"""'),
    ],
)
def test_a_part_with_a_dot_or_a_quote_in_front_is_quoted(parts: tuple[str, ...], name: str) -> None:
    assert spelled(parts) == name
    assert bare(name) == parts[-1].strip('"')


@pytest.mark.parametrize(
    ("name", "dialect", "parts"),
    [
        ("t", "duckdb", ("t",)),
        ("main.my.table", "duckdb", ("main", "my.table")),
        ("p.s.t", "bigquery", ("p", "s", "t")),
        ("p.s.t.u", "snowflake", ("p", "s", "t.u")),
        ("s.t", "databricks", ("s", "t")),
        ('"a.b".c', "postgres", ("a.b", "c")),
        ("", "duckdb", ("",)),
    ],
)
def test_a_listed_name_has_as_many_parts_as_its_dialect_knows(
    name: str, dialect: str, parts: tuple[str, ...]
) -> None:
    assert parts_of(name, dialect) == parts


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("[main].[flights]", ("main", "flights")),
        ("`my-project`.`s`.t", ("my-project", "s", "t")),
        ("`main.flights`", ("main.flights",)),
        (' "main" . "a.b" ', ("main", "a.b")),
        ("cafe\u0301", ("caf\u00e9",)),
        ("", ("",)),
        ("..", ("", "", "")),
    ],
)
def test_a_name_that_somebody_wrote_loses_its_quotes(written: str, parts: tuple[str, ...]) -> None:
    assert pieces(written) == parts
