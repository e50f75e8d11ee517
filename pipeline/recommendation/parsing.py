"""From a reply to recommendations (reference facts, B.2 and section J)."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pipeline.analysis.fields import (
    BadItem,
    as_count,
    as_number,
    as_share,
    as_text,
    as_texts,
    field,
)
from pipeline.analysis.lists import find_list
from pipeline.analysis.markdown import reduce
from pipeline.errors import ParseError
from pipeline.records import ExpectedImpact, Recommendation

log = logging.getLogger(__name__)

DEFAULT_PRIORITY = 3
LOWEST_PRIORITY = 5
_PRIORITY_WORDS = {"critical": 1, "urgent": 1, "high": 1, "medium": 2, "moderate": 2, "low": 3}


@dataclass(frozen=True, slots=True)
class ParsedRecommendations:
    recommendations: list[Recommendation]
    """``related_insight_ids`` as the model wrote them; the citation check comes next."""
    dropped: int
    """Items that could not be read."""


def parse_recommendations(reply: str, *, now: datetime) -> ParsedRecommendations:
    """Read the recommendations of a reply.

    An explicit empty list is a legitimate answer. Raises ``ParseError`` when there is no list, or
    when it has items and none of them can be read.
    """
    items = find_list(reply, "recommendations")
    recommendations: list[Recommendation] = []
    reasons: list[str] = []
    for item in items:
        try:
            recommendations.append(_recommendation(item, now))
        except BadItem as bad:
            reasons.append(str(bad))
            log.warning("a recommendation was dropped: %s", bad)
    if reasons and not recommendations:
        raise ParseError(f"none of the {len(items)} recommendations could be read: {reasons[0]}")
    return ParsedRecommendations(recommendations, len(reasons))


def _recommendation(item: Any, now: datetime) -> Recommendation:
    if not isinstance(item, dict):
        raise BadItem("a recommendation must be a JSON object")
    raw = cast("dict[str, Any]", item)
    title = " ".join(reduce(as_text(field(raw, "title", "name")))[0].split())
    if not title:
        raise BadItem("it has no title")
    plain, markdown = reduce(as_text(field(raw, "description")))
    return Recommendation(
        id=str(uuid.uuid4()),
        category=as_text(field(raw, "category")),
        title=title,
        description=plain,
        description_md=markdown,
        priority=_priority(field(raw, "priority")),
        target_segment=as_text(field(raw, "target_segment")),
        segment_size=as_count(field(raw, "segment_size")),
        expected_impact=_expected_impact(field(raw, "expected_impact")),
        actions=as_texts(field(raw, "actions")),
        related_insight_ids=_ids(field(raw, "related_insight_ids")),
        confidence=as_share(field(raw, "confidence")),
        created_at=now,
    )


def _priority(written: Any) -> int:
    if written is None:
        return DEFAULT_PRIORITY
    if isinstance(written, str):
        word = written.strip().lower()
        if word in _PRIORITY_WORDS:
            return _PRIORITY_WORDS[word]
        written = word.removeprefix("p")
    number = round(as_number(written))
    return min(number, LOWEST_PRIORITY) if number >= 1 else DEFAULT_PRIORITY


def _expected_impact(written: Any) -> ExpectedImpact:
    """Prose becomes the reasoning; null is no impact. Raises ``BadItem`` for any other shape."""
    if written is None:
        return ExpectedImpact()
    if isinstance(written, str):
        return ExpectedImpact(reasoning=written.strip())
    if not isinstance(written, dict):
        raise BadItem("expected_impact must be a JSON object or a text")
    raw = cast("dict[str, Any]", written)
    return ExpectedImpact(
        **{name: as_text(field(raw, name)) for name in ExpectedImpact.model_fields}
    )


def _ids(written: Any) -> list[str]:
    """The cited ids as written; a single one is a list of one."""
    if written is None:
        return []
    ids = cast("list[Any]", written) if isinstance(written, list) else [written]
    return [as_text(one) for one in ids]
