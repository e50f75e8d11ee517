"""The evidence of a judgement and its reasons in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.llm.offline.findings.finding import shown
from adapters.llm.offline.judging.checks import (
    Check,
    Contradiction,
    FigureCheck,
    MovementCheck,
    Outcome,
    RankCheck,
    Values,
)
from adapters.llm.offline.judging.claims import Figure
from adapters.llm.offline.judging.probes import Probe, Query, Scalar, value_in
from adapters.llm.offline.judging.steps import Step
from adapters.llm.offline.reading import Json


@dataclass(frozen=True, slots=True)
class Answer:
    """A query that the warehouse answered, and its one row."""

    query: Query
    row: Json

    def values(self) -> dict[Probe, float | int | None]:
        """What the row says about each probe."""
        return {p: value_in(self.row, part.name) for p, part in self.query.parts.items()}

    def cells(self, probes: Sequence[Probe]) -> Json:
        """The cells of some probes, as the tool returned them."""
        names = {self.query.parts[p].name for p in probes if p in self.query.parts}
        return {k: v for k, v in self.row.items() if k in names or k.lower() in names}


def evidence_of(
    checks: Sequence[Check], answer: Answer | None, steps: Sequence[Step]
) -> Json | None:
    """The part of the fresh row that the checks rest on, else a row of a cited step."""
    probes = [p for c in checks for p in c.probes]
    leaders = [p for c in checks if isinstance(c, RankCheck) for p in c.leaders]
    if answer is not None and any(p in answer.query.parts for p in probes):
        wanted = [*probes, *leaders]
        cells = answer.cells(wanted)
        if any(v is not None for v in cells.values()):
            sql = answer.query.only(wanted).sql
            return {"kind": "warehouse_query", "query_sql": sql, "row": cells, "additional_rows": 0}
    scalars = [p for p in probes if isinstance(p, Scalar)]
    if not scalars:
        scalars = [
            Scalar(p.step, p.row, p.output)
            for c in checks
            if isinstance(c, RankCheck)
            for p in [c.beyond]
        ]
    if not scalars:
        return None
    step = steps[scalars[0].step]
    same = [p for p in scalars if (p.step, p.row) == (scalars[0].step, scalars[0].row)]
    picked = [n for n, _ in step.keys(scalars[0].row)] + [p.output for p in same]
    source = step.rows[scalars[0].row]
    return {
        "kind": "step_row",
        "step_id": step.step_id,
        "row": {n: source[n] for n in dict.fromkeys(picked) if n in source},
        "additional_rows": max(0, len(step.rows) - 1),
    }


def explain(
    status: str,
    outcomes: Sequence[tuple[Check, Outcome]],
    values: Values,
    *,
    refute: bool,
    loose: Sequence[Figure],
) -> str:
    """One or two sentences: what was compared with what."""
    wrong = [_difference(c, values) for c, o in outcomes if o is Outcome.WRONG]
    if wrong:
        return "; ".join(wrong)
    if status == "unverifiable":
        return "No row that could be reached settles this claim."
    if loose and status == "partial":
        numbers = ", ".join(shown(float(f.value)) for f in loose)
        return f"The other figures hold, but no row explains {numbers}."
    if refute:
        return "Asked in another way, the data gives no counter-example."
    rounded = any(o is Outcome.ROUNDED for _, o in outcomes)
    how = "agrees within rounding" if rounded else "gives exactly what the claim says"
    return f"A second query that computes the figures in another way {how}."


def _difference(check: Check, values: Values) -> str:
    if isinstance(check, FigureCheck):
        actual = check.actual(values)
        number = shown(round(actual, 4)) if actual is not None else "nothing"
        return f"the claim says {shown(float(check.figure.value))}, the data says {number}"
    if isinstance(check, RankCheck):
        count = values.get(check.beyond)
        return (
            f"{shown(count)} groups stand before the subject, where the claim needs {check.above}"
        )
    if isinstance(check, MovementCheck):
        before, after = values.get(check.first), values.get(check.last)
        return f"the value went from {shown(before)} to {shown(after)}"
    assert isinstance(check, Contradiction)
    return check.reason
