"""When a run that reaches a cube-shaped source has seen enough: three repeats in a row.

Counting steps says nothing about a source whose slices are combinatorial. So past the floor a done
signal is refused while queries still turn up new ground. The rule only ever makes a run longer, and
whenever it cannot be measured it stands down and the floor alone decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

REPEAT_SCORE = 0.92
"""Cosine from which a step counts as a repeat of its nearest neighbour."""
REPEATS_BEFORE_DONE = 3
DEGRADED_BEFORE_FALLBACK = 3


class Judgement(StrEnum):
    NEW = "new"
    REPEAT = "repeat"
    UNJUDGED = "unjudged"
    """Could not be measured; neither new nor a repeat."""


class Ruling(StrEnum):
    ALLOWED = "allowed"
    PRODUCTIVE = "productive"
    UNPROVEN = "unproven"


def judge(score: float | None) -> Judgement:
    """``score`` is the cosine of the nearest earlier step of the same datasource; None when there
    is none, which is new ground."""
    if score is None:
        return Judgement.NEW
    if not math.isfinite(score):
        return Judgement.UNJUDGED
    return Judgement.REPEAT if score >= REPEAT_SCORE else Judgement.NEW


@dataclass(slots=True)
class Novelty:
    """What has been observed in this attempt. ``armed`` is False when there is no index at all."""

    armed: bool = True
    judged: int = 0
    repeats: int = 0
    """Repeats in a row; a new step ends the row, an unjudged one does not."""
    unjudged: int = 0
    """Unjudged steps in a row."""
    kept: int = 0
    """Steps that the index has taken."""
    refused: int = 0
    """Steps in a row that the index has refused."""

    def observe(self, judgement: Judgement) -> None:
        """Note a query step past the floor; a failed query is ``UNJUDGED``."""
        if judgement is Judgement.UNJUDGED:
            self.unjudged += 1
            return
        self.judged += 1
        self.unjudged = 0
        self.repeats = self.repeats + 1 if judgement is Judgement.REPEAT else 0

    def stored(self, kept: bool) -> None:
        """Note whether the index took a step that it was offered."""
        self.kept += kept
        self.refused = 0 if kept else self.refused + 1

    @property
    def fallback(self) -> str:
        """Why novelty cannot be measured at present, or ""; never a tally of the past."""
        if not self.armed:
            return "no step index"
        if self.refused and not self.kept:
            return "the step index has kept nothing"
        if self.refused >= DEGRADED_BEFORE_FALLBACK:
            return "the step index is stale"
        if self.unjudged >= DEGRADED_BEFORE_FALLBACK:
            return "recent steps could not be judged"
        return ""

    def ruling(self) -> Ruling:
        """Whether a done signal past the floor stands."""
        if self.fallback or self.repeats >= REPEATS_BEFORE_DONE:
            return Ruling.ALLOWED
        return Ruling.PRODUCTIVE if self.judged else Ruling.UNPROVEN


REASONS = {
    Ruling.PRODUCTIVE: (
        "productive: your latest queries still turned up ground that this run had not seen; "
        "follow it, or ask about something you have not touched"
    ),
    Ruling.UNPROVEN: (
        "unproven: nothing has been compared with your earlier work yet; "
        "run further queries before you finish"
    ),
}
