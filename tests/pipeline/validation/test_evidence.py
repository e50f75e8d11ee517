"""Attestation (design, decision 2): honest rows pass, however they are written; no other does."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import ClaimEvidence, ClaimVerdict, StructuredVerdict
from pipeline.validation.evidence import Returned, attest, attested

LONG = "The departure was late because the crew waited for a connecting aircraft. " * 9
RETURNED: list[dict[str, Any]] = [
    {
        "Carrier": "UA",
        "name": "United Air Lines  Inc.",
        "flights": 58665,
        "avg_delay": 12.106072888,
        "share": 0.174194,
        "pct_late": 17.4,
        "first_day": "2013-01-01T00:00:00",
        "seen_at": "2013-01-01T05:15:00+00:00",
        "code": "00501",
        "total": "12345678901234567890.25",
        "nothing": None,
        "cancelled": False,
        "balance": -1234.5,
        "tags": '["a", "b"]',
        "parts": {"a": 1, "b": [2.5]},
        "note": LONG,
        "grouped": "58,665",
        "late": "17.4%",
        "ratio": "NaN",
    },
    {"Carrier": "B6", "name": "JetBlue Airways", "flights": 54635, "avg_delay": 13.02},
    {"miles": 1234567, "tiny": 0.00012345, "whole": 17, "near": 99.6, "third": 1 / 3, "zero": 0},
]

HONEST: list[tuple[str, Any]] = [
    ("the whole row", RETURNED[1]),
    ("fewer columns", {"Carrier": "UA", "flights": 58665}),
    ("columns in another order", {"flights": 58665, "Carrier": "UA"}),
    ("column names in another case", {"carrier": "UA", "FLIGHTS": 58665}),
    ("a thousands separator", {"flights": "58,665"}),
    ("a separating blank", {"flights": "58 665"}),
    ("a narrow blank and an apostrophe", {"flights": "58\u202f665"}),
    ("a count written as a float", {"flights": 58665.0}),
    ("a count written as text", {"flights": "58665"}),
    ("an average to five digits", {"avg_delay": 12.106}),
    ("an average to four digits", {"avg_delay": 12.11}),
    ("an average to three digits", {"avg_delay": 12.1}),
    ("an average as text", {"avg_delay": "12.11"}),
    ("a share to three digits", {"share": 0.174}),
    ("a share in per cent", {"share": "17.4%"}),
    ("a share in per cent with a blank", {"share": "17.42 %"}),
    ("per cent of a per cent column", {"pct_late": "17.4%"}),
    ("trailing zeros", {"pct_late": "17.40"}),
    ("millions", {"miles": "1.23M"}),
    ("thousands", {"miles": "1,235k"}),
    ("three digits of a small number", {"tiny": 0.000123}),
    ("scientific notation", {"tiny": "1.2345e-4"}),
    ("a repeating fraction", {"third": 0.333}),
    ("currency", {"balance": "-$1,234.50"}),
    ("a typographic minus", {"balance": "−1,234.5"}),
    ("a midnight without its time", {"first_day": "2013-01-01"}),
    ("a midnight with a blank", {"first_day": "2013-01-01 00:00:00"}),
    ("a moment in Zulu time", {"seen_at": "2013-01-01T05:15:00Z"}),
    ("a moment without its offset", {"seen_at": "2013-01-01 05:15"}),
    ("white space collapsed", {"name": "United Air Lines Inc."}),
    ("a null", {"Carrier": "UA", "nothing": None}),
    ("a flag", {"cancelled": False}),
    ("a flag as its word", {"cancelled": "false"}),
    ("a decimal that came as text", {"total": Decimal("12345678901234567890.25")}),
    ("a zero", {"zero": 0.0}),
    ("nested values from JSON text", {"tags": ["a", "b"]}),
    ("nested values", {"parts": {"a": 1, "b": [2.5]}}),
    ("nested values as JSON text", {"parts": '{"b": [2.5], "a": 1}'}),
    ("a long text in full", {"note": LONG}),
    ("a long text as a prompt cuts it", {"note": LONG[:200] + "…"}),
    ("a long text as a model cuts it", {"note": LONG[:60] + " ..."}),
    ("a number of a text with separators", {"grouped": 58665}),
    ("a number of a text in per cent", {"late": 17.4}),
    ("a currency behind", {"balance": "-1,234.50 €"}),
    ("not a number", {"ratio": "NaN"}),
    ("not a number as JSON writes it", {"ratio": None}),
    ("not a number as Python writes it", {"ratio": float("nan")}),
]
DISHONEST: list[tuple[str, Any]] = [
    ("an empty row", {}),
    ("no row", None),
    ("a list", [("Carrier", "UA")]),
    ("a text", "UA"),
    ("a number", 58665),
    ("another value", {"Carrier": "UA", "flights": 58666}),
    ("digits swapped", {"flights": 56865}),
    ("a rounded count", {"flights": 58700}),
    ("millions of a rounded integer", {"miles": 1230000}),
    ("two digits only", {"avg_delay": 12}),
    ("two digits of a share", {"share": 0.17}),
    ("a whole per cent", {"share": "17%"}),
    ("rounded the wrong way", {"avg_delay": 12.12}),
    ("more digits than were returned", {"pct_late": 17.43}),
    ("99.6 is not 100", {"near": 100}),
    ("99.6 is not 100 per cent", {"near": "100%"}),
    ("a share where per cents are counted", {"pct_late": 0.174}),
    ("a hundredfold per cent", {"pct_late": "1740%"}),
    ("the sign lost", {"balance": 1234.5}),
    ("a factor lost", {"miles": 1234.567}),
    ("separators in the wrong places", {"flights": "5,8665"}),
    ("a count with words", {"flights": "58665 flights"}),
    ("a column that was not there", {"Carrier": "UA", "cost": 3}),
    ("a null column that was not there", {"Carrier": "UA", "cost": None}),
    ("a null for a value", {"flights": None}),
    ("a value for a null", {"nothing": 0}),
    ("an empty text for a null", {"nothing": ""}),
    ("zero for a flag", {"cancelled": 0}),
    ("another flag", {"cancelled": True}),
    ("values of two rows", {"Carrier": "UA", "flights": 54635}),
    ("values of two columns", {"flights": 12.106072888, "avg_delay": 58665}),
    ("another letter case", {"Carrier": "ua"}),
    ("a shorter name", {"name": "United"}),
    ("a longer name", {"name": "United Air Lines Inc. and others"}),
    ("a code without its zeros", {"code": 501}),
    ("another day", {"first_day": "2013-01-02"}),
    ("a date for a time of day", {"seen_at": "2013-01-01"}),
    ("another time zone", {"seen_at": "2013-01-01T05:15:00-05:00"}),
    ("a month", {"first_day": "2013-01"}),
    ("a near zero", {"zero": 0.0001}),
    ("zero for a small number", {"tiny": 0}),
    ("nested values changed", {"tags": ["a", "c"]}),
    ("nested values changed in JSON text", {"parts": '{"a": 1, "b": [2.6]}'}),
    ("nested values as another text", {"parts": "a: 1"}),
    ("a beginning without its ellipsis", {"note": LONG[:200]}),
    ("a beginning that says too little", {"note": LONG[:20] + "…"}),
    ("a beginning with one letter changed", {"note": LONG[:90] + "x" + LONG[91:200] + "…"}),
    ("more than there was, and an ellipsis", {"note": LONG + "and more…"}),
    ("words behind an ellipsis", {"note": LONG[:200] + "… so confirmed"}),
    ("a digit of a text with separators", {"grouped": 58666}),
    ("a hundredth of a text in per cent", {"late": 0.174}),
    ("not a number for a null", {"nothing": float("nan")}),
    ("zero for not a number", {"ratio": 0}),
    ("a number of thousands of digits", {"flights": 10**5_000}),
    ("a number beyond all numbers", {"flights": "1e999999999"}),
    ("an object for a number", {"flights": {"value": 58665}}),
    ("infinity", {"flights": float("inf")}),
]


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in HONEST])
def test_honest_rows_pass(row: Any) -> None:
    assert attested(row, RETURNED) is True


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in DISHONEST])
def test_fabricated_altered_and_mixed_rows_fail(row: Any) -> None:
    assert attested(row, RETURNED) is False


@pytest.mark.parametrize("returned", [None, 3, [], [None, 3, "x", []], {}, [{}]])
def test_odd_returned_rows_attest_nothing(returned: Any) -> None:
    assert attested({"a": 1}, returned) is False


def test_a_per_cent_column_counts_in_per_cent() -> None:
    assert attested({"late_pct": "0.174%"}, [{"late_pct": 0.174}])
    assert not attested({"late_pct": "17.4%"}, [{"late_pct": 0.174}])


def test_values_that_no_one_normalised_are_understood() -> None:
    moment = datetime(2013, 1, 1, 5, 15, tzinfo=UTC)
    raw = {"d": date(2013, 1, 1), "at": moment, "x": Decimal("12.50"), 7: 8}
    assert attested({"d": "2013-01-01", "at": "2013-01-01T05:15:00Z", "x": 12.5, "7": 8}, [raw])
    odd = {"id": UUID(int=7), "raw": b"abc", "took": timedelta(days=3), "none": float("nan")}
    shown = {"id": str(UUID(int=7)), "raw": "0x616263", "took": "P3D", "none": None}
    assert attested(shown, [odd])


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not for you")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not for you")

    def __hash__(self) -> int:
        return 0


class HostileRow(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("not for you")


def test_what_cannot_be_compared_attests_nothing() -> None:
    assert attested({"a": Hostile()}, [{"a": 1}]) is False
    assert attested({"a": 1}, [{"a": Hostile()}]) is False
    assert attested(HostileRow(a=1), [{"a": 1}]) is False
    assert attested({"a": 1}, [HostileRow(a=1)]) is False


def test_megabytes_are_compared() -> None:
    rows = [{"id": i, "text": "M" * 1_000_000 + str(i)} for i in range(50)]
    assert attested({"id": 7, "text": "M" * 200 + "…"}, rows)
    assert attested({"id": 7, "text": rows[7]["text"]}, rows)
    assert not attested({"text": "M" * 1_000_000 + "x"}, rows)


def test_deep_nesting_is_no_way_to_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert attested({"a": deep}, [{"a": deep}]) in (True, False)
    assert attested({"a": "[" * 100_000}, [{"a": []}]) is False


CELL = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=12)
)
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
ROWS = st.lists(st.dictionaries(NAMES, CELL, min_size=1), min_size=1, max_size=5)


@given(ROWS, st.randoms(use_true_random=False))
def test_any_part_of_any_returned_row_passes(
    rows: list[dict[str, Any]], chance: random.Random
) -> None:
    row = chance.choice(rows)
    names = chance.sample(sorted(row), k=chance.randint(1, len(row)))
    assert attested({name.upper(): row[name] for name in names}, rows)


@given(st.floats(1e-6, 1e9), st.integers(3, 12))
def test_rounding_to_three_digits_or_more_passes(value: float, digits: int) -> None:
    written = float(f"{value:.{digits}g}")
    place = digits - len(str(int(value))) if value >= 1 else 1
    if place >= 0:
        assert attested({"x": written}, [{"x": value}])


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**6))
def test_a_changed_integer_never_passes(value: int, change: int) -> None:
    assert not attested({"x": value + change}, [{"x": value}])


@given(st.floats(1e-3, 1e9), st.floats(0.006, 5.0), st.sampled_from([-1, 1]))
def test_a_number_changed_by_more_than_half_a_per_cent_never_passes(
    value: float, share: float, sign: int
) -> None:
    assert not attested({"x": value * (1 + sign * share)}, [{"x": value}])


def judged(*rows: Any) -> StructuredVerdict:
    claims = [
        ClaimVerdict(claim_text=str(i), evidence=ClaimEvidence(kind="step_row", step_id=3, row=row))
        for i, row in enumerate(rows)
    ]
    return StructuredVerdict(claim_verdicts=claims)


def test_provenance_names_where_the_row_came_from() -> None:
    returned = Returned()
    returned.add("bundle step 2", [{"a": 1, "b": 2}])
    returned.add("read_step_rows step 3", [{"a": 1}])
    returned.add("query_warehouse #1", [{"c": "x" * 300}], [{"c": "x" * 200 + "…"}])
    shown, cut = {"c": "x" * 300}, {"c": "x" * 200 + "…"}
    verdict, unattested = attest(judged({"a": 1}, {"b": 2}, shown, cut, {"b": 3}, None), returned)
    found = [claim.evidence.provenance for claim in verdict.claim_verdicts]
    assert [p and p.source for p in found] == [
        "read_step_rows step 3",
        "bundle step 2",
        "query_warehouse #1",
        "query_warehouse #1",
        "",
        None,
    ]
    assert unattested == [4]
