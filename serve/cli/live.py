"""The live display of a run: what is asked, what comes back, and what is found.

On a terminal, lines scroll above a status line; elsewhere there are plain lines; with ``--json``
stdout stays empty.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from pipeline.records import DiscoveryRun, RunStep, RunStepType
from serve.cli import said
from serve.report.numbers import duration, plural
from serve.wording import status_meta

if TYPE_CHECKING:
    from rich.console import RenderableType

PHASES = {
    "init": "Reading what earlier runs left",
    "schema_discovery": "Reading the catalog",
    "exploration": "Exploring",
    "analysis": "Analysing",
    "validation": "Checking claims",
    "recommendations": "Writing recommendations",
    "saving": "Saving",
    "embed_index": "Indexing for search",
    "complete": "Done",
}
SQL_CHARS = 240
INDENT = " " * 8


class Display(Protocol):
    """Where a run's progress goes."""

    def note(self, text: str) -> None:
        """Say what is being prepared."""
        ...

    def row(self, row: RunStep) -> None:
        """A new row of the live feed."""
        ...

    def state(self, run: DiscoveryRun) -> None:
        """Where the run stands now."""
        ...

    def close(self) -> None:
        """Nothing moves any more; what is printed next comes below."""
        ...


class Silent:
    """Shows nothing."""

    def note(self, text: str) -> None: ...
    def row(self, row: RunStep) -> None: ...
    def state(self, run: DiscoveryRun) -> None: ...
    def close(self) -> None: ...


class Lines:
    """One or more plain lines an event: for files, pipes and logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def note(self, text: str) -> None:
        self._say(f"{text[:1].upper()}{text[1:]} …")

    def state(self, run: DiscoveryRun) -> None: ...

    def row(self, row: RunStep) -> None:
        for words in words_of(row):
            self._say(words.plain)

    def close(self) -> None:
        self._out.flush()

    def _say(self, text: str) -> None:
        print(said.plain(text), file=self._out, flush=True)


class Screen:
    """A terminal: events scroll by above one line that says where the run stands."""

    def __init__(self, console: Console) -> None:
        self._console, self._started = console, time.monotonic()
        self._words, self._steps = "Starting", ""
        self._spinner = Spinner("dots", text="", style="cyan")
        self._live = Live(console=console, transient=True, refresh_per_second=8,
                          get_renderable=self._status)  # fmt: skip

    def _status(self) -> RenderableType:
        seconds = int(time.monotonic() - self._started)
        line = Text.assemble((self._words, "bold"), (self._steps, ""), (f"  {seconds} s", "dim"))
        line.no_wrap, line.overflow = True, "ellipsis"
        self._spinner.update(text=line)
        return self._spinner

    def open(self) -> None:
        self._live.start()

    def close(self) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        self._words, self._steps = f"{text[:1].upper()}{text[1:]}", ""

    def state(self, run: DiscoveryRun) -> None:
        self._words = said.plain(phase_words(run))
        self._steps = f"  {run.progress} %"

    def row(self, row: RunStep) -> None:
        for words in words_of(row):
            self._console.print(hung(words, self._console))


def hung(words: Text, console: Console) -> Text:
    """The line, wrapped where it must be, with what follows below its text and not its number."""
    edge = len(INDENT)
    if words.cell_len <= console.width or console.width <= 2 * edge:
        return words
    first, body = words[:edge], words[edge:]
    parts = body.wrap(console, console.width - edge)
    for part in parts:
        part.rstrip()
    return Text("\n").join(Text.assemble(INDENT if i else first, part)
                           for i, part in enumerate(parts))  # fmt: skip


@contextmanager
def display(*, as_json: bool) -> Generator[Display]:
    """The display that fits: a terminal, plain lines, or nothing on stdout with ``--json``."""
    if as_json:
        if not sys.stderr.isatty():
            yield Silent()
            return
        console = said.console(stderr=True)
    else:
        console = said.console()
    if not console.is_terminal:
        yield Lines(sys.stdout)
        return
    screen = Screen(console)
    screen.open()
    try:
        yield screen
    finally:
        screen.close()


def phase_words(run: DiscoveryRun) -> str:
    """The phase in words, with the step it is at."""
    words, detail = PHASES.get(run.phase.value, run.phase.value), run.phase_detail
    if detail.startswith("step "):
        return f"{words}: {detail}"
    return detail or words


# ---------------------------------------------------------------- one row of the feed


def words_of(row: RunStep) -> list[Text]:
    """The lines that a row of the feed is worth."""
    match row.type:
        case RunStepType.QUERY:
            return _query(row)
        case RunStepType.INSIGHT | RunStepType.VALIDATION | RunStepType.RECOMMENDATION:
            return [_finding(row) if row.insight_name else _event(row)]
        case RunStepType.PHASE if not row.step_num:
            return _heading(row)
        case RunStepType.ANALYSIS if row.step_num:  # an area begins
            return _heading(row)
        case _:
            return [_event(row)]


def _heading(row: RunStep) -> list[Text]:
    return [Text(""), Text(said.plain(row.message), "bold underline")]


def _query(row: RunStep) -> list[Text]:
    told = "" if row.error and row.error.startswith(row.message.rstrip("…")) else row.message
    question = " ".join((told or row.llm_thinking or "Query").split())
    lines = [Text.assemble((_number(row), "bold cyan"), said.plain(question))]
    if row.query or row.llm_query:
        lines.append(Text(_indent(row.query or row.llm_query), "dim"))
    if row.error:
        lines.append(Text(_indent(f"failed: {row.error}"), "red"))
    else:
        healed = ", after repair" if row.query_fixed else ""
        result = f"{plural(row.row_count, 'row')} in {duration(row.query_time_ms)}{healed}"
        lines.append(Text(_indent(result), "green"))
    return lines


def _finding(row: RunStep) -> Text:
    name = said.plain(row.insight_name)
    if row.combined:
        meta = status_meta(row.combined)
        verdict = f"{meta.sign} {meta.label}"
        return Text.assemble(f"{INDENT}  ", (verdict, said.TONES[meta.tone.value]), f"  {name}")
    level = row.insight_severity
    return Text.assemble(
        f"{INDENT}◆ ",
        (f"{level}  " if level else "", said.SEVERITIES.get(level, "")),
        (name, "bold"),
    )


def _event(row: RunStep) -> Text:
    text = " ".join((row.message or row.error or row.type.value.replace("_", " ")).split())
    wrong = row.type is RunStepType.ERROR or row.error
    if row.error and row.error != row.message:
        text = f"{text}: {row.error}"
    return Text.assemble((_number(row), "bold"), (said.plain(text), "red" if wrong else "dim"))


def _number(row: RunStep) -> str:
    if not row.step_num:
        return INDENT
    of = f"/{row.step_total}" if row.step_total else ""
    return f"{row.step_num}{of}".rjust(6) + "  "


def _indent(text: str) -> str:
    flat = " ".join(said.plain(text).split())
    short = flat if len(flat) <= SQL_CHARS else flat[: SQL_CHARS - 1] + "…"
    return f"{INDENT}{short}"
