"""Sensible number formats that lose nothing."""

from __future__ import annotations

from typing import Any

import pytest

from serve.report.numbers import cell, clean, duration, exact, number, plural, short, spoken


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (336776, "336,776"),
        (-1234, "-1,234"),
        (10**18, "1,000,000,000,000,000,000"),
        (0.0, "0"),
        (45.0, "45"),
        (12.6390704, "12.64"),
        (20.5, "20.5"),
        (123.456, "123.5"),
        (1234.56, "1,235"),
        (0.415, "0.415"),
        (0.0041567, "0.00416"),
        (0.00000123, "1.23e-06"),
        (-0.25, "-0.25"),
        (0.1 + 0.2, "0.3"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (950, "950"),
        (9999, "9,999"),
        (12345, "12.3K"),
        (336776, "336.8K"),
        (2.5e6, "2.5M"),
        (1e9, "1B"),
        (-20000, "-20K"),
        (19.96, "19.96"),
    ],
)
def test_short_numbers_for_a_picture(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(5000, "5K"), (0, "0"), (2500, "2.5K"), (-500, "-0.5K")]
)
def test_an_axis_has_one_unit(value: float, text: str) -> None:
    assert short(value, like=25_000) == text


@pytest.mark.parametrize(
    ("value", "column", "text", "exact"),
    [
        (2013, "year", "2013", "2013"),
        (10001, "plane_id", "10001", "10001"),
        (336776, "flights", "336,776", "336776"),
        (12.639070430, "avg_delay", "12.64", "12.63907043"),
        (None, "x", "–", "null"),
        (True, "x", "yes", "true"),
        ("a\x1b[31mb", "x", "a\ufffd[31mb", "a\ufffd[31mb"),
        ("\u202ecod.exe", "x", "\ufffdcod.exe", "\ufffdcod.exe"),
        ({"a": [1]}, "x", '{"a": [1]}', '{"a": [1]}'),
        ("", "x", "", ""),
    ],
)
def test_cells_keep_the_exact_value_beside_the_shown_one(
    value: Any, column: str, text: str, exact: str
) -> None:
    shown = cell(value, column)
    assert (shown.text, shown.exact) == (text, exact)


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (336776, "flights", "336,776"),
        (-1234.56789, "delta", "-1,234.56789"),
        (20.2155425219941, "delay", "20.2155425219941"),
        (10001, "plane_id", "10001"),
        (2013, "year", "2013"),
        (True, "x", "true"),
        (float("inf"), "x", "inf"),
        ("54173", "x", "54173"),
        (None, "x", "null"),
    ],
)
def test_exact_numbers_keep_their_thousands_apart(value: Any, column: str, text: str) -> None:
    assert exact(value, column) == text


def test_a_long_cell_is_cut_and_kept_whole_beside() -> None:
    shown = cell("x" * 1000)
    assert len(shown.text) == 300
    assert len(shown.exact) == 1000


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(8, "8 ms"), (1400, "1.4 s"), (125_000, "2 min 5 s")]
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_words() -> None:
    assert spoken("avg_dep_delay") == "average dep delay"
    assert spoken("share_pct") == "share %"
    assert spoken("") == "value"
    assert plural(1, "query", "queries") == "1 query"
    assert plural(2000, "row") == "2,000 rows"
    assert clean("a\r\nb\rc\tगा\u200d") == "a\nb\nc\tगा\u200d"
