"""The coverage finaliser, step by step, and which step wins when several fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import ClaimVerdict, Status, StructuredVerdict
from pipeline.validation.finalise import finalise
from tests.pipeline.validation.world import Row, claim, verdict

HEAD = claim(headline=True)
OTHER = claim("B6 flew 54,635", "supported")


def without_row(**fields: Any) -> Row:
    made = claim(**fields)
    made["evidence"]["row"] = None
    return made


def with_claims(judged: Row, *considered: str) -> Row:
    return {**judged, "claims_considered": list(considered)}


TWO = verdict(HEAD, OTHER)
HEAD_TEXT, OTHER_TEXT = str(HEAD["claim_text"]), str(OTHER["claim_text"])
REJECTED_HEAD = claim(status="rejected", headline=True)
OPEN_HEAD = claim(status="unverifiable", headline=True, kind="none")
OPEN_OTHER = claim("B6 flew 54,635", "unverifiable", kind="none")
CONFIRMED_HEAD = claim(status="confirmed", headline=True)
PARTIAL_OTHER = claim("B6 flew 54,635", "partial", kind="none")
FROM_QUERY = claim(headline=True, kind="warehouse_query")
TYPO = claim("B6 flew 54,635", "spported")
NO_MATCH = "claim_verdicts does not match claims_considered set"

CASES: list[tuple[str, Row, str, str]] = [
    # name, verdict, overall, the reason that is added ("" for none)
    ("sound verdicts pass as they are", TWO, "supported", ""),
    ("1: nothing considered", with_claims(TWO), "unverifiable", "no claims enumerated"),
    ("1: an empty object", {}, "unverifiable", "no claims enumerated"),
    ("1 beats a missing verdict list", {"overall": "rejected"}, "unverifiable", "no claims enum"),
    (
        "0: claims repeat",
        with_claims(TWO, HEAD_TEXT, HEAD_TEXT),
        "partial",
        "duplicate claims_considered entries",
    ),
    (
        "0: claims repeat in another case and spacing",
        with_claims(TWO, HEAD_TEXT, f"  {HEAD_TEXT.upper().replace(' ', '   ')}\n"),
        "partial",
        "duplicate claims_considered entries",
    ),
    (
        "0: all empty strings",
        verdict(claim("", headline=True), claim(""), claim(" ")),
        "partial",
        "duplicate claims_considered entries",
    ),
    (
        "0: verdict texts repeat",
        with_claims(verdict(HEAD, claim(HEAD_TEXT)), HEAD_TEXT, OTHER_TEXT),
        "partial",
        "duplicate claim_verdicts.claim_text entries",
    ),
    (
        "0: claims are looked at before verdict texts",
        verdict(HEAD, claim(HEAD_TEXT)),
        "partial",
        "duplicate claims_considered entries",
    ),
    ("2: no headline", verdict(claim(), OTHER), "partial", "headline rule violated (count 0"),
    (
        "2: two headlines",
        verdict(HEAD, claim("B6 flew 54,635", headline=True)),
        "partial",
        "headline rule violated (count 2, match true)",
    ),
    (
        "2: the headline is not the first claim",
        with_claims(TWO, OTHER_TEXT, HEAD_TEXT),
        "partial",
        "headline rule violated (count 1, match false)",
    ),
    (
        "2: the headline differs by one blank",
        with_claims(TWO, HEAD_TEXT + " ", OTHER_TEXT),
        "partial",
        "headline rule violated (count 1, match false)",
    ),
    (
        "2: no verdicts at all",
        {"claims_considered": ["a"], "claim_verdicts": [], "overall": "supported"},
        "partial",
        "headline rule violated (count 0, match false)",
    ),
    (
        "3: a claim without a verdict",
        with_claims(TWO, HEAD_TEXT, "x", OTHER_TEXT),
        "partial",
        NO_MATCH,
    ),
    ("3: a verdict without a claim", with_claims(TWO, HEAD_TEXT), "partial", NO_MATCH),
    (
        "3: texts must be equal byte for byte",
        with_claims(TWO, HEAD_TEXT, OTHER_TEXT.lower()),
        "partial",
        NO_MATCH,
    ),
    *[
        (
            f"4: a {status} claim without a row",
            verdict(HEAD, without_row(text=OTHER_TEXT, status=status), overall=status),
            "partial",
            "missing evidence on claim_verdicts[1]",
        )
        for status in ("confirmed", "supported", "rejected")
    ],
    *[
        (
            f"4: evidence kind {kind!r} is none",
            verdict(claim(headline=True, kind=kind)),
            "partial",
            "missing evidence on claim_verdicts[0]",
        )
        for kind in ("", "none", "hearsay")
    ],
    (
        "4: a query row will do",
        verdict(claim(headline=True, kind="warehouse_query")),
        "supported",
        "",
    ),
    ("4: partial claims need no row", verdict(HEAD, PARTIAL_OTHER), "supported", ""),
    (
        "4 overrides rejected",
        verdict(without_row(status="rejected", headline=True), overall="rejected"),
        "partial",
        "missing evidence on claim_verdicts[0]",
    ),
    ("4.5: a typo in a status", verdict(HEAD, TYPO), "partial", 'invalid status "spported"'),
    (
        "4.5: a status that only documents have",
        verdict(HEAD, claim("x", "validation_disabled")),
        "partial",
        "invalid status",
    ),
    ("4.5: an empty status", verdict(HEAD, claim("x", "")), "partial", "invalid status"),
    (
        "4 is looked at before 4.5",
        verdict(HEAD, TYPO, without_row(text="x")),
        "partial",
        "missing evidence on claim_verdicts[2]",
    ),
    (
        "4.5 before 5: a typo beside an unverifiable headline",
        verdict(OPEN_HEAD, TYPO),
        "partial",
        "invalid status",
    ),
    ("5: the headline is open", verdict(OPEN_HEAD, OTHER), "unverifiable", "headline unverifiable"),
    (
        "5: an open headline overrides rejected",
        verdict(OPEN_HEAD, claim("x", "rejected"), overall="rejected"),
        "unverifiable",
        "headline unverifiable",
    ),
    ("5: everything is open", verdict(OPEN_HEAD, OPEN_OTHER), "unverifiable", "unverifiable"),
    ("5: another claim is open", verdict(HEAD, OPEN_OTHER), "partial", "some claims unverifiable"),
    (
        "5: an open claim beside a rejected overall changes nothing",
        verdict(REJECTED_HEAD, OPEN_OTHER, overall="rejected"),
        "rejected",
        "",
    ),
    (
        "5 before 6: an open claim and no overall",
        verdict(HEAD, OPEN_OTHER, overall=None),
        "partial",
        "some claims unverifiable",
    ),
    ("6: any rejected", verdict(HEAD, claim("x", "rejected"), overall=None), "rejected", "derived"),
    ("6: all confirmed", verdict(CONFIRMED_HEAD, overall=None), "confirmed", "derived"),
    (
        "6: a stray partial claim does not block confirmed",
        verdict(CONFIRMED_HEAD, PARTIAL_OTHER, overall=None),
        "confirmed",
        "overall derived from per-claim verdicts (model omitted",
    ),
    (
        "6: confirmed and supported",
        verdict(CONFIRMED_HEAD, OTHER, overall=""),
        "supported",
        "derived",
    ),
    ("6: one supported", verdict(HEAD, overall=""), "supported", "derived"),
    (
        "6: only partial claims",
        verdict(claim(status="partial", headline=True), overall=""),
        "unverifiable",
        "derived",
    ),
    (
        "6: an overall that does not exist",
        verdict(HEAD, overall="plausible"),
        "supported",
        'model returned invalid "plausible"',
    ),
    (
        "a known overall is trusted here, even against its claims",
        verdict(REJECTED_HEAD, overall="confirmed"),
        "confirmed",
        "",
    ),
    (
        "a document's status is known, too",
        verdict(HEAD, overall="skipped_budget_cap"),
        "skipped_budget_cap",
        "",
    ),
]


@pytest.mark.parametrize(
    ("given_verdict", "overall", "reason"),
    [pytest.param(v, overall, reason, id=name) for name, v, overall, reason in CASES],
)
def test_the_first_failing_step_decides(given_verdict: Row, overall: str, reason: str) -> None:
    before = repr(given_verdict)
    settled = finalise(given_verdict)
    assert settled.overall == overall
    written = given_verdict.get("overall_reason", "")
    if reason:
        assert settled.overall_reason.startswith(
            f"{written}; coverage: " if written else "coverage: "
        )
        assert reason in settled.overall_reason
        assert settled.overall_reason.count("coverage: ") == 1
    else:
        assert settled.overall_reason == written
    assert repr(given_verdict) == before


def test_a_record_is_never_changed_in_place() -> None:
    record = StructuredVerdict.model_validate(verdict(HEAD, OPEN_OTHER))
    before = record.model_dump_json()
    settled = finalise(record)
    settled.claim_verdicts[0].reasoning = "changed"
    settled.claims_considered.append("x")
    assert settled.overall == "partial"
    assert record.model_dump_json() == before


ODD_SHAPES: list[Any] = [
    None,
    {"claims_considered": None, "claim_verdicts": None},
    {"claims_considered": "a", "claim_verdicts": {"a": 1}, "overall": ["confirmed"]},
    {"claims_considered": ["a"], "claim_verdicts": [None, 3, "x"], "overall": "confirmed"},
    verdict({**HEAD, "evidence": "row 3"}),
    verdict({**HEAD, "evidence": {"kind": "step_row", "row": [1, 2], "step_id": {}}}),
    verdict({**HEAD, "status": None, "is_headline": "yes"}),
    {**verdict(HEAD), "stats": {"rounds": "many"}},
]


@pytest.mark.parametrize("odd", ODD_SHAPES)
def test_odd_shapes_end_in_a_status_and_never_in_an_error(odd: Any) -> None:
    assert finalise(odd).overall in set(Status)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = ["claims_considered", "claim_verdicts", "overall", "overall_reason", "doc_id", "stats"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_object_can_be_finalised(raw: Row) -> None:
    settled = finalise(raw)
    assert settled.overall in set(Status)
    assert finalise(settled).overall == settled.overall


def test_what_no_store_can_hold_is_written_out() -> None:
    raw = verdict({**HEAD, "reasoning": "a\ud800b"})
    raw["claim_verdicts"][0]["evidence"]["row"] = {"a\ud800": 10**30, "n": float("nan")}
    settled = finalise(raw)
    settled.model_dump_json().encode("utf-8")
    assert settled.claim_verdicts[0].evidence.row == {"a\\ud800": "1" + "0" * 30, "n": "NaN"}


def test_numbers_that_no_store_can_hold_are_left_out() -> None:
    huge = {"step_id": 10**30, "additional_rows": 1e300}
    raw = verdict({**HEAD, "evidence": {**HEAD["evidence"], **huge}})
    evidence = finalise({**raw, "stats": {"rounds": 2**70}}).claim_verdicts[0].evidence
    assert (evidence.step_id, evidence.additional_rows) == (None, 0)
    for written in (3, 3.0, "3", " 3 "):
        raw["claim_verdicts"][0]["evidence"]["step_id"] = written
        assert finalise(raw).claim_verdicts[0].evidence.step_id == 3


def test_a_record_with_holes_is_read_like_a_json_object() -> None:
    claim_verdict = ClaimVerdict.model_construct(claim_text="a", status=None, evidence=None)
    record = StructuredVerdict.model_construct(
        claims_considered=["a"], claim_verdicts=[claim_verdict], overall=None
    )
    settled = finalise(record)
    assert settled.overall == "partial"
    assert "headline rule violated" in settled.overall_reason
    assert finalise(StructuredVerdict.model_construct(claims_considered=None)).overall == (
        "unverifiable"
    )
