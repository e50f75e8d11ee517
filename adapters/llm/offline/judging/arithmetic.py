"""What a sentence must agree with by itself, and which periods it says were compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from adapters.llm.offline.judging.checks import Contradiction, FigureCheck
from adapters.llm.offline.judging.claims import PERIOD, Figure
from adapters.llm.offline.judging.probes import Scalar
from adapters.llm.offline.judging.steps import Step

_LEAVES_OUT = re.compile(r"\bleaves? out\b", re.IGNORECASE)
_OF = re.compile(r"\s*(?:\w+\s+)?(?:of|out of)\s+(?:the\s+|all\s+)?", re.IGNORECASE)
_OVER = re.compile(r"\s*%?\s*(?:over|across)\s+", re.IGNORECASE)
_BRACKET = re.compile(r"\s*(?:\w+\s+){0,3}\(\s*")


def of_pairs(figures: Sequence[Figure], text: str) -> list[tuple[Figure, Figure]]:
    """Every ``X of Y`` of a sentence."""
    return _joined(figures, text, _OF)


def over_pairs(figures: Sequence[Figure], text: str) -> list[tuple[Figure, Figure]]:
    """Every ``X over Y rows`` of a sentence."""
    return _joined(figures, text, _OVER)


def _joined(
    figures: Sequence[Figure], text: str, between: re.Pattern[str]
) -> list[tuple[Figure, Figure]]:
    return [
        (first, second)
        for first, second in pairwise(figures)
        if not second.percent and between.fullmatch(text[first.end : second.start])
    ]


def own_contradiction(
    figures: Sequence[Figure], text: str, checks: Sequence[object]
) -> list[Contradiction]:
    """``X of Y rows (Z%)`` where X / Y is not Z, shown by a cell that a figure is tied to."""
    found: list[Contradiction] = []
    for part, whole in of_pairs(figures, text):
        after = next((f for f in figures if f.start >= whole.end), None)
        if after is None or not after.percent or part.percent or not whole.value:
            continue
        if not _BRACKET.fullmatch(text[whole.end : after.start]):
            continue
        if after.agrees(float(part.value / whole.value * 100)):
            continue
        tied = [c for c in checks if isinstance(c, FigureCheck) and c.figure in {part, whole}]
        found += [
            Contradiction(c.probes[0], "the stated share is not what its own figures amount to")
            for c in tied[:1]
        ]
    return found


def coverage(text: str, steps: Sequence[Step]) -> list[Contradiction]:
    """Whether the first and the last period that were compared, with those that were left out,
    are all the periods of a cited result; nothing when no result has periods."""
    kept, _, out = text.partition(m.group() if (m := _LEAVES_OUT.search(text)) else "\n")
    named = [m.group() for m in PERIOD.finditer(kept)]
    left_out = {m.group() for m in PERIOD.finditer(out)}
    for position, step in enumerate(steps):
        periods = _periods(step)
        names = step.figures(0) if periods else []
        if not names or len(named) != 2:
            continue
        compared = [p for p in periods if p not in left_out]
        ends = [compared[0], compared[-1]] if compared else []
        probe = Scalar(position, 0, names[0])
        reason = "the result does not begin and end with these periods"
        return [Contradiction(probe, reason, holds=named == ends)]
    return []


def _periods(step: Step) -> list[str]:
    """The periods of a whole result that has one key, in order."""
    if not step.whole or not step.rows or len(step.keys(0)) != 1:
        return []
    values = [str(value) for row in range(len(step.rows)) for _, value in step.keys(row)]
    return sorted(values) if all(PERIOD.fullmatch(v) for v in values) else []
