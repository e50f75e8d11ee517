"""Issue 4: key pairs "confirmed or rejected by measuring value overlap"."""

from __future__ import annotations

import pytest

from pipeline.correlations.overlap import Overlap, PairStatus, judge_pair

CONFIRMED, REJECTED, UNKNOWN = PairStatus.CONFIRMED, PairStatus.REJECTED, PairStatus.UNKNOWN


@pytest.mark.parametrize(
    ("asked_left", "found_left", "asked_right", "found_right", "status"),
    [
        (100, 100, 100, 100, CONFIRMED),
        (100, 40, 40, 40, CONFIRMED),  # orders know a part of the customers only
        (40, 40, 5_000, 40, CONFIRMED),
        (100, 50, 100, 50, CONFIRMED),
        (200, 0, 200, 190, CONFIRMED),  # one side sampled where the other does not reach
        (2, 2, 2, 2, CONFIRMED),
        (1, 1, 1, 1, UNKNOWN),  # one value may be chance
        (1, 1, 500, 1, UNKNOWN),
        (100, 49, 100, 49, UNKNOWN),
        (100, 6, 100, 6, UNKNOWN),
        (100, 5, 100, 5, REJECTED),
        (100, 0, 100, 0, REJECTED),
        (5, 0, 5, 0, REJECTED),
        (4, 0, 100, 0, UNKNOWN),  # too few values for their absence to mean anything
        (100, 0, 3, 0, UNKNOWN),
        (0, 0, 100, 0, UNKNOWN),
        (100, 0, 0, 0, UNKNOWN),
        (0, 0, 0, 0, UNKNOWN),
        (-1, 0, 5, 5, UNKNOWN),
    ],
)
def test_a_pair_is_judged_by_the_values_in_common(
    asked_left: int, found_left: int, asked_right: int, found_right: int, status: PairStatus
) -> None:
    assert judge_pair(Overlap(asked_left, found_left, asked_right, found_right)) is status
    assert judge_pair(Overlap(asked_right, found_right, asked_left, found_left)) is status


def test_an_overlap_is_told_with_its_counts() -> None:
    told = Overlap(40, 40, 200, 40).described()
    assert told == ("40 of 40 values of the first exist in the second, 40 of 200 the other way")
