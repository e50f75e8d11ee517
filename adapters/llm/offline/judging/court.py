"""One judgement: which query to send next, and the verdict once the answers are in.

The state is recomputed from the conversation in every turn. At most one batch of step reads and two
queries are spent, so that the token caps hold; what they leave open is judged by the cited rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adapters.llm.offline.judging.binding import bind
from adapters.llm.offline.judging.checks import Check, FigureCheck, Outcome, RankCheck
from adapters.llm.offline.judging.claims import Claim, ClaimKind, claims_of, read_claim
from adapters.llm.offline.judging.probes import Probe, Query, build
from adapters.llm.offline.judging.sentence import Bound
from adapters.llm.offline.judging.steps import (
    known_names,
    quiet_patterns,
    read_payload_rows,
    steps_of,
)
from adapters.llm.offline.judging.values import values_in_steps
from adapters.llm.offline.judging.wording import Answer, evidence_of, explain
from adapters.llm.offline.reading import Hearing, Json, as_object, text_of

_PAGE = 200


class Court:
    """Verifier or refuter over one bundle."""

    def __init__(self, heard: Hearing, *, refute: bool) -> None:
        self.heard, self.refute = heard, refute
        self.doc = as_object(heard.bundle.get("doc"))
        warehouse = as_object(heard.bundle.get("warehouse"))
        self.clause = text_of(warehouse.get("filter_clause"))
        self.steps = steps_of(heard)
        self.claims = self._claims()
        self.bound = bind(self.claims, self.steps)

    def _claims(self) -> list[Claim]:
        quiet = quiet_patterns(self.steps)
        if self.refute and self.heard.prior_claims:
            return [
                read_claim(t, ClaimKind.STATEMENT if i else ClaimKind.HEADLINE, quiet)
                for i, t in enumerate(self.heard.prior_claims)
            ]
        return claims_of(self.doc, known_names(self.steps), quiet)

    def move(self) -> Json:
        """The next envelope: a read, a query, or the verdict."""
        if not self.heard.forced:
            if read := self._read():
                return read
            if query := self._query():
                return {"query_warehouse": query.sql}
            if self.refute and not any(c.result for c in self.heard.calls) and self.steps:
                return self._look()
        return {"submit_verdict": self._verdict()}

    # ------------------------------------------------------------ gathering

    def _read(self) -> Json | None:
        """Rows of a cited step that the bundle does not show, when a claim needs them."""
        if not any(b.loose for b in self.bound):
            return None
        asked = {
            as_object(c.body).get("step_id") for c in self.heard.calls if c.kind == "read_step_rows"
        }
        for step in self.steps:
            if not step.whole and step.step_id not in asked:
                body = {"step_id": step.step_id, "offset": len(step.rows), "limit": _PAGE}
                return {"read_step_rows": body}
        return None

    def _look(self) -> Json:
        """A refuter must look before it speaks, even when it can ask nothing of its own."""
        tried = sum(1 for c in self.heard.calls if c.kind == "read_step_rows")
        step = self.steps[tried % len(self.steps)]
        return {"read_step_rows": {"step_id": step.step_id, "offset": 0, "limit": 20}}

    def _plans(self) -> Iterator[Query]:
        """The query over all claims, then a smaller one for the headline and the count."""
        wanted: list[list[Probe]] = [
            [p for b in self.bound for p in self._wanted(b)],
            [p for b in self.bound if b.claim.kind is not ClaimKind.STATEMENT for p in b.probes],
        ]
        planned: set[str] = set()
        for probes in wanted:
            query = build(probes, self.steps, refute=self.refute, clause=self.clause)
            if query is not None and query.sql not in planned:
                planned.add(query.sql)
                yield query

    def _wanted(self, bound: Bound) -> list[Probe]:
        """The refuter also asks who leads, for the headline's ranking."""
        leaders: list[Probe] = []
        if self.refute and bound.claim.kind is ClaimKind.HEADLINE:
            for check in bound.checks:
                if isinstance(check, RankCheck):
                    leaders += check.leaders
        return [*bound.probes, *leaders]

    def _query(self) -> Query | None:
        """The next plan to try: none once one was answered."""
        asked = [c for c in self.heard.calls if c.kind == "query_warehouse"]
        if any(read_payload_rows(c.result) for c in asked):
            return None
        sent = {c.body for c in asked}
        return next((q for q in self._plans() if q.sql not in sent), None)

    def _answer(self) -> Answer | None:
        """The query that was answered, with its row; None when none was."""
        for call in self.heard.calls:
            rows = read_payload_rows(call.result) if call.kind == "query_warehouse" else []
            query = next((q for q in self._plans() if q.sql == call.body), None) if rows else None
            if query is not None:
                return Answer(query, rows[0])
        return None

    # ------------------------------------------------------------ judging

    def _verdict(self) -> Json:
        answer = self._answer()
        verdicts = [self._judge(b, answer) for b in self.bound]
        self._lean(verdicts)
        for i, verdict in enumerate(verdicts):
            verdict["is_headline"] = i == 0
        overall, reason = _overall(verdicts)
        return {
            "doc_id": text_of(self.doc.get("id")),
            "doc_kind": text_of(self.doc.get("kind")) or "insight",
            "mode": "refuter" if self.refute else "verifier",
            "claims_considered": [c.text for c in self.claims],
            "claim_verdicts": verdicts,
            "overall": overall,
            "overall_reason": reason,
        }

    def _judge(self, bound: Bound, answer: Answer | None) -> Json:
        known = values_in_steps(bound.probes, self.steps)
        fresh = answer.values() if answer else {}
        values = {p: fresh[p] if fresh.get(p) is not None else known.get(p) for p in bound.probes}
        outcomes = [(check, check.outcome(values)) for check in bound.checks]
        status = self._status(bound, outcomes)
        decisive = _decisive(outcomes, status)
        evidence = evidence_of(decisive, answer, self.steps) if decisive else None
        if status != "unverifiable" and evidence is None:
            status = "unverifiable"
        if status == "confirmed" and evidence is not None and evidence["kind"] == "step_row":
            status = "supported"
        return {
            "claim_text": bound.claim.text,
            "claim_kind": bound.claim.kind.value,
            "is_headline": False,
            "status": status,
            "reasoning": explain(status, outcomes, values, refute=self.refute, loose=bound.loose),
            "evidence": evidence if status != "unverifiable" else {"kind": "none"},
        }

    def _status(self, bound: Bound, outcomes: Sequence[tuple[Check, Outcome]]) -> str:
        found = {outcome for _, outcome in outcomes}
        if Outcome.WRONG in found:
            return "rejected"
        if not found or found == {Outcome.UNKNOWN}:
            return "unverifiable"
        if Outcome.UNKNOWN in found or bound.loose:
            return "partial"
        if found == {Outcome.EXACT} and not self.refute:
            return "confirmed"
        return "supported"

    def _lean(self, verdicts: list[Json]) -> None:
        """A headline without a figure of its own stands or falls with the figures below it."""
        if not verdicts or not self.bound or self.bound[0].claim.checkable:
            return
        head = verdicts[0]
        for verdict in verdicts[1:]:
            if verdict["status"] in {"confirmed", "supported", "rejected"}:
                head["status"] = "rejected" if verdict["status"] == "rejected" else "supported"
                head["evidence"] = verdict["evidence"]
                head["reasoning"] = (
                    "The headline states no figure of its own; it rests on this fact: "
                    + verdict["claim_text"]
                )
                if verdict["status"] == "rejected":
                    return
        if any(v["status"] == "rejected" for v in verdicts[1:]):
            head["status"] = "rejected"


def _decisive(outcomes: Sequence[tuple[Check, Outcome]], status: str) -> list[Check]:
    """The checks that the evidence must show: the wrong ones, or else all that were settled."""
    if status == "rejected":
        return [c for c, o in outcomes if o is Outcome.WRONG]
    figures = [c for c, o in outcomes if o is not Outcome.UNKNOWN]
    return sorted(figures, key=lambda c: not isinstance(c, FigureCheck))


def _overall(verdicts: Sequence[Json]) -> tuple[str, str]:
    statuses = [v["status"] for v in verdicts]
    tally = ", ".join(f"{statuses.count(s)} {s}" for s in dict.fromkeys(statuses))
    reason = f"Rule-based judgement of {len(statuses)} claims: {tally}."
    if "rejected" in statuses:
        return "rejected", reason
    if not statuses or statuses[0] == "unverifiable":
        return "unverifiable", reason
    if "unverifiable" in statuses or "partial" in statuses:
        return "partial", reason
    return ("confirmed" if set(statuses) == {"confirmed"} else "supported"), reason
