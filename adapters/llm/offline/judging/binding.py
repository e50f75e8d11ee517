"""Tying the figures of a sentence to rows and outputs of the cited steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from adapters.llm.offline.judging.arithmetic import coverage
from adapters.llm.offline.judging.checks import FigureCheck, Formula
from adapters.llm.offline.judging.claims import COVERS, Claim, ClaimKind
from adapters.llm.offline.judging.probes import Beyond, ColumnSum, GroupCount, Probe, Scalar
from adapters.llm.offline.judging.sentence import Bound, Context, Sentence
from adapters.llm.offline.judging.steps import (
    Mention,
    Step,
    mentions_in,
    name_pattern,
    quiet_patterns,
)
from adapters.llm.offline.judging.values import values_in_steps
from adapters.llm.offline.sqlshape import Measure

_BASE = re.compile(r"\b(?:of|among|out of)\s*$", re.IGNORECASE)


def bind(claims: Sequence[Claim], steps: Sequence[Step]) -> list[Bound]:
    """Bind every claim in reading order."""
    context = Context()
    quiet = quiet_patterns(list(steps))
    bound: list[Bound] = []
    for claim in claims:
        if COVERS.match(claim.text):
            bound.append(Bound(claim, list(coverage(claim.text, steps))))
        elif claim.kind is ClaimKind.AFFECTED:
            own = bound[:1] if bound and bound[0].checks else bound
            bound.append(_bind_count(claim, steps, own))
        else:
            bound.append(_bind_text(claim, steps, context, quiet))
    return bound


def _bind_text(
    claim: Claim, steps: Sequence[Step], context: Context, quiet: list[re.Pattern[str]]
) -> Bound:
    best: Bound | None = None
    chosen, spots = 0, list[Mention]()
    for position in _likely(claim.text, steps, context):
        sentence = Sentence(claim, steps[position], position, context, quiet)
        attempt = sentence.bind()
        if best is None or _score(attempt, steps) > _score(best, steps):
            best, chosen, spots = attempt, position, sentence.mentions
    if best is not None:
        context.outputs.update(p.output for p in best.probes if isinstance(p, Scalar))
    if spots:
        context.step, context.row = chosen, spots[0].row
    elif best is not None and any(isinstance(c, FigureCheck) for c in best.checks):
        if chosen != context.step:
            context.step, context.row = chosen, None
        rows = {p.row for p in best.probes if isinstance(p, Scalar)}
        if context.row is None and len(rows) == 1:
            context.row = rows.pop()
    return best or Bound(claim, loose=list(claim.figures))


def _score(bound: Bound, steps: Sequence[Step]) -> tuple[int, int, int]:
    """How well a step explains a sentence: figures that agree, then figures tied at all."""
    values = values_in_steps(bound.probes, steps)
    agreed = sum(1 for c in bound.checks if c.outcome(values) in {"exact", "rounded"})
    tied = sum(1 for c in bound.checks if c.outcome(values) != "unknown")
    return (agreed - 2 * len(bound.loose), tied, -len(bound.loose))


def _likely(text: str, steps: Sequence[Step], context: Context) -> list[int]:
    """Steps in the order of how many of their names the sentence uses."""
    lowered = text.lower()

    def affinity(position: int) -> tuple[float, bool, int]:
        step = steps[position]
        names = {t for s in step.shapes for t in s.tables}
        names |= {c for s in step.shapes for m in (*s.measures, *s.keys) for c in m.columns}
        hits = sum(1.0 for n in names if n and name_pattern(n.lower()).search(lowered))
        hits += 2.0 * min(2, len(mentions_in(text, position, step)))
        return (-hits, position != context.step, position)

    return sorted(range(len(steps)), key=affinity)


# ---------------------------------------------------------------- affected_count


def _bind_count(claim: Claim, steps: Sequence[Step], stated: Sequence[Bound]) -> Bound:
    """The affected count must be a count of the rows that the headline, or else the text, speaks
    of, or of all rows of their step."""
    figure = claim.figures[0]
    options = _stated_counts(steps, stated) or _count_options(steps, stated)
    for check in [c for bound in stated for c in bound.checks]:
        if isinstance(check, FigureCheck) and check.formula in {Formula.SUM, Formula.DIFFERENCE}:
            actual = check.actual(values_in_steps(check.probes, steps))
            if figure.agrees(actual):
                return Bound(claim, [FigureCheck(figure, check.formula, check.probes)])
    for probe in options:
        value = values_in_steps([probe], steps)[probe]
        if figure.agrees(value):
            return Bound(claim, [FigureCheck(figure, Formula.CELL, (probe,))])
    if options:
        return Bound(claim, [FigureCheck(figure, Formula.CELL, (options[0],))])
    return Bound(claim, loose=[figure])


def _stated_counts(steps: Sequence[Step], stated: Sequence[Bound]) -> list[Probe]:
    """The counts that the headline itself gives; of ``X of Y``, X is the affected part."""
    if len(stated) != 1 or stated[0].claim.kind is not ClaimKind.HEADLINE:
        return []
    text = stated[0].claim.text
    parts: list[Probe] = []
    for check in stated[0].checks:
        if not isinstance(check, FigureCheck) or check.formula is not Formula.CELL:
            continue
        probe = check.probes[0]
        counts = isinstance(probe, Scalar) and (
            steps[probe.step].kind(probe.row, probe.output) in {Measure.ROWS, Measure.DISTINCT}
        )
        if counts and not _BASE.search(text[: check.figure.start]):
            parts.append(probe)
    return parts


def _count_options(steps: Sequence[Step], stated: Sequence[Bound]) -> list[Probe]:
    probes = [p for bound in stated for p in bound.probes]
    scalars = [p for p in probes if isinstance(p, Scalar)]
    beyond = [p for p in probes if isinstance(p, Beyond)]
    rows = list(dict.fromkeys((p.step, p.row) for p in [*scalars, *beyond]))
    if not rows:
        rows = [(i, 0) for i, s in enumerate(steps) if len(s.rows) == 1]
    counts = {Measure.ROWS, Measure.DISTINCT, Measure.WHOLE}
    found: list[Probe] = [p for p in scalars if steps[p.step].kind(p.row, p.output) in counts]
    for position, row in rows:
        step = steps[position]
        found += [
            Scalar(position, row, name)
            for name in step.figures(row)
            if step.kind(row, name) in counts
        ]
    for position in dict.fromkeys(p for p, _ in rows):
        step = steps[position]
        if step.rows and len(step.rows) > 1 and step.shapes:
            found += [
                ColumnSum(position, name)
                for name in step.figures(0)
                if step.kind(0, name) is Measure.ROWS and len(step.shapes) == 1
            ]
            if step.shapes[0].grouped:
                found.append(GroupCount(position))
    return list(dict.fromkeys(found))
