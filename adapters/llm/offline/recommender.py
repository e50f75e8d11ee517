"""The recommender: one piece of advice for each kind of finding, resting on its facts verbatim."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.llm.offline.reading import Json, find_payload, int_of, number_of, objects, text_of
from pipeline.ports import ChatRequest

MOST, PER_ADVICE = 6, 3
_SEVERITIES = {"critical": 4, "high": 3, "medium": 2, "low": 1}
_MARKS = re.compile(r"([*`\[\]<>\\#~]|(?<!\w)_|_(?!\w))")


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about one kind of finding."""

    pattern: re.Pattern[str]
    category: str
    title: str
    takeaway: str
    metric: str
    actions: tuple[str, ...]


def _advice(pattern: str, *parts: str, actions: Sequence[str]) -> Advice:
    category, title, takeaway, metric = parts
    return Advice(re.compile(pattern, re.I), category, title, takeaway, metric, tuple(actions))


_KINDS = (
    _advice(
        r"has no missing|^No row",
        "data quality",
        "Keep the checks that pass",
        "Checks that pass today should run after every load, so that they pass tomorrow",
        "number of rows that fail the check",
        actions=(
            "Add the check to the load and keep its result.",
            "Tell the owner of the table when it fails for the first time.",
        ),
    ),
    _advice(
        r"\bmissing\b",
        "data quality",
        "Repair missing values",
        "Missing values should be repaired at their source before reports rely on these columns",
        "share of rows with a missing value",
        actions=(
            "Find the owner of the source that fills these columns and show them the counts.",
            "Decide for each column whether a gap is legitimate, and record that rule.",
            "Check the share of gaps after every load and raise an alarm when it grows.",
        ),
    ),
    _advice(
        r"not in|never used|copy|more than once|more than one row|placeholder|orphan",
        "data quality",
        "Repair references and duplicates",
        "References and duplicates should be cleaned before tables are joined in reports",
        "number of rows without a match or with a copy",
        actions=(
            "List the affected keys and give the list to the owner of the reference table.",
            "Add the missing reference rows, or mark the affected rows as unmatched in reports.",
            "Test the relation after every load.",
        ),
    ),
    _advice(
        r"extreme|99th percentile|maximum",
        "data quality",
        "Check extreme values",
        "Extreme values should be checked before averages that include them are trusted",
        "number of rows beyond the usual range",
        actions=(
            "Take a sample of the extreme rows and find out whether they are real or misrecorded.",
            "Report the median beside the average where such values occur.",
            "Set a plausible range and flag new rows that leave it.",
        ),
    ),
    _advice(
        r"peaked|rose|fell",
        "planning",
        "Plan by period",
        "Capacity and targets should follow the course over time rather than the average",
        "figure of the peak period",
        actions=(
            "Compare the peak with the same period of other years before calling it a season.",
            "Set capacity and targets by period.",
            "Watch the next occurrence of the peak and compare it with this one.",
        ),
    ),
    _advice(
        r"above zero|is set in|correlation|move together|opposite",
        "operations",
        "Track the rate and what moves with it",
        "The rate should be tracked, together with the figures that move with it",
        "share of affected rows",
        actions=(
            "Agree on a target for the share and on who owns it.",
            "Break the share down by group to see where it is made.",
            "Follow it by week and act when it leaves its usual range.",
        ),
    ),
    _advice(
        r"is (highest|lowest) for",
        "operations",
        "Review what stands out",
        "The groups that stand out should be reviewed before general measures are taken",
        "figure of the group that stands out",
        actions=(
            "Compare how the best and the worst group work, and list the differences.",
            "Check whether the mix inside the group explains the difference.",
            "Try one change in one group and measure the same figure again.",
        ),
    ),
    _advice(
        r"has the most|more .* than any other",
        "strategy",
        "Start where the volume is",
        "Improvements pay off first where most of the volume is",
        "share of the largest group",
        actions=(
            "Put the largest group first when choosing where to improve.",
            "Assess the risk of depending on it, and set a limit if there is none.",
            "Review the shares every quarter.",
        ),
    ),
)
_OTHER = _advice(
    r"",
    "operations",
    "Follow up on the finding",
    "The finding should be followed up by the people who know the process",
    "figure of the finding",
    actions=(
        "Discuss the finding with the owner of the process.",
        "Decide on one measure and on the figure that will show whether it works.",
    ),
)


def recommendations(request: ChatRequest) -> Json:
    """Up to six recommendations, each citing the findings it rests on."""
    found = [i for i in objects(find_payload(request, "insights")) if text_of(i.get("id"))]
    groups = _grouped(found)
    return {"recommendations": [_recommend(advice, items) for advice, items in groups[:MOST]]}


def _grouped(found: list[Json]) -> list[tuple[Advice, list[Json]]]:
    """Findings by the advice that answers them, the most pressing first."""
    by_kind: dict[int, list[Json]] = {}
    for insight in sorted(found, key=_urgency):
        by_kind.setdefault(_kind(insight), []).append(insight)
    groups: list[tuple[Advice, list[Json]]] = []
    for kind, items in by_kind.items():
        advice = _KINDS[kind] if kind < len(_KINDS) else _OTHER
        groups.append((advice, items[:PER_ADVICE]))
    while len(groups) < 2 and any(len(items) > 1 for _, items in groups):
        advice, items = groups.pop(0)
        groups += [(advice, items[:1]), (advice, items[1:])]
    return sorted(groups, key=lambda g: _urgency(g[1][0]))


def _kind(insight: Json) -> int:
    name = text_of(insight.get("name"))
    return next((i for i, a in enumerate(_KINDS) if a.pattern.search(name)), len(_KINDS))


def _urgency(insight: Json) -> tuple[float, float, str]:
    severity = _SEVERITIES.get(text_of(insight.get("severity")).lower(), 0)
    risk = number_of(insight.get("risk_score")) or 0
    return (-severity, -float(risk), text_of(insight.get("id")))


def _recommend(advice: Advice, items: list[Json]) -> Json:
    first = items[0]
    segment = text_of(first.get("target_segment"))
    facts = "\n".join(f"- {_marked(_stopped(text_of(i.get('name'))))}" for i in items)
    severity = _SEVERITIES.get(text_of(first.get("severity")).lower(), 1)
    return {
        "category": advice.category,
        "title": f"{advice.title}: {segment}" if segment else advice.title,
        "description": f"**{advice.takeaway}.**\n\nWhat the data shows:\n\n{facts}",
        "priority": {4: 1, 3: 1, 2: 2}.get(severity, 3),
        "target_segment": segment,
        "segment_size": max(0, int_of(first.get("affected_count"))),
        "expected_impact": {
            "metric": advice.metric,
            "estimated_improvement": "not estimated",
            "reasoning": "The advice comes from rules, which cannot estimate an effect. Measure the"
            " figure before and after.",
        },
        "actions": list(advice.actions),
        "related_insight_ids": [text_of(i.get("id")) for i in items],
        "confidence": round(min(float(number_of(i.get("confidence")) or 0.5) for i in items), 2),
    }


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _marked(text: str) -> str:
    """Plain text that Markdown shows unchanged."""
    return _MARKS.sub(r"\\\1", text)
