"""From an analysis reply to insights (reference facts, section H)."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pipeline.analysis.fields import (
    BadItem,
    as_count,
    as_share,
    as_text,
    as_texts,
    field,
)
from pipeline.analysis.lists import find_list
from pipeline.analysis.markdown import reduce
from pipeline.errors import ParseError
from pipeline.records import ExplorationStep, Insight, Severity

log = logging.getLogger(__name__)

_STEP = re.compile(r"(?:steps?)?\s*#?\s*(\d{1,9})(?:\.0+)?", re.IGNORECASE)
_NAME_CHARS = 300
_SEVERITIES = {
    **{severity.value: severity for severity in Severity},
    "severe": Severity.CRITICAL,
    "urgent": Severity.CRITICAL,
    "major": Severity.HIGH,
    "important": Severity.HIGH,
    "moderate": Severity.MEDIUM,
    "med": Severity.MEDIUM,
    "minor": Severity.LOW,
    "info": Severity.LOW,
    "informational": Severity.LOW,
}


@dataclass(frozen=True, slots=True)
class ParsedInsights:
    insights: list[Insight]
    dropped: int
    """Items that could not be read."""


def parse_insights(
    reply: str, area_id: str, shown: Collection[ExplorationStep], *, now: datetime
) -> ParsedInsights:
    """Read the insights of one area.

    ``shown`` are the steps whose digests the prompt held; an insight can cite no other. An explicit
    empty list is a legitimate answer. Raises ``ParseError`` when there is no list, or when it has
    items and none of them can be read.
    """
    items = find_list(reply, "insights")
    by_number = {step.step: step for step in shown}
    insights: list[Insight] = []
    reasons: list[str] = []
    for item in items:
        try:
            insights.append(_insight(item, area_id, len(insights) + 1, by_number, now))
        except BadItem as bad:
            reasons.append(str(bad))
            log.warning("area %s: an insight was dropped: %s", area_id, bad)
    if reasons and not insights:
        raise ParseError(f"none of the {len(items)} insights could be read: {reasons[0]}")
    return ParsedInsights(insights, len(reasons))


def _insight(
    item: Any, area_id: str, number: int, steps: Mapping[int, ExplorationStep], now: datetime
) -> Insight:
    if not isinstance(item, dict):
        raise BadItem("an insight must be a JSON object")
    raw = cast("dict[str, Any]", item)
    described = as_text(field(raw, "description"))
    name = _name(field(raw, "name", "title", "headline"), described)
    plain, markdown = reduce(described)
    cited = source_steps(field(raw, "source_steps"), steps)
    return Insight(
        id=str(uuid.uuid4()),
        ref=f"{area_id}-{number}",
        analysis_area=area_id,
        name=name,
        description=plain,
        description_md=markdown,
        severity=_severity(field(raw, "severity")),
        affected_count=as_count(field(raw, "affected_count")),
        risk_score=as_share(field(raw, "risk_score")),
        confidence=as_share(field(raw, "confidence")),
        metrics=_metrics(field(raw, "metrics")),
        indicators=as_texts(field(raw, "indicators")),
        target_segment=as_text(field(raw, "target_segment")),
        source_steps=cited,
        sql_metadata=_sql_metadata([steps[n] for n in cited]),
        discovered_at=now,
        evidence_quality=evidence_quality(steps[n] for n in cited),
    )


def _name(written: Any, description: str) -> str:
    """The name without Markdown; where none was written, the description's first sentence."""
    plain, _ = reduce(as_text(written))
    if not plain:
        plain = re.split(r"(?<=[.!?])\s", reduce(description)[0], maxsplit=1)[0]
    flat = " ".join(plain.split())
    if not flat:
        raise BadItem("it has neither a name nor a description")
    return flat[:_NAME_CHARS]


def _severity(written: Any) -> Severity:
    return _SEVERITIES.get(as_text(written).lower(), Severity.MEDIUM)


def _metrics(written: Any) -> dict[str, Any]:
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise BadItem("metrics must be a JSON object")
    return cast("dict[str, Any]", written)


def source_steps(written: Any, known: Collection[int]) -> list[int]:
    """The cited steps that exist among ``known``, each once, in the order written.

    Accepts a list, a scalar, numbers as text and "step 3".
    """
    cited = cast("list[Any]", written) if isinstance(written, list) else [written]
    numbers = (number for one in cited for number in _step_numbers(one))
    return list(dict.fromkeys(number for number in numbers if number in known))


def _step_numbers(written: Any) -> Iterator[int]:
    if isinstance(written, bool):
        return
    if isinstance(written, int):
        yield written
    elif isinstance(written, float):
        if written.is_integer():
            yield int(written)
    elif isinstance(written, str):
        for piece in re.split(r"[,;]|\band\b", written):
            if match := _STEP.fullmatch(piece.strip()):
                yield int(match.group(1))


def _sql_metadata(cited: Sequence[ExplorationStep]) -> dict[str, Any]:
    """The query of the first cited step: the one that the writer leans on most."""
    return {"query": cited[0].query, "row_count": cited[0].row_count} if cited else {}


def evidence_quality(cited: Iterator[ExplorationStep] | Sequence[ExplorationStep]) -> list[str]:
    """Quality kinds of the cited steps, each once, in step order."""
    return list(dict.fromkeys(quality.kind.value for step in cited for quality in step.quality))
