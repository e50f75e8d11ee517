"""A finding before it becomes an insight, and the words all findings share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from adapters.llm.offline.reading import (
    Json,
    as_object,
    int_of,
    number_of,
    objects,
    text_of,
)
from adapters.llm.offline.roles import singular
from adapters.llm.offline.schema import DIALECTS, word_set
from adapters.llm.offline.sqlshape import Shape, read_shapes

_SPECIAL = re.compile(r"[*`\[\]<>\\|#~&!]|(?<!\w)_|_(?!\w)")
_LONGEST = 60
COMMON_WORDS = word_set(
    "a an in is it no or of all the yes on at to by and not na none row rows value"
)


class Topic(StrEnum):
    """What a step is about; areas pick findings by topic."""

    SERIES = "series"
    PATTERN = "pattern"
    RANKING = "ranking"
    EXTREME = "extreme"
    RATE = "rate"
    OUTLIERS = "outliers"
    RELATION = "relation"
    GAPS = "gaps"
    BROKEN = "broken"
    """Orphans, duplicates, blanks."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the analyst may know of one step."""

    step: int
    purpose: str
    shapes: tuple[Shape, ...]
    rows: list[Json]
    """In the order of the result; without the middle when ``gap``."""
    gap: bool
    row_count: int
    floor: bool
    """True when the warehouse cut the result."""

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    @property
    def whole(self) -> bool:
        """True when every group there is was seen: no limit reached, no gap, no cut."""
        limit = self.shape.limit
        return not self.gap and not self.floor and (limit is None or self.row_count < limit)

    @property
    def bottom_seen(self) -> bool:
        """True when the last rows are the last of the whole ranking."""
        limit = self.shape.limit
        return not self.floor and (limit is None or self.row_count < limit)

    @property
    def table(self) -> str:
        return self.shape.tables[0] if self.shape.tables else "the data"


def read_evidence(entry: Json) -> Evidence | None:
    """One digest, or None when it failed, is empty, or its SQL cannot be read."""
    result = as_object(entry.get("query_result"))
    sql = text_of(entry.get("query"))
    if entry.get("error") or not sql or not result:
        return None
    rows = objects(result.get("all_rows"))
    gap = False
    if not rows:
        head, tail = objects(result.get("head_rows")), objects(result.get("tail_rows"))
        rows = head + tail
        gap = int_of(result.get("row_count")) > len(rows)
    shapes: tuple[Shape, ...] = ()
    for dialect in DIALECTS:
        shapes = read_shapes(sql, dialect)
        if shapes:
            break
    if not rows or not shapes:
        return None
    kinds = {text_of(c.get("kind")) for c in objects(entry.get("quality_caveats"))}
    capped = bool(kinds & {"truncated", "sampled", "withheld", "restricted"})
    count = int_of(entry.get("row_count"), len(rows))
    limit = shapes[0].limit
    floor = capped and not (limit is not None and count == limit)
    purpose = text_of(entry.get("query_purpose"))
    return Evidence(int_of(entry.get("step")), purpose, shapes, rows, gap, count, floor)


@dataclass(frozen=True, slots=True)
class Finding:
    topic: Topic
    name: str
    takeaway: str
    """One sentence without the final stop."""
    sentences: tuple[str, ...]
    affected: int
    weight: float
    """0 to 1: how much it matters, from the figures alone."""
    rows: int
    """Rows that the statement rests on."""
    evidence: Evidence
    metrics: Json = field(default_factory=dict[str, Any])
    segment: str = ""


def shown(value: Any) -> str:
    """A number with all its digits and no exponent; a whole one without a point."""
    number = number_of(value)
    if number is None:
        return str(value)
    if isinstance(number, int):
        return str(number)
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: Any) -> str:
    """A rounded percentage as the step gave it, with one decimal at least."""
    number = number_of(value)
    if number is None:
        return ""
    text = shown(number)
    return f"{text}%" if "." in text else f"{text}.0%"


def whole_number(row: Json, name: str) -> int:
    """A count of a row, or 0 when the row has none."""
    return int(number_of(row.get(name)) or 0)


def counted(number: Any) -> str:
    """``1 row``, ``2 rows``."""
    return f"{shown(number)} row" if number_of(number) == 1 else f"{shown(number)} rows"


def ratio(part: Any, whole: Any) -> float:
    """part / whole, or 0 when there is no whole."""
    top, bottom = number_of(part), number_of(whole)
    return float(top) / float(bottom) if top is not None and bottom else 0.0


def speakable(value: Any) -> bool:
    """True when a cell can stand in a sentence and be found there again."""
    if number_of(value) is not None and not isinstance(value, str):
        return True
    if isinstance(value, bool):
        return True
    text = value if isinstance(value, str) else ""
    return bool(text.strip()) and len(text) <= _LONGEST and text.isprintable()


def bare(value: Any) -> str:
    """A name or a cell as plain text."""
    return str(value).lower() if isinstance(value, bool) else shown(value)


def word(value: Any) -> str:
    """A name or a cell in Markdown: as it is, or as code when it holds marks."""
    text = bare(value)
    if not _SPECIAL.search(text):
        return text
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def subject(shape: Shape, row: Json, *, plain: bool = False) -> str:
    """A row's group in words: ``carrier UA (United Air Lines Inc.), origin EWR``."""
    mark = bare if plain else word
    parts: list[str] = []
    for key in shape.keys:
        value = row.get(key.name)
        parts.append(mark(value) if key.name == "period" else f"{mark(key.name)} {mark(value)}")
    label = next((row[n] for n in shape.labels if speakable(row.get(n))), None)
    text = ", ".join(parts)
    return f"{text} ({mark(label)})" if label is not None else text


def column_name(name: str) -> str:
    """A column as the subject of a sentence; a name that reads like a word is introduced."""
    return f"column {name}" if len(name) < 3 or name.lower() in COMMON_WORDS else name


def usable(shape: Shape, row: Json) -> bool:
    """True when every key of the row can be spoken of."""
    return all(speakable(row.get(k.name)) for k in shape.keys)


def noun(evidence: Evidence) -> str:
    """What rows of the step's table are called."""
    name = evidence.table
    plain = name.isascii() and name.isalpha() and singular(name) != name.lower()
    return name.lower() if plain else f"rows of {name}"
