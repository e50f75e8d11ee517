"""Numbers and cells as a reader wants them: separators, sensible decimals, nothing lost."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

_PLAIN_NAME = re.compile(r"(^|_)(id|year|zip|zipcode|code|postcode|phone|tailnum|version)$", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
CELL_CHARS = 300
_SPOKEN = {"avg": "average", "pct": "%", "percent": "%"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as shown, and exactly as it was returned."""

    text: str
    exact: str
    numeric: bool = False


def clean(text: str) -> str:
    """The text without characters that are invisible or that turn the direction of reading."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", plain)


def number(value: int | float, *, grouped: bool = True) -> str:
    """``336776`` as ``336,776``; ``12.6390704`` as ``12.64``; ``0.00415`` as ``0.00415``."""
    if isinstance(value, int) or (value.is_integer() and value):
        whole = int(value)
        return f"{whole:,}" if grouped else str(whole)
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        text = f"{value:.1f}"
    elif size >= 1:
        text = f"{value:.2f}"
    elif size == 0:
        return "0"
    elif size < 1e-4:
        return f"{value:.3g}"
    else:
        text = f"{value:.{2 - math.floor(math.log10(size))}f}"
    return text.rstrip("0").rstrip(".")


def short(value: float, like: float | None = None) -> str:
    """For an axis or a bar: ``336776`` as ``336.8K``; in the unit of ``like`` if that is given."""
    size = abs(value if like is None else like)
    for limit, scale, letter in ((1e9, 1e9, "B"), (1e6, 1e6, "M"), (1e4, 1e3, "K")):
        if size >= limit and value:
            return f"{value / scale:.1f}".removesuffix(".0") + letter
    return number(value)


def cell(value: Any, column: str = "") -> Cell:
    """How to show one normalised value of a result."""
    if value is None:
        return Cell("–", "null")
    if isinstance(value, bool):
        return Cell("yes" if value else "no", json.dumps(value))
    if isinstance(value, int | float):
        grouped = not _PLAIN_NAME.search(column)
        return Cell(number(value, grouped=grouped), repr(value), numeric=True)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = clean(text)
    shown = text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"
    return Cell(shown, text)


def exact(value: Any, column: str = "") -> str:
    """One normalised value as it was returned, with its thousands kept apart: ``54173`` as
    ``54,173``, ``1234.56789`` as ``1,234.56789``."""
    number_ = isinstance(value, int | float) and not isinstance(value, bool)
    if number_ and math.isfinite(value) and not _PLAIN_NAME.search(column):
        return f"{value:,}"
    return cell(value, column).exact


def spoken(column: str) -> str:
    """A column or key as words: ``avg_dep_delay`` as ``average dep delay``."""
    words = re.split(r"[_\s]+", column.strip("_ \t\n"))
    return clean(" ".join(_SPOKEN.get(word.lower(), word) for word in words)).strip() or "value"


def duration(milliseconds: int) -> str:
    """``8 ms``, ``1.4 s``, ``2 min 5 s``."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 query``, ``2 queries``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
