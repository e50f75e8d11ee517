"""Combine: the full table of 7 x 7 x 2 cells, absent and unknown verdicts, written out.

Rows are the verifier, columns the refuter. C confirmed, S supported, P partial, R rejected,
U unverifiable, D validation_disabled, K skipped_budget_cap; ``-`` no verdict (None), ``?`` one
whose overall is empty or unknown.
"""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.records import Status, StructuredVerdict
from pipeline.validation.combine import combine

LETTERS = {
    "C": Status.CONFIRMED,
    "S": Status.SUPPORTED,
    "P": Status.PARTIAL,
    "R": Status.REJECTED,
    "U": Status.UNVERIFIABLE,
    "D": Status.VALIDATION_DISABLED,
    "K": Status.SKIPPED_BUDGET_CAP,
}

REFUTER_EXPECTED = """
      C S P R U D K - ?
    C C C S R S S S S S
    S S S P R P P P P P
    P P P P R P P P P P
    R R R R R R R R R R
    U U U U R U U U U U
    D D D D D D D D D D
    K K K K K K K K K K
    - U U U U U U U U U
    ? U U U R U U U U U
"""
REFUTER_DISABLED = """
      C S P R U D K - ?
    C C C C R C C C C C
    S S S S R S S S S S
    P P P P R P P P P P
    R R R R R R R R R R
    U U U U R U U U U U
    D D D D D D D D D D
    K K K K K K K K K K
    - U U U U U U U U U
    ? U U U R U U U U U
"""


def cells(table: str, disabled: bool) -> list[Any]:
    header, *rows = [line.split() for line in table.strip().splitlines()]
    return [
        pytest.param(
            row[0], refuter, disabled, LETTERS[expected], id=f"{row[0]}{refuter}{disabled}"
        )
        for row in rows
        for refuter, expected in zip(header, row[1:], strict=True)
    ]


EVERY_CELL = [*cells(REFUTER_EXPECTED, False), *cells(REFUTER_DISABLED, True)]


def verdict_of(letter: str) -> StructuredVerdict | None:
    if letter == "-":
        return None
    overall = "" if letter == "?" else LETTERS[letter].value
    return StructuredVerdict(overall=overall)


def test_the_table_holds_the_98_cells_and_the_absent_and_unknown_ones() -> None:
    assert len(EVERY_CELL) == 9 * 9 * 2


@pytest.mark.parametrize(("verifier", "refuter", "disabled", "expected"), EVERY_CELL)
def test_combine_is_the_published_truth_table(
    verifier: str, refuter: str, disabled: bool, expected: Status
) -> None:
    one, other = verdict_of(verifier), verdict_of(refuter)
    assert combine(one, other, refuter_disabled=disabled) is expected
    plain = [None if v is None else v.model_dump() for v in (one, other)]
    assert combine(plain[0], plain[1], refuter_disabled=disabled) is expected


@pytest.mark.parametrize("overall", ["", "spported", "Confirmed", " confirmed", None, 7, [], {}])
def test_an_unknown_overall_has_no_weight(overall: Any) -> None:
    odd = {"overall": overall}
    assert combine(odd, {"overall": "supported"}, refuter_disabled=False) is Status.UNVERIFIABLE
    assert combine(odd, {"overall": "rejected"}, refuter_disabled=False) is Status.REJECTED
    assert combine({"overall": "supported"}, odd, refuter_disabled=False) is Status.PARTIAL
    assert combine({"overall": "confirmed"}, odd, refuter_disabled=False) is Status.SUPPORTED
    assert combine({"overall": "confirmed"}, odd, refuter_disabled=True) is Status.CONFIRMED


def test_an_empty_object_is_a_verdict_without_weight_and_not_a_missing_one() -> None:
    assert combine({}, {"overall": "rejected"}, refuter_disabled=False) is Status.REJECTED
    assert combine(None, {"overall": "rejected"}, refuter_disabled=False) is Status.UNVERIFIABLE


@pytest.mark.parametrize(("verifier", "refuter", "disabled", "expected"), EVERY_CELL)
def test_a_bare_status_stands_for_its_verdict(
    verifier: str, refuter: str, disabled: bool, expected: Status
) -> None:
    one, other = (None if v == "-" else LETTERS.get(v, "") for v in (verifier, refuter))
    assert combine(one, other, refuter_disabled=disabled) is expected
