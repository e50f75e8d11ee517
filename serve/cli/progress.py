"""Progress of a command that works through a list, on stderr: stdout is for what it found."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from serve.cli import said

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100


class Progress(Protocol):
    def note(self, text: str) -> None:
        """Say something that stays."""
        ...

    def done(self, text: str, count: int, total: int) -> None:
        """``count`` of ``total`` are done; ``text`` is what came of this one."""
        ...


class _Lines:
    """A line each: for files, pipes and logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, text: str) -> None:
        self._console.print(said.plain(text), soft_wrap=True)

    def done(self, text: str, count: int, total: int) -> None:
        self._console.print(f"{count}/{total}  {_short(text)}", soft_wrap=True)


class _Bar:
    """A terminal: results scroll by above a bar."""

    def __init__(self, console: Console, title: str) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (TextColumn("{task.description}", markup=False), BarColumn(),
                   MofNCompleteColumn(), TimeElapsedColumn())  # fmt: skip
        self.bar = Progress(*columns, console=console, transient=True)
        self._task = self.bar.add_task(title, total=None)

    def note(self, text: str) -> None:
        self.bar.console.print(said.plain(text))

    def done(self, text: str, count: int, total: int) -> None:
        self.bar.update(self._task, completed=count, total=total)
        self.bar.console.print(_short(text))


def _short(text: str) -> str:
    flat = " ".join(said.plain(text).split())
    return flat if len(flat) <= WIDTH else flat[: WIDTH - 1] + "…"


@contextmanager
def progress(title: str) -> Generator[Progress]:
    """A bar where somebody watches stderr, else a line for each."""
    console = said.console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    shown = _Bar(console, title)
    with shown.bar:
        yield shown
