"""What a row of the feed looks like, and that it cannot steer a terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from pipeline.records import DiscoveryRun, RunPhase, RunStep, RunStepType
from serve.cli.live import Lines, Screen, hung, phase_words, words_of

AT = datetime(2026, 11, 30, tzinfo=UTC)
QUERY: dict[str, Any] = {
    "type": RunStepType.QUERY,
    "message": "Which carriers\nare late?",
    "query": "SELECT carrier\n  FROM flights",
    "step_num": 3,
    "step_total": 40,
    "row_count": 16,
    "query_time_ms": 8,
}


def row(**fields: Any) -> RunStep:
    return RunStep(timestamp=AT, **fields)


CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "a query",
        QUERY,
        [
            "  3/40  Which carriers are late?",
            "        SELECT carrier FROM flights",
            "        16 rows in 8 ms",
        ],
    ),
    (
        "a healed query",
        {**QUERY, "query_fixed": True, "row_count": 1, "query": ""},
        ["  3/40  Which carriers are late?", "        1 row in 8 ms, after repair"],
    ),
    (
        "a query that failed",
        {**QUERY, "message": "no such col…", "error": "no such column x", "llm_thinking": "Why?"},
        [
            "  3/40  Why?",
            "        SELECT carrier FROM flights",
            "        failed: no such column x",
        ],
    ),
    (
        "a lookup",
        {"type": RunStepType.LOOKUP_SCHEMA, "message": "Looked up flights", "step_num": 1},
        ["     1  Looked up flights"],
    ),
    (
        "an insight",
        {"type": RunStepType.INSIGHT, "insight_name": "F9 is late", "insight_severity": "high"},
        ["        ◆ high  F9 is late"],
    ),
    (
        "its verdict",
        {"type": RunStepType.VALIDATION, "insight_name": "F9 is late", "combined": "rejected"},
        ["          ✕ Rejected  F9 is late"],
    ),
    (
        "a recommendation",
        {"type": RunStepType.RECOMMENDATION, "insight_name": "Call F9"},
        ["        ◆ Call F9"],
    ),
    (
        "all recommendations",
        {"type": RunStepType.RECOMMENDATION, "message": "2 recommendations"},
        ["        2 recommendations"],
    ),
    ("a phase", {"type": RunStepType.PHASE, "message": "Exploring"}, ["", "Exploring"]),
    (
        "an area begins",
        {"type": RunStepType.ANALYSIS, "message": "Analysing Trends (1 of 4)", "step_num": 1},
        ["", "Analysing Trends (1 of 4)"],
    ),
    (
        "an area was analysed",
        {"type": RunStepType.ANALYSIS, "message": "Trends: 2 insights"},
        ["        Trends: 2 insights"],
    ),
    (
        "an error",
        {"type": RunStepType.ERROR, "message": "Stopped", "error": "no model"},
        ["        Stopped: no model"],
    ),
]


@pytest.mark.parametrize(("why", "fields", "lines"), CASES, ids=[why for why, _, _ in CASES])
def test_rows_in_words(why: str, fields: dict[str, Any], lines: list[str]) -> None:
    assert [words.plain for words in words_of(row(**fields))] == lines


@pytest.mark.parametrize("kind", list(RunStepType))
def test_no_row_can_steer_a_terminal_or_fail(kind: RunStepType) -> None:
    bad = "\x1b]0;owned\x07[bold]x[/nope]\u202e:smile:"
    fields = dict.fromkeys(("message", "query", "error", "insight_name", "llm_thinking"), bad)
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, markup=False, emoji=False, width=200)
    screen = Screen(console)
    for shown in (row(type=kind, **fields), row(type=kind)):
        screen.row(shown)
        Lines(out).row(shown)
    assert not {"\x1b", "\x07", "\u202e"} & set(out.getvalue())


def test_a_long_query_is_cut() -> None:
    (_, sql, _) = words_of(row(**{**QUERY, "query": "SELECT " + "x, " * 1000}))
    assert len(sql.plain) < 420
    assert sql.plain.endswith("…")


@pytest.mark.parametrize(
    ("phase", "detail", "words"),
    [
        (RunPhase.EXPLORATION, "step 3 of 40", "Exploring: step 3 of 40"),
        (RunPhase.EXPLORATION, "", "Exploring"),
        (RunPhase.ANALYSIS, "Trends", "Trends"),
    ],
)
def test_where_a_run_stands(phase: RunPhase, detail: str, words: str) -> None:
    run = DiscoveryRun(id="r", project_id="p", started_at=AT, phase=phase, phase_detail=detail)
    assert phase_words(run) == words


def test_a_terminal_shows_where_the_run_stands_and_is_left_as_it_was() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    run = DiscoveryRun(
        id="r",
        project_id="p",
        started_at=AT,
        phase=RunPhase.EXPLORATION,
        phase_detail="step 3 of 40",
        progress=12,
    )
    screen = Screen(console)
    screen.open()
    screen.note("starting a local Ray")
    screen.state(run)
    screen.row(row(**QUERY))
    screen.close()
    screen.close()
    console.print("below")
    text = out.getvalue()
    assert "Exploring: step 3 of 40  12 %" in text
    assert "Which carriers are late?" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is back"
    assert text.rstrip().endswith("below")


def test_a_long_line_goes_on_below_its_text() -> None:
    console = Console(file=io.StringIO(), width=32)
    question, sql, _ = words_of(row(**{**QUERY, "message": "Which of the carriers are late?"}))
    assert hung(question, console).plain.splitlines() == [
        "  3/40  Which of the carriers",
        "        are late?",
    ]
    assert hung(sql, console).plain.splitlines() == [
        "        SELECT carrier FROM",
        "        flights",
    ]
    assert hung(sql, Console(file=io.StringIO(), width=80)) is sql
