"""The finaliser with attestation as part of step 4 (decision 2), then consistency (decision 3)."""

from __future__ import annotations

import pytest

from pipeline.validation.evidence import Returned
from pipeline.validation.finalise import ProvenanceMode, settle
from tests.pipeline.validation.world import CARRIERS, Row, claim, verdict

FAKE = {"carrier": "UA", "flights": 99999}
UNATTESTED = "coverage: evidence row was not returned by any tool"


def returned() -> Returned:
    shown = Returned()
    shown.add("bundle step 1", CARRIERS)
    return shown


def head(status: str = "supported", row: Row | None = None) -> Row:
    return claim(status=status, headline=True, row=row)


def other(status: str, row: Row | None = None) -> Row:
    return claim("B6 flew 54,635", status, row=row)


def test_a_row_that_no_tool_returned_counts_as_step_4_failing() -> None:
    settled = settle(verdict(head("confirmed", FAKE), overall="confirmed"), returned())
    assert settled.overall == "partial"
    assert settled.overall_reason == f"fine; {UNATTESTED}"
    provenance = settled.claim_verdicts[0].evidence.provenance
    assert provenance is not None
    assert not provenance.attested


def test_a_rejection_on_a_fabricated_row_is_no_rejection() -> None:
    settled = settle(verdict(head("rejected", FAKE), overall="rejected"), returned())
    assert settled.overall == "partial"


@pytest.mark.parametrize("mode", ["record", "off"])
def test_provenance_can_be_recorded_or_left_out(mode: ProvenanceMode) -> None:
    settled = settle(verdict(head("supported", FAKE)), returned(), mode)
    assert settled.overall == "supported"
    assert (settled.claim_verdicts[0].evidence.provenance is not None) == (mode == "record")


def test_the_first_failing_check_wins_between_attestation_and_its_neighbours() -> None:
    bare = other("supported")
    bare["evidence"]["row"] = None
    missing_first = settle(verdict(head(), bare, claim("x", row=FAKE)), returned())
    assert missing_first.overall_reason == "fine; coverage: missing evidence on claim_verdicts[1]"
    attested_before_typo = settle(verdict(head("supported", FAKE), other("spported")), returned())
    assert attested_before_typo.overall_reason == f"fine; {UNATTESTED}"
    sets_before = {
        **verdict(head("supported", FAKE)),
        "claims_considered": [head()["claim_text"], "x"],
    }
    assert "does not match" in settle(sets_before, returned()).overall_reason


def test_partial_and_unverifiable_claims_may_carry_any_row_or_none() -> None:
    settled = settle(verdict(head(), other("partial", FAKE)), returned())
    assert settled.overall == "supported"
    provenance = settled.claim_verdicts[1].evidence.provenance
    assert provenance is not None
    assert not provenance.attested


S, C, R, P, U = "supported", "confirmed", "rejected", "partial", "unverifiable"
CONSISTENCY: list[tuple[str, str, str, str, str]] = [
    # headline, other claim, overall given, overall settled, overall_conflict
    (S, S, S, S, ""),
    (C, C, C, C, ""),
    (C, C, S, S, ""),
    (C, S, S, S, ""),
    (C, S, C, S, C),
    (S, C, C, S, C),
    (R, S, C, R, C),
    (R, S, S, R, S),
    (R, S, P, R, P),
    (R, S, U, R, U),
    (R, S, R, R, ""),
    (S, R, R, R, ""),
    (S, R, S, R, S),
    (S, R, C, R, C),
    (S, R, P, P, ""),
    (S, S, R, R, R),
    (C, C, U, U, U),
    (S, S, P, P, ""),
    (P, S, S, P, S),
    (P, P, P, P, ""),
    (P, P, C, P, C),
    (S, P, S, S, ""),
    (S, U, C, P, C),
    (S, U, S, P, ""),
    (S, U, P, P, ""),
    (R, U, C, R, C),
    (R, U, R, R, ""),
    (U, R, R, U, ""),
    (U, U, C, U, ""),
    (S, S, "validation_disabled", S, "validation_disabled"),
    (C, C, "skipped_budget_cap", C, "skipped_budget_cap"),
    (R, S, "validation_disabled", R, "validation_disabled"),
]


@pytest.mark.parametrize(("headline", "second", "given", "expected", "conflict"), CONSISTENCY)
def test_overall_must_agree_with_the_claims(
    headline: str, second: str, given: str, expected: str, conflict: str
) -> None:
    settled = settle(verdict(head(headline), other(second), overall=given), returned())
    assert (settled.overall, settled.overall_conflict) == (expected, conflict)
    assert ("consistency: " in settled.overall_reason) == bool(conflict)


def test_a_derived_overall_goes_no_further_than_a_partial_headline() -> None:
    settled = settle(verdict(head(P), other(C), overall=None), returned())
    assert settled.overall == P


def test_an_agent_cannot_wave_itself_through_as_disabled() -> None:
    settled = settle(verdict(head("supported", FAKE), overall="validation_disabled"), returned())
    assert settled.overall == P
