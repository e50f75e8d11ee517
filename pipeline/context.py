"""Phases 1 and 6: what earlier runs and people said, and what this run leaves behind.

Limits are those of the reference facts, section E.2: the last 5 discoveries, 30 insights,
15 recommendations, 10 notes of relevance 0.5 or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from pipeline.ports import Memory
from pipeline.records import (
    ContextNote,
    DiscoveryResult,
    Feedback,
    ProjectContext,
    Status,
)

RECENT_DISCOVERIES = 5
MAX_INSIGHTS = 30
MAX_RECOMMENDATIONS = 15
MAX_NOTES = 10
MIN_RELEVANCE = 0.5

_LINE_CHARS = 240
_NOTE_CHARS = 600
_NOTES_KEPT = 50
_PATTERNS_KEPT = 200
_RUNS_KEPT = 500
_NOTE_DECAY = 0.8
"""A note loses a fifth of its relevance with every later run: shown for four runs, then dropped."""


# ---------------------------------------------------------------- phase 1: what is known


async def recall(memory: Memory, project_id: str, *, run_id: str) -> str:
    """Phase 1: the previous context of a run, in words. Empty on a project's first run.

    What the run itself left behind in an earlier attempt is not part of it.
    """
    discoveries = await memory.recent_discoveries(
        project_id, RECENT_DISCOVERIES, exclude_run=run_id
    )
    feedback = await memory.feedback(project_id)
    context = await memory.context(project_id)
    others = [d for d in discoveries if d.run_id != run_id]
    return previous_context(others, feedback, _without(context, run_id))


def _without(context: ProjectContext | None, run_id: str) -> ProjectContext | None:
    """The context as it was before an earlier attempt of the run added to it."""
    if context is None or run_id not in context.run_ids:
        return context
    newest = context.run_ids[-1] == run_id
    return context.model_copy(
        update={
            "notes": [note for note in context.notes if note.run_id != run_id],
            "discoveries": context.discoveries - 1,
            "last_discovery_at": None if newest else context.last_discovery_at,
        }
    )


def previous_context(
    discoveries: Sequence[DiscoveryResult],
    feedback: Sequence[Feedback],
    context: ProjectContext | None = None,
) -> str:
    """Earlier insights, feedback, recommendations and notes as lines of text, newest first.

    ``discoveries`` in any order; more than ``RECENT_DISCOVERIES`` are cut to the newest.
    """
    recent = sorted(discoveries, key=lambda d: d.discovery_date, reverse=True)
    recent = recent[:RECENT_DISCOVERIES]
    notes = _notes(context)
    if not recent and not feedback and not notes:
        return ""
    parts = [
        _headline(recent, context),
        _section("Insights found before (do not report them again unless they changed):",
                 _insight_lines(recent)),
        _section("Disliked by the people who read them (avoid similar conclusions):",
                 _feedback_lines(recent, feedback, "dislike")),
        _section("Liked by the people who read them (monitor for changes):",
                 _feedback_lines(recent, feedback, "like")),
        _section("Recommendations given before (do not repeat unless something changed):",
                 _recommendation_lines(recent)),
        _section("Notes from earlier runs:", notes),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def _headline(recent: Sequence[DiscoveryResult], context: ProjectContext | None) -> str:
    done = max(len(recent), context.discoveries if context else 0)
    if not done:
        return ""
    last = recent[0].discovery_date if recent else context.last_discovery_at if context else None
    when = f"; the last one was on {last:%Y-%m-%d}" if last else ""
    return f"This is run {done + 1} of this project{when}."


def _section(title: str, lines: Iterable[str]) -> str:
    listed = [f"- {line}" for line in lines]
    return "\n".join([title, *listed]) if listed else ""


def _one_line(text: str, limit: int = _LINE_CHARS) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def _insight_lines(recent: Sequence[DiscoveryResult]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for discovery in recent:
        for insight in discovery.insights:
            key = (insight.analysis_area.lower(), " ".join(insight.name.lower().split()))
            if key in seen:
                continue
            if len(seen) == MAX_INSIGHTS:
                return
            seen.add(key)
            combined = insight.validation.combined if insight.validation else None
            facts = [insight.severity.value, f"{discovery.discovery_date:%Y-%m-%d}"]
            if combined and combined is not Status.VALIDATION_DISABLED:
                facts.append(combined.value)
            yield f"[{insight.analysis_area}] {_one_line(insight.name)} ({', '.join(facts)})"


def _recommendation_lines(recent: Sequence[DiscoveryResult]) -> Iterator[str]:
    seen: set[str] = set()
    for discovery in recent:
        for recommendation in discovery.recommendations:
            key = " ".join(recommendation.title.lower().split())
            if key in seen:
                continue
            if len(seen) == MAX_RECOMMENDATIONS:
                return
            seen.add(key)
            yield f"{_one_line(recommendation.title)} ({discovery.discovery_date:%Y-%m-%d})"


def _feedback_lines(
    recent: Sequence[DiscoveryResult], feedback: Sequence[Feedback], rating: str
) -> Iterator[str]:
    names = _names(recent)
    for given in sorted(feedback, key=lambda f: f.created_at, reverse=True):
        if given.rating != rating:
            continue
        name = names.get((given.discovery_id, given.target_id)) or names.get(("", given.target_id))
        comment = _one_line(given.comment)
        if name is None and not comment:
            continue
        subject = name or f"an earlier {given.target_type.replace('_', ' ')}"
        yield f"{subject}: {comment}" if comment else subject


def _names(recent: Sequence[DiscoveryResult]) -> dict[tuple[str, str], str]:
    """What feedback can point at, by (discovery id, document id or ref)."""
    names: dict[tuple[str, str], str] = {}
    for discovery in recent:
        for insight in discovery.insights:
            label = f"[{insight.analysis_area}] {_one_line(insight.name)}"
            names[discovery.id, insight.ref] = label
            names["", insight.id] = label
        for recommendation in discovery.recommendations:
            names["", recommendation.id] = f"recommendation: {_one_line(recommendation.title)}"
    return names


def _notes(context: ProjectContext | None) -> list[str]:
    if context is None:
        return []
    shown = [n for n in context.notes if n.relevance >= MIN_RELEVANCE and n.text.strip()]
    shown.sort(key=lambda note: note.relevance, reverse=True)
    return [_one_line(note.text, _NOTE_CHARS) for note in shown[:MAX_NOTES]]


# ---------------------------------------------------------------- phase 6: what is left behind


async def remember(memory: Memory, result: DiscoveryResult, *, now: datetime) -> None:
    """Phase 6: merge a result into its project's long-term memory.

    Nothing retracts this write, so it belongs on the terminal path: after the attempt has claimed
    the run and its result is being kept, never before.
    """
    known = await memory.context(result.project_id)
    await memory.save_context(updated_context(known, result, now=now))


def updated_context(
    known: ProjectContext | None, result: DiscoveryResult, *, now: datetime
) -> ProjectContext:
    """The project context after ``result``; ``known`` itself is not changed.

    A run counts once: what a partial result of an earlier attempt left is replaced.
    """
    before = known or ProjectContext(project_id=result.project_id)
    counted = result.run_id in before.run_ids
    others = [note for note in before.notes if note.run_id != result.run_id]
    faded = others if counted else [_faded(note) for note in others]
    text = _one_line(result.summary.text, _NOTE_CHARS)
    new = [ContextNote(text=text, created_at=now, run_id=result.run_id)] if text else []
    runs = [run for run in before.run_ids if run != result.run_id]
    return ProjectContext(
        project_id=before.project_id,
        notes=[*new, *(note for note in faded if note.relevance >= MIN_RELEVANCE)][:_NOTES_KEPT],
        historical_patterns=_merged_patterns(before.historical_patterns, result),
        discoveries=before.discoveries + (not counted),
        run_ids=[*runs, result.run_id][-_RUNS_KEPT:],
        last_discovery_at=result.discovery_date,
        updated_at=now,
    )


def _faded(note: ContextNote) -> ContextNote:
    return note.model_copy(update={"relevance": round(note.relevance * _NOTE_DECAY, 4)})


def _merged_patterns(
    known: Sequence[dict[str, Any]], result: DiscoveryResult
) -> list[dict[str, Any]]:
    unseen = (_before_run(pattern, result.run_id) for pattern in known)
    patterns = {_pattern_key(pattern): pattern for pattern in unseen if pattern["times_seen"]}
    fresh: list[tuple[str, str]] = []
    for insight in result.insights:
        validation = insight.validation
        pattern: dict[str, Any] = {
            "name": insight.name,
            "analysis_area": insight.analysis_area,
            "severity": insight.severity.value,
            "combined": validation.combined.value if validation and validation.combined else "",
            "last_seen": result.discovery_date,
            "run_id": result.run_id,
        }
        key = _pattern_key(pattern)
        if key in fresh:
            continue
        fresh.append(key)
        seen = patterns.pop(key, None)
        pattern["first_seen"] = seen["first_seen"] if seen else result.discovery_date
        pattern["times_seen"] = (seen["times_seen"] if seen else 0) + 1
        patterns[key] = pattern
    kept = [patterns[key] for key in fresh]
    kept += [pattern for key, pattern in patterns.items() if key not in fresh]
    return kept[:_PATTERNS_KEPT]


def _before_run(pattern: dict[str, Any], run_id: str) -> dict[str, Any]:
    """The pattern without the sighting of an earlier attempt of the run."""
    times = int(pattern.get("times_seen", 1))
    own = bool(run_id) and pattern.get("run_id") == run_id
    return {**pattern, "times_seen": times - own}


def _pattern_key(pattern: dict[str, Any]) -> tuple[str, str]:
    name = " ".join(str(pattern.get("name", "")).lower().split())
    return str(pattern.get("analysis_area", "")).lower(), name
