"""Phases 1 and 6: previous context in, project context out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from pipeline.context import previous_context, recall, remember, updated_context
from pipeline.records import (
    ContextNote,
    DiscoveryResult,
    Feedback,
    Insight,
    InsightValidation,
    ProjectContext,
    Recommendation,
    Severity,
    Status,
    Summary,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def insight(name: str, area: str = "trends", **fields: Any) -> Insight:
    values: dict[str, Any] = {
        "id": f"id-{area}-{name}", "ref": f"{area}-1", "analysis_area": area, "name": name,
    }  # fmt: skip
    return Insight.model_validate(values | fields)


def discovery(days_ago: int = 1, **fields: Any) -> DiscoveryResult:
    values: dict[str, Any] = {
        "id": f"d{days_ago}", "project_id": "p", "run_id": f"r{days_ago}",
        "discovery_date": NOW - timedelta(days=days_ago),
    }  # fmt: skip
    return DiscoveryResult.model_validate(values | fields)


def rating(
    target_id: str, rated: Literal["like", "dislike"], comment: str = "", **fields: Any
) -> Feedback:
    values: dict[str, Any] = {
        "id": "f", "project_id": "p", "discovery_id": "d1", "target_type": "insight",
        "target_id": target_id, "rating": rated, "comment": comment, "created_at": NOW,
    }  # fmt: skip
    return Feedback.model_validate(values | fields)


class Memory:
    """``ports.Memory`` in a few lists."""

    def __init__(self, *discoveries: DiscoveryResult, context: ProjectContext | None = None):
        self.discoveries, self.saved = list(discoveries), context

    async def recent_discoveries(
        self, project_id: str, limit: int, *, exclude_run: str
    ) -> list[DiscoveryResult]:
        return [d for d in self.discoveries if d.run_id != exclude_run][:limit]

    async def feedback(self, project_id: str) -> list[Feedback]:
        return []

    async def context(self, project_id: str) -> ProjectContext | None:
        return self.saved

    async def save_context(self, context: ProjectContext) -> None:
        self.saved = context


def test_empty_on_the_first_run() -> None:
    assert previous_context([], [], None) == ""
    assert previous_context([], [], ProjectContext(project_id="p")) == ""


def test_run_number_and_last_date_come_first() -> None:
    text = previous_context([discovery(3), discovery(1)], [], None)
    assert text.splitlines()[0] == (
        "This is run 3 of this project; the last one was on 2026-11-29."
    )
    known = ProjectContext(project_id="p", discoveries=7)
    assert previous_context([discovery(1)], [], known).startswith("This is run 8 ")


def test_insights_are_listed_with_area_severity_date_and_verdict() -> None:
    judged = InsightValidation(combined=Status.REJECTED)
    unjudged = InsightValidation(combined=Status.VALIDATION_DISABLED)
    found = [
        insight("A\nfalls", severity=Severity.HIGH, validation=judged),
        insight("B", "segments", validation=unjudged),
    ]
    lines = previous_context([discovery(1, insights=found)], []).splitlines()
    assert "- [trends] A falls (high, 2026-11-29, rejected)" in lines
    assert "- [segments] B (medium, 2026-11-29)" in lines


def test_insights_are_deduplicated_by_area_and_name_the_newest_wins() -> None:
    old = discovery(5, insights=[insight("Same  name"), insight("same name", "segments")])
    new = discovery(1, insights=[insight("SAME NAME")])
    text = previous_context([old, new], [])
    assert text.lower().count("same name") == 2
    assert "[trends] SAME NAME (medium, 2026-11-29)" in text


def test_at_most_30_insights_and_15_recommendations() -> None:
    many = discovery(
        1,
        insights=[insight(f"insight {n}") for n in range(40)],
        recommendations=[Recommendation(id=str(n), title=f"advice {n}") for n in range(20)],
    )
    text = previous_context([many], [])
    assert text.count("- [trends] insight ") == 30
    assert text.count("- advice ") == 15


def test_recommendations_are_deduplicated_by_title() -> None:
    advice = [Recommendation(id="1", title="Do X"), Recommendation(id="2", title="do  x")]
    text = previous_context([discovery(1, recommendations=advice)], [])
    assert text.lower().count("do x") == 1


def test_only_the_last_five_discoveries_count() -> None:
    runs = [discovery(n, insights=[insight(f"from {n}")]) for n in range(1, 8)]
    text = previous_context(runs, [])
    assert [f"from {n}" in text for n in range(1, 8)] == [True] * 5 + [False] * 2


def test_disliked_findings_are_to_be_avoided_and_liked_ones_monitored() -> None:
    found = discovery(
        1,
        insights=[insight("A"), insight("B", "segments")],
        recommendations=[Recommendation(id="r1", title="Do X")],
    )
    given = [
        rating("id-trends-A", "dislike", "we know this"),
        rating("segments-1", "like"),  # by ref, within its discovery
        rating("r1", "dislike", target_type="recommendation"),
        rating("gone", "dislike", "not about weather please"),
        rating("gone", "dislike"),
    ]
    text = previous_context([found], given)
    avoid, like = text.split("Disliked")[1].split("Liked")
    assert "avoid similar conclusions" in avoid
    assert "- [trends] A: we know this" in avoid
    assert "- recommendation: Do X" in avoid
    assert "- an earlier insight: not about weather please" in avoid
    assert avoid.count("\n- ") == 3
    assert "monitor for changes" in like
    assert "- [segments] B" in like


@pytest.mark.parametrize(("relevance", "shown"), [(0.5, True), (1.0, True), (0.49, False)])
def test_notes_from_relevance_one_half_on(relevance: float, shown: bool) -> None:
    known = ProjectContext(project_id="p", notes=[ContextNote(text="N", relevance=relevance)])
    assert ("- N" in previous_context([], [], known)) is shown


def test_at_most_ten_notes_the_most_relevant_first() -> None:
    notes = [ContextNote(text=f"note {n}", relevance=0.5 + n / 100) for n in range(20)]
    text = previous_context([], [], ProjectContext(project_id="p", notes=notes))
    assert text.count("- note ") == 10
    assert text.index("note 19") < text.index("note 11")


async def test_a_run_does_not_see_what_it_left_behind_itself() -> None:
    memory = Memory(discovery(1, insights=[insight("own")]), discovery(2, insights=[insight("B")]))
    text = await recall(memory, "p", run_id="r1")
    assert "own" not in text
    assert "[trends] B" in text
    assert await recall(Memory(discovery(1)), "p", run_id="r1") == ""


def test_patterns_are_merged_by_area_and_name() -> None:
    first = discovery(3, insights=[insight("A"), insight("A"), insight("B")])
    second = discovery(
        1, insights=[insight("a", validation=InsightValidation(combined=Status.CONFIRMED))]
    )
    known = updated_context(None, first, now=NOW)
    merged = updated_context(known, second, now=NOW)
    assert [(p["name"], p["times_seen"]) for p in merged.historical_patterns] == [
        ("a", 2),
        ("B", 1),
    ]
    assert merged.historical_patterns[0] == {
        "name": "a",
        "analysis_area": "trends",
        "severity": "medium",
        "combined": "confirmed",
        "first_seen": first.discovery_date,
        "last_seen": second.discovery_date,
        "run_id": second.run_id,
        "times_seen": 2,
    }
    assert (merged.discoveries, merged.last_discovery_at) == (2, second.discovery_date)
    assert known.historical_patterns[0]["times_seen"] == 1


def test_a_run_leaves_its_summary_as_a_note_that_fades() -> None:
    context = None
    for n in range(6):
        result = discovery(6 - n, summary=Summary(text=f"run {n}"))
        context = updated_context(context, result, now=NOW)
    assert context is not None
    assert [note.text for note in context.notes] == ["run 5", "run 4", "run 3", "run 2"]
    assert context.notes[1].relevance == pytest.approx(0.8)


async def test_memory_is_written_when_asked_to() -> None:
    memory = Memory()
    await remember(memory, discovery(1, insights=[insight("A")]), now=NOW)
    await remember(memory, discovery(0, insights=[insight("A")]), now=NOW)
    assert memory.saved is not None
    assert memory.saved.discoveries == 2
    assert memory.saved.historical_patterns[0]["times_seen"] == 2


def partial_then_whole() -> tuple[DiscoveryResult, DiscoveryResult]:
    """What two attempts of one run left."""
    part = discovery(2, insights=[insight("A"), insight("gone")], summary=Summary(text="part"))
    whole = discovery(1, insights=[insight("A"), insight("C")], summary=Summary(text="whole"))
    return part, whole.model_copy(update={"run_id": part.run_id})


def test_a_resumed_run_counts_once_though_a_partial_result_came_before() -> None:
    earlier = discovery(3, insights=[insight("A")], summary=Summary(text="earlier"))
    part, whole = partial_then_whole()
    context = updated_context(updated_context(None, earlier, now=NOW), part, now=NOW)
    context = updated_context(context, whole, now=NOW)
    assert (context.discoveries, context.run_ids) == (2, [earlier.run_id, whole.run_id])
    assert [(note.text, note.relevance) for note in context.notes] == [
        ("whole", 1.0),
        ("earlier", 0.8),
    ]
    assert [(p["name"], p["times_seen"]) for p in context.historical_patterns] == [
        ("A", 2),
        ("C", 1),
    ]


async def test_a_resumed_run_does_not_see_the_note_of_its_partial_result() -> None:
    part, _ = partial_then_whole()
    memory = Memory(part)
    await remember(memory, part, now=NOW)
    assert await recall(memory, "p", run_id=part.run_id) == ""
    assert "part" in await recall(memory, "p", run_id="another")
