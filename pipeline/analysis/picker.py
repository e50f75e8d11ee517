"""Which steps an area's prompt shows (reference facts, section H).

Steps near the area in meaning, and steps whose text holds one of its keywords, best first, as many
as the token budget takes. Pure: the vector ranking comes in as ``hits``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.analysis.entries import entry, rendered_chars_of
from pipeline.ports import StepHit
from pipeline.prompting import to_json
from pipeline.records import DroppedStep, ExplorationStep, PickedStep

TOP_K = 24
MIN_SCORE = 0.30
EXACT_MATCH_FLOOR = 0.55
CHARS_PER_TOKEN = 4

VECTOR, EXACT_MATCH = "vector", "exact_match"
BELOW_MIN_SCORE, OVER_BUDGET = "below_min_score", "over_budget"


class AreaLike(Protocol):
    @property
    def keywords(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True)
class Picked:
    selected: list[ExplorationStep]
    """Best first."""
    selected_steps: list[PickedStep] = field(default_factory=list[PickedStep])
    """Score and source of each selected step, in the same order."""
    dropped_steps: list[DroppedStep] = field(default_factory=list[DroppedStep])
    entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What the prompt shows of each selected step, in the same order."""


def pick(
    area: AreaLike,
    steps: Sequence[ExplorationStep],
    hits: Sequence[StepHit] | None,
    budget_tokens: int,
) -> Picked:
    """Choose steps for an area. Only queries that returned a result can be chosen.

    ``hits`` are the nearest steps by vector, of which the best ``TOP_K`` count; None means that
    there is no index and keywords alone decide. At least one step stays, whatever its size.
    """
    usable = {step.step: step for step in steps if step.succeeded}
    scores = _vector_scores(hits or (), usable)
    dropped: list[DroppedStep] = []
    ranked: list[PickedStep] = []
    keywords = [word for raw in area.keywords if (word := raw.strip().lower())]
    for number, step in usable.items():
        score = scores.get(number)
        if _mentions(step, keywords):
            promoted = max(score or 0.0, EXACT_MATCH_FLOOR)
            ranked.append(PickedStep(step=number, score=promoted, source=EXACT_MATCH))
        elif score is not None and score >= MIN_SCORE:
            ranked.append(PickedStep(step=number, score=score, source=VECTOR))
        elif score is not None:
            dropped.append(DroppedStep(step=number, score=score, reason=BELOW_MIN_SCORE))
    ranked.sort(key=lambda p: (-p.score, p.step))
    dropped.sort(key=lambda d: (-d.score, d.step))
    entries = [entry(usable[p.step]) for p in ranked]
    fitting = _fitting([len(to_json(one)) for one in entries], budget_tokens)
    dropped += [
        DroppedStep(step=p.step, score=p.score, reason=OVER_BUDGET) for p in ranked[fitting:]
    ]
    kept = ranked[:fitting]
    return Picked([usable[p.step] for p in kept], kept, dropped, entries[:fitting])


def _vector_scores(hits: Sequence[StepHit], usable: Collection[int]) -> dict[int, float]:
    sound = [hit for hit in hits if hit.step in usable and not math.isnan(hit.score)]
    best = sorted(sound, key=lambda hit: (-hit.score, hit.step))
    scores: dict[int, float] = {}
    for hit in best:
        if len(scores) == TOP_K:
            break
        scores.setdefault(hit.step, hit.score)
    return scores


def _mentions(step: ExplorationStep, keywords: Sequence[str]) -> bool:
    text = f"{step.query}\n{step.query_purpose}\n{step.thinking}".lower()
    return any(word in text for word in keywords)


def _fitting(sizes: Sequence[int], budget_tokens: int) -> int:
    """How many of the entries, taken from the front, fit the budget; at least one."""
    count = len(sizes)
    while count > 1 and rendered_chars_of(sizes[:count]) / CHARS_PER_TOKEN > budget_tokens:
        count -= 1
    return count
