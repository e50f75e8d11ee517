"""The cited steps of a bundle, and which of their rows a sentence speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from adapters.llm.offline.findings.finding import COMMON_WORDS, shown
from adapters.llm.offline.reading import (
    Hearing,
    Json,
    as_list,
    as_object,
    int_of,
    number_of,
    objects,
    text_of,
)
from adapters.llm.offline.roles import MONTHS
from adapters.llm.offline.sqlshape import Measure, Output, Shape, read_shapes

_MOMENT = re.compile(
    r"^(?P<date>\d{4}-(?:0[1-9]|1[0-2])-\d{2})(?P<clock>[T ]\d{2}:\d{2}(?::\d{2})?)?[^ ]*$"
)


@dataclass(frozen=True, slots=True)
class Step:
    step_id: int
    sql: str
    shapes: tuple[Shape, ...]
    rows: tuple[Json, ...]
    total: int
    dialect: str

    @property
    def whole(self) -> bool:
        """True when every row of the result is here."""
        return len(self.rows) >= self.total

    def shape_of(self, row: int | None) -> Shape | None:
        """The branch that a row came from: the one whose constants it carries."""
        if not self.shapes:
            return None
        if row is None or len(self.shapes) == 1:
            return self.shapes[0]
        values = self.rows[row]
        for shape in self.shapes:
            if all(str(values.get(n)) == str(v) for n, v in shape.literals.items()):
                return shape
        return None

    def keys(self, row: int) -> list[tuple[str, Any]]:
        """What tells a row from the others: its group keys, or its branch's constants."""
        shape = self.shape_of(row)
        if shape is None:
            return [(n, v) for n, v in self.rows[row].items() if isinstance(v, str)]
        names = [k.name for k in shape.keys] or list(shape.literals)
        return [(n, self.rows[row].get(n)) for n in names]

    def output(self, row: int | None, name: str) -> Output | None:
        shape = self.shape_of(row)
        return shape.measure(name) if shape else None

    def figures(self, row: int) -> list[str]:
        """Names of the numeric outputs of a row that are not keys."""
        keys = {n for n, _ in self.keys(row)}
        return [
            n
            for n, v in self.rows[row].items()
            if n not in keys and number_of(v) is not None and not isinstance(v, bool)
        ]

    def kind(self, row: int, name: str) -> Measure:
        output = self.output(row, name)
        return output.measure if output else Measure.OTHER


def steps_of(heard: Hearing) -> list[Step]:
    """The bundle's steps, with rows that ``read_step_rows`` added."""
    warehouse = as_object(heard.bundle.get("warehouse"))
    dialect = text_of(warehouse.get("dialect")) or "duckdb"
    found: list[Step] = []
    for entry in objects(heard.bundle.get("source_steps")):
        rows = objects(entry.get("sample_rows"))
        number = int_of(entry.get("step_id"))
        for call in heard.calls:
            body = as_object(call.body)
            if call.kind == "read_step_rows" and int_of(body.get("step_id"), -1) == number:
                offset = int_of(call.result.get("offset"), int_of(body.get("offset")))
                if offset == len(rows):
                    rows += objects(call.result.get("rows"))
        sql = text_of(entry.get("sql"))
        total = int_of(entry.get("full_row_count"), len(rows))
        shapes = read_shapes(sql, dialect)
        found.append(Step(number, sql, shapes, tuple(rows), total, dialect))
    return found


@dataclass(frozen=True, slots=True)
class Mention:
    """A row that a sentence names, and where."""

    step: int
    """Position in the list of steps."""
    row: int
    start: int
    end: int


@lru_cache(maxsize=4096)
def name_pattern(text: str) -> re.Pattern[str]:
    """Finds a name as a whole word; short names must match their case."""
    flags = 0 if len(text) <= 3 else re.IGNORECASE
    head = r"(?<![\w])" if re.match(r"\w", text) else ""
    tail = r"(?![\w])" if re.search(r"\w$", text) else ""
    return re.compile(head + spaced(text) + tail, flags)


def spaced(text: str) -> str:
    """The pattern of a name however its spaces and line breaks were written."""
    return r"\s+".join(map(re.escape, text.split())) or re.escape(text)


def key_patterns(name: str, value: Any) -> list[re.Pattern[str]]:
    """How a key's value may be written: a text by itself, anything else after the key's name."""
    if value is None:
        return []
    return (_scalar_patterns if isinstance(value, str | int | float) else _patterns)(name, value)


def _patterns(name: str, value: Any) -> list[re.Pattern[str]]:
    dated = _moment_patterns(name, value)
    if dated:
        return dated
    text = shown(value) if not isinstance(value, bool) else str(value).lower()
    plain = isinstance(value, str) and text.strip() != ""
    label = _label(name)
    after = re.compile(
        rf"(?<!\w)(?:{label})\s+(?:=|is|of)?\s*[`'\"]?{re.escape(text)}(?!\w|\.\d)", re.I
    )
    if not plain or len(text) == 1 or text.lower() in COMMON_WORDS or text.isdigit():
        return [after]
    return [after, name_pattern(text)]


_scalar_patterns = lru_cache(maxsize=4096, typed=True)(_patterns)
"""The same few keys are looked for in every sentence of every document."""


def _moment_patterns(name: str, value: Any) -> list[re.Pattern[str]]:
    """Months by number and moments by date, as prose writes them."""
    names = list(MONTHS)
    month = number_of(value)
    if name.lower().endswith("month") and isinstance(month, int) and 1 <= month <= 12:
        spelled = rf"(?<!\w)(?:{names[month - 1]}|(?:{_label(name)})\s+(?:=\s*)?{month})(?!\w|\.\d)"
        return [re.compile(spelled, re.IGNORECASE)]
    match = _MOMENT.match(value) if isinstance(value, str) else None
    if match is None:
        return []
    date, clock = match.group("date"), match.group("clock") or ""
    written = [re.escape(value), re.escape(date)]
    if date.endswith("-01") and clock.strip("T :0") == "":
        spelled = names[int(date[5:7]) - 1]
        written += [rf"{date[:7]}(?!-\d)", rf"{spelled},?\s+{date[:4]}"]
    return [re.compile(rf"(?<![\w-])(?:{'|'.join(written)})(?!\w)", re.IGNORECASE)]


def _label(name: str) -> str:
    """How a key may be called in prose, as an alternative of a pattern."""
    names = [name, name.replace("_", " ")]
    if name in {"column_name", "measure"}:
        names.append("column")
    return "|".join(spaced(n) for n in dict.fromkeys(names))


def mentions_in(text: str, position: int, step: Step) -> list[Mention]:
    """Rows of one step that the text names, longest names first where they overlap."""
    spans: list[Mention] = []
    for row in range(len(step.rows)):
        spot = _row_spot(text, step, row)
        spans += [Mention(position, row, start, end) for start, end in spot]
    spans.sort(key=lambda m: (m.start - m.end, m.start))
    kept: list[Mention] = []
    for mention in spans:
        inside = any(
            k.start <= mention.start
            and mention.end <= k.end
            and (k.end - k.start) > (mention.end - mention.start)
            for k in kept
        )
        if not inside:
            kept.append(mention)
    return sorted(kept, key=lambda m: m.start)


def _row_spot(text: str, step: Step, row: int) -> list[tuple[int, int]]:
    """Where all keys of a row stand together; empty when one is not named."""
    keys = step.keys(row)
    shape = step.shape_of(row)
    labels = [step.rows[row].get(n) for n in shape.labels] if shape else []
    found: list[tuple[int, int]] | None = None
    for name, value in keys:
        if len(keys) > 1 and not _varies(step, name):
            continue
        spots = [m.span() for p in key_patterns(name, value) for m in p.finditer(text)]
        if not spots and len(keys) == 1:
            spots = [
                m.span()
                for label in labels
                if isinstance(label, str) and len(label) > 2
                for m in name_pattern(label).finditer(text)
            ]
        spots = list(dict.fromkeys(spots))
        if found is None:
            found = spots
        else:
            found = [
                (min(a[0], b[0]), max(a[1], b[1]))
                for a in found
                for b in spots
                if abs(a[0] - b[0]) <= 60
            ]
        if not found:
            return []
    return _distinct(found or [])


def _varies(step: Step, name: str) -> bool:
    return len({str(r.get(name)) for r in step.rows}) > 1


def _distinct(spots: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop spots that lie inside or overlap a longer one."""
    kept: list[tuple[int, int]] = []
    for spot in sorted(spots, key=lambda s: (s[0] - s[1], s[0])):
        if not any(spot[0] < k[1] and k[0] < spot[1] for k in kept):
            kept.append(spot)
    return kept


def known_names(steps: list[Step]) -> list[str]:
    """Cell texts, column and table names: words of the data inside prose."""
    names: set[str] = set()
    for step in steps:
        for row in step.rows:
            names.update(v for v in row.values() if isinstance(v, str) and 0 < len(v) <= 200)
        for shape in step.shapes:
            names.update(shape.tables)
            names.update(c for m in (*shape.measures, *shape.keys) for c in m.columns)
    return sorted(n for n in names if n.strip())


def quiet_patterns(steps: list[Step]) -> list[re.Pattern[str]]:
    """What must not be read as figures: names with digits, and keys such as ``hour 19``."""
    found: dict[str, re.Pattern[str]] = {}
    for step in steps:
        for row in range(len(step.rows)):
            for name, value in step.keys(row):
                for pattern in key_patterns(name, value):
                    found[pattern.pattern] = pattern
    for name in known_names(steps):
        if re.search(r"\d", name) and not name.strip().lstrip("-").replace(".", "").isdigit():
            found[name] = name_pattern(name)
    return list(found.values())


def unknown_key(masked: str, step: Step) -> bool:
    """True when a sentence names a group of the step that the whole result does not have."""
    if not step.whole or not step.rows:
        return False
    for name, _ in step.keys(0):
        label = _label(name)
        if re.search(rf"(?<!\w)(?i:{label})\s+(?:[A-Z][A-Z0-9]+|\d[\w-]*)(?!\w)", masked):
            return True
    return False


def read_payload_rows(result: Json) -> list[Json]:
    """Rows of a tool's answer; none when they were taken out of the history."""
    if result.get("rows_omitted_due_to_history_truncation"):
        return []
    return [as_object(r) for r in as_list(result.get("rows"))]
