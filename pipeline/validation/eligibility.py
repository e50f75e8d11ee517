"""Which insights may feed recommendations."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipeline.records import Insight, InsightValidation, Status

DEFAULT_ACCEPTED = frozenset({Status.CONFIRMED, Status.SUPPORTED})


def eligible(validation: InsightValidation | None, accepted: Collection[str] = ()) -> bool:
    """Open where no validator ran, whatever the project accepts; else by the combined status.

    ``accepted`` is the project's selection; empty means confirmed and supported.
    """
    if validation is None:
        return True
    combined = validation.combined.value if validation.combined else validation.status
    if combined == Status.VALIDATION_DISABLED:
        return True
    return combined in {str(status) for status in accepted or DEFAULT_ACCEPTED}


def eligible_insights(insights: Iterable[Insight], accepted: Collection[str] = ()) -> list[Insight]:
    """The eligible ones, in order."""
    return [insight for insight in insights if eligible(insight.validation, accepted)]
