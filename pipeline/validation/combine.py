"""Merging the two verdicts of a document into one of the seven statuses."""

from __future__ import annotations

from pipeline.records import Status
from pipeline.validation.reading import VerdictLike, overall_of

_PASSED_THROUGH = {s.value: s for s in (Status.VALIDATION_DISABLED, Status.SKIPPED_BUDGET_CAP)}
_COULD_NOT_REFUTE = {Status.CONFIRMED.value, Status.SUPPORTED.value}


def combine(verifier: VerdictLike, refuter: VerdictLike, *, refuter_disabled: bool) -> Status:
    """What a verifier's and a refuter's verdict amount to. Pure; the first rule that fits wins.

    ``None`` means that the agent gave no verdict; an overall that is empty or unknown is a verdict
    without weight. ``refuter_disabled`` says that a refuter was never meant to run: its absence
    then costs nothing, but a rejection that is there all the same still counts.
    """
    if verifier is None:
        return Status.UNVERIFIABLE
    defended = overall_of(verifier)
    if defended in _PASSED_THROUGH:
        return _PASSED_THROUGH[defended]
    attacked = None if refuter is None else overall_of(refuter)
    if Status.REJECTED.value in (defended, attacked):
        return Status.REJECTED
    survived = refuter_disabled or attacked in _COULD_NOT_REFUTE
    match defended:
        case Status.PARTIAL.value:
            return Status.PARTIAL
        case Status.CONFIRMED.value:
            return Status.CONFIRMED if survived else Status.SUPPORTED
        case Status.SUPPORTED.value:
            return Status.SUPPORTED if survived else Status.PARTIAL
        case _:
            return Status.UNVERIFIABLE
