"""The citation check: a recommendation rests on eligible insights or is dropped."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.records import Insight, Recommendation

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cited:
    kept: list[Recommendation]
    """In order, ``related_insight_ids`` as UUIDs, each once."""
    missing_ids: int
    """Dropped because they cite nothing."""
    unknown_id: int
    """Dropped because they cite something that is not an eligible insight."""

    @property
    def dropped(self) -> int:
        return self.missing_ids + self.unknown_id


def check_citations(
    recommendations: Sequence[Recommendation], eligible: Sequence[Insight]
) -> Cited:
    """Keep the recommendations whose every citation is an eligible insight's UUID or ref."""
    known = {insight.ref: insight.id for insight in eligible}
    known |= {insight.id: insight.id for insight in eligible}
    kept: list[Recommendation] = []
    missing = unknown = 0
    for recommendation in recommendations:
        cited = [written.strip() for written in recommendation.related_insight_ids]
        bad = [written for written in cited if written not in known]
        if not cited:
            missing += 1
            log.warning("recommendation %r dropped: it cites no insight", recommendation.title)
        elif bad:
            unknown += 1
            log.warning("recommendation %r dropped: it cites %s", recommendation.title, bad)
        else:
            ids = list(dict.fromkeys(known[written] for written in cited))
            kept.append(recommendation.model_copy(update={"related_insight_ids": ids}))
    return Cited(kept, missing, unknown)


def outcome_message(kept: int, dropped_by_citation: int) -> str:
    """The live feed's line about the phase."""
    message = f"Generated {kept} recommendations"
    if dropped_by_citation:
        message += f" ({dropped_by_citation} dropped due to invalid related_insight_ids)"
    return message
