"""The specification, phase 4: a description is split into plain text and Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.analysis.markdown import reduce


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("**Delays rise.** They *really* do.", "Delays rise. They really do."),
        ("# Heading\n\nText", "Heading\n\nText"),
        ("Title\n=====\ntext", "Title\n\ntext"),
        ("- one\n- two\n  - inner", "one\ntwo\ninner"),
        ("1. first\n2. second", "first\nsecond"),
        ("- [x] done\n- [ ] open", "done\nopen"),
        ("see [the docs](http://x.example)", "see the docs"),
        ("<http://x.example>", "http://x.example"),
        ("![a chart](x.png)", "a chart"),
        ("use `arr_delay`", "use arr_delay"),
        ("```sql\nSELECT 1\n```", "SELECT 1"),
        ("~~old~~ new", "old new"),
        ("> quoted", "quoted"),
        ("a\n\n---\n\nb", "a\n\nb"),
        ("line  \nbreak **x**", "line\nbreak x"),
        (
            "| Carrier | Flights |\n|---|---:|\n| UA | 58,665 |\n| **AA** | 32,729 |",
            "Carrier: UA; Flights: 58,665\nCarrier: AA; Flights: 32,729",
        ),
        ("| A | B |\n|---|---|", "A; B"),
        ("| A |  |\n|---|---|\n| 1 | x |\n|  | y |", "A: 1; x\ny"),
        ("5 &lt; 6 **x**", "5 < 6 x"),
        (r"\*literal\* **x**", "*literal* x"),
    ],
)
def test_markdown_is_reduced_to_plain_text(markdown: str, plain: str) -> None:
    assert reduce(markdown) == (plain, markdown)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A plain sentence.",
        "Two\nlines",
        "Two\n\nparagraphs",
        "arr_delay * 3 < 5 & more",
        "2013. That year",
        "growth of 5 %",
        "<b>not markdown</b>",
        "a_b_c and __x",
    ],
)
def test_a_plain_description_leaves_the_markdown_empty(text: str) -> None:
    assert reduce(text) == (text, None)


def test_space_around_and_carriage_returns_are_no_difference() -> None:
    assert reduce("  a\r\nb  \n") == ("a\nb", None)


@given(st.text())
def test_any_text_reduces(text: str) -> None:
    plain, markdown = reduce(text)
    assert markdown is None or plain.split() != markdown.split()
