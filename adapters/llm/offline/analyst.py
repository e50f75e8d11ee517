"""The analyst: reads the digests of an area and states what the rows show, with its steps."""

from __future__ import annotations

import re

from adapters.llm.offline.findings.columns import branches
from adapters.llm.offline.findings.finding import (
    Evidence,
    Finding,
    Topic,
    read_evidence,
)
from adapters.llm.offline.findings.rankings import ranking
from adapters.llm.offline.findings.scalars import scalar
from adapters.llm.offline.findings.series import is_series, series
from adapters.llm.offline.reading import Json, as_list, as_object, find_payload, objects, text_of
from pipeline.ports import ChatRequest

MOST, PER_TOPIC = 5, 3

_AREA_TOPICS: tuple[tuple[tuple[str, ...], tuple[Topic, ...]], ...] = (
    (
        ("quality", "missing", "duplicate", "null", "orphan", "integrity", "completeness"),
        (Topic.GAPS, Topic.BROKEN),
    ),
    (
        ("anomal", "outlier", "extreme", "unusual", "spike"),
        (Topic.OUTLIERS, Topic.RATE, Topic.RELATION, Topic.EXTREME),
    ),
    (
        ("trend", "time", "season", "growth", "month"),
        (Topic.SERIES, Topic.PATTERN),
    ),
    (("segment", "group", "rank", "category", "concentration"), (Topic.RANKING,)),
)


def insights(request: ChatRequest) -> Json:
    """The insights of one area, in the analyst's grammar."""
    area = as_object(find_payload(request, "area"))
    digests = objects(find_payload(request, "query_results"))
    found = [f for f in (finding_of(d) for d in digests) if f is not None]
    chosen = choose(found, area)
    return {"insights": [_insight(f) for f in chosen]}


def finding_of(entry: Json) -> Finding | None:
    """What one digest shows, or None when it shows nothing worth stating."""
    evidence = read_evidence(entry)
    if evidence is None:
        return None
    if len(evidence.shapes) > 1:
        return branches(evidence)
    if not evidence.shape.grouped:
        return branches(evidence) or scalar(evidence)
    return series(evidence) if is_series(evidence) else ranking(evidence)


def topics_of(area: Json) -> tuple[Topic, ...]:
    """The topics of an area by its id and name, else by its keywords; empty means any."""
    keywords = " ".join(k for k in as_list(area.get("keywords")) if isinstance(k, str))
    for text in (f"{text_of(area.get('id'))} {text_of(area.get('name'))}", keywords):
        for words, topics in _AREA_TOPICS:
            if any(w in text.lower() for w in words):
                return topics
    return ()


def choose(found: list[Finding], area: Json) -> list[Finding]:
    """At most five findings of the area's topics, the weightiest first, not all of one topic."""
    topics = topics_of(area)
    if topics:
        own = [f for f in found if f.topic in topics]
    else:
        own = [f for f in found if _touches(f, area)] or found
    chosen: list[Finding] = []
    for finding in sorted(own, key=lambda f: (-f.weight, f.evidence.step)):
        same = [c for c in chosen if c.topic is finding.topic]
        cap = MOST if len(topics) == 1 else PER_TOPIC
        if len(chosen) < MOST and len(same) < cap and not _repeats(finding, chosen):
            chosen.append(finding)
    if len(chosen) > 2:
        chosen = [f for f in chosen if f.weight >= 0.05] or chosen[:2]
    return chosen


def _touches(finding: Finding, area: Json) -> bool:
    text = f"{finding.evidence.purpose} {finding.name}".lower()
    return any(k.lower() in text for k in as_list(area.get("keywords")) if isinstance(k, str))


def _repeats(finding: Finding, chosen: list[Finding]) -> bool:
    """True when the same group leads by the same kind of figure already."""
    return any(
        c.name == finding.name
        or (bool(c.segment) and c.segment == finding.segment and c.affected == finding.affected)
        for c in chosen
    )


def severity(weight: float) -> str:
    """From the weight of the figures alone."""
    if weight >= 0.6:
        return "high"
    return "medium" if weight >= 0.25 else "low"


def confidence(evidence: Evidence, rows: int) -> float:
    """Lower for small samples and for results that were cut."""
    value = 0.9 if rows >= 1000 else 0.8 if rows >= 100 else 0.6
    return round(value - (0.1 if not evidence.whole else 0.0), 2)


def _insight(finding: Finding) -> Json:
    body = ". ".join(_capital(s, finding) for s in finding.sentences)
    description = f"**{_capital(finding.takeaway, finding)}.**"
    if body:
        description += f"\n\n{body}."
    return {
        "name": _capital(finding.name, finding),
        "description": description,
        "severity": severity(finding.weight),
        "affected_count": finding.affected,
        "risk_score": round(finding.weight, 2),
        "confidence": confidence(finding.evidence, finding.rows),
        "metrics": finding.metrics,
        "indicators": [_plain(s) for s in finding.sentences[:2]],
        "target_segment": finding.segment,
        "source_steps": [finding.evidence.step],
    }


def _capital(sentence: str, finding: Finding) -> str:
    """A capital letter at the start, unless that would change the name of a column."""
    first = re.match(r"[a-z]{2,}(?=[\s,])", sentence)
    keys = {k.name for s in finding.evidence.shapes for k in s.keys}
    columns = {c for s in finding.evidence.shapes for m in s.measures for c in m.columns}
    tables = {t for s in finding.evidence.shapes for t in s.tables}
    if first is None or (first.group(0) in columns | tables and first.group(0) not in keys):
        return sentence
    return sentence[0].upper() + sentence[1:]


def _plain(sentence: str) -> str:
    return re.sub(r"`+ ?(.*?) ?`+", r"\1", sentence)
