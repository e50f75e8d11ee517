"""How a document was checked: both agents' verdicts, claim by claim, with evidence and SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.records import (
    ClaimVerdict,
    ExplorationStep,
    InsightValidation,
    Status,
    StructuredVerdict,
)
from serve.report.numbers import Cell, cell, plural
from serve.wording import StatusMeta, status_meta, validation_meta

HELD = frozenset({Status.CONFIRMED, Status.SUPPORTED})
AGENTS = {"verifier": "Verifier", "refuter": "Refuter"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The row that a judgement rests on, and how to get it again."""

    source: str
    row: dict[str, Any]
    cells: list[tuple[str, Cell]]
    sql: str
    step: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one agent says of one claim."""

    agent: str
    meta: StatusMeta
    reasoning: str
    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    headline: bool
    opinions: list[Opinion]
    held: bool
    """The verifier found rows that agree and the refuter found none that contradict."""


@dataclass(frozen=True, slots=True)
class Check:
    """Both agents' work on one document."""

    meta: StatusMeta
    claims: list[Claim]
    reasons: list[tuple[str, str, str]]
    """Agent, overall label, and why."""
    effort: str


def check(validation: InsightValidation | None, steps: Mapping[int, ExplorationStep]) -> Check:
    """Gather what the two agents said. ``steps`` are the run's, by number."""
    meta = validation_meta(validation)
    verdicts = _verdicts(validation)
    texts = dict.fromkeys(c.claim_text for _, v in verdicts for c in v.claim_verdicts)
    claims = [_claim(text, verdicts, steps) for text in texts]
    claims.sort(key=lambda claim: not claim.headline)
    return Check(
        meta=meta,
        claims=claims,
        reasons=[
            (AGENTS[mode], status_meta(v.overall).label, v.overall_reason) for mode, v in verdicts
        ],
        effort=_effort([v for _, v in verdicts]),
    )


def _verdicts(validation: InsightValidation | None) -> list[tuple[str, StructuredVerdict]]:
    if validation is None:
        return []
    pairs = (("verifier", validation.verifier), ("refuter", validation.refuter))
    return [(mode, verdict) for mode, verdict in pairs if verdict is not None]


def _claim(
    text: str,
    verdicts: list[tuple[str, StructuredVerdict]],
    steps: Mapping[int, ExplorationStep],
) -> Claim:
    found = [
        (mode, claim)
        for mode, verdict in verdicts
        for claim in verdict.claim_verdicts
        if claim.claim_text == text
    ]
    statuses = {mode: claim.status for mode, claim in reversed(found)}
    return Claim(
        text=text,
        headline=any(claim.is_headline for _, claim in found),
        opinions=[
            Opinion(
                AGENTS[mode], status_meta(claim.status), claim.reasoning, _evidence(claim, steps)
            )
            for mode, claim in found
        ],
        held=statuses.get("verifier") in HELD and statuses.get("refuter") != Status.REJECTED,
    )


def _evidence(claim: ClaimVerdict, steps: Mapping[int, ExplorationStep]) -> Evidence | None:
    proof = claim.evidence
    if proof.row is None and not proof.query_sql:
        return None
    step = steps.get(proof.step_id) if proof.step_id is not None else None
    if proof.kind == "step_row":
        source = f"A row that step {proof.step_id} returned"
    else:
        source = "A row that a query of this check returned"
    notes: list[str] = []
    if proof.additional_rows > 0:
        notes.append(f"{plural(proof.additional_rows, 'more row')} not shown")
    if proof.provenance is not None and not proof.provenance.attested:
        notes.append("this row was not found among what the tools returned")
    elif proof.provenance is not None and proof.provenance.source:
        notes.append(f"found again in {proof.provenance.source}")
    row = proof.row or {}
    return Evidence(
        source=source,
        row=row,
        cells=[(name, cell(value, name)) for name, value in row.items()],
        sql=proof.query_sql or (step.query if step else ""),
        step=step.step if step else None,
        note="; ".join(notes),
    )


def _effort(verdicts: list[StructuredVerdict]) -> str:
    queries = sum(v.stats.queries_issued for v in verdicts)
    reads = sum(v.stats.step_reads_used for v in verdicts)
    if not verdicts:
        return ""
    parts = [plural(queries, "query", "queries")] if queries else []
    parts += [f"{plural(reads, 'look')} at earlier rows"] if reads else []
    return " and ".join(parts) or "no look at the data"
