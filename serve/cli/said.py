"""What commands print: JSON for programs, tables and sentences for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from serve.wording import StatusMeta

TONES = {"good": "green", "fair": "cyan", "caution": "yellow", "bad": "red", "neutral": "dim"}
_STEERING = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
SEVERITIES = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "dim"}


def document(payload: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document. Characters that steer a terminal, and halves of characters, are
    written as JSON escapes, which mean the same."""
    text = json.dumps(payload, ensure_ascii=False, indent=indent)
    print(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text), flush=True)


def complaint(sentence: str) -> None:
    """Say on stderr why a command ends, in one line without characters that steer a terminal."""
    flat = " ".join(plain(sentence).split())
    print(f"veridical: {flat}", file=sys.stderr, flush=True)


def console(*, stderr: bool = False) -> Console:
    """A console that never reads markup or emoji in what it is given."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)


def line(text: str = "") -> None:
    """A sentence for people, on stdout; characters that steer a terminal do not reach it."""
    console().print(plain(text), soft_wrap=True)


def plain(text: str) -> str:
    """Text from models and warehouses without control characters (which could steer a terminal)."""
    from serve.report.numbers import clean

    return clean(text)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table on stdout; columns whose name starts with ``#`` hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    drawn = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in columns:
        drawn.add_column(name.removeprefix("#"), justify="right" if name[0] == "#" else "left",
                         overflow="fold")  # fmt: skip
    for row in rows:
        drawn.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in row))
    out = console()
    out.width = width()
    out.print(drawn)


def width() -> int:
    """How many columns a table may take: those of the terminal, or else 120."""
    return console().width if sys.stdout.isatty() else 120


def status(meta: StatusMeta) -> Text:
    from rich.text import Text

    return Text(f"{meta.sign} {meta.label}", TONES[meta.tone.value])


def severity(level: str) -> Text:
    from rich.text import Text

    return Text(level, SEVERITIES.get(level, ""))


def when(moment: datetime | None) -> str:
    """A moment to the minute, in UTC."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def records(items: Iterable[Any]) -> list[Any]:
    """Records as JSON values, by their own field names."""
    return [item.model_dump(mode="json") for item in items]
