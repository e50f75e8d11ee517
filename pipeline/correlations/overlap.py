"""What the values of two columns in common say about whether they are the same key. Pure rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ENOUGH_SHARED = 0.5
"""Part of one side's values that the other must have: a key may well refer to a part only."""
TOO_FEW_SHARED = 0.05
LEAST_FOUND = 2
"""Values in common, below which a whole overlap may be chance."""
LEAST_ASKED = 5
"""Values on either side, below which no overlap may be chance."""


class PairStatus(StrEnum):
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many distinct values of each side were looked for on the other, and found there."""

    asked_left: int
    found_left: int
    asked_right: int
    found_right: int

    @property
    def share(self) -> float:
        """The better of the two parts found, 0 to 1; 0 when nothing was asked."""
        sides = ((self.found_left, self.asked_left), (self.found_right, self.asked_right))
        return max((found / asked for found, asked in sides if asked > 0), default=0.0)

    @property
    def mirrored(self) -> Overlap:
        """The same with the two sides exchanged."""
        return Overlap(self.asked_right, self.found_right, self.asked_left, self.found_left)

    def described(self) -> str:
        return (
            f"{self.found_left} of {self.asked_left} values of the first exist in the second, "
            f"{self.found_right} of {self.asked_right} the other way"
        )


def judge_pair(overlap: Overlap) -> PairStatus:
    """Confirmed when half of one side's values exist on the other, rejected when next to none do
    either way, unknown in between and wherever there are too few values to tell."""
    fewest = min(overlap.asked_left, overlap.asked_right)
    if fewest <= 0:
        return PairStatus.UNKNOWN
    found = max(overlap.found_left, overlap.found_right)
    if overlap.share >= ENOUGH_SHARED:
        return PairStatus.CONFIRMED if found >= LEAST_FOUND else PairStatus.UNKNOWN
    if overlap.share <= TOO_FEW_SHARED and fewest >= LEAST_ASKED:
        return PairStatus.REJECTED
    return PairStatus.UNKNOWN
