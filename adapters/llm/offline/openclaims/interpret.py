"""From a claim in English to the ways it can be asked of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from adapters.llm.offline.openclaims.forms import checks_of
from adapters.llm.offline.openclaims.lexicon import Reading, Value, read_claim_for
from adapters.llm.offline.openclaims.meaning import Condition, Meaning, Measured, Metric
from adapters.llm.offline.openclaims.places import calendar_part, places
from adapters.llm.offline.openclaims.subject import Subject
from adapters.llm.offline.openclaims.vocabulary import (
    BEYOND_DATA,
    COMPARATIVE,
    EQUAL,
    MISSING_AT_ALL,
    NEGATION,
)
from adapters.llm.offline.schema import TableInfo

MOST_MEANINGS = 6
_TABLES, _ASSIGNMENTS = 3, 12


def meanings(text: str, tables: Sequence[TableInfo]) -> list[Meaning]:
    """Ways to read the claim, the likeliest first; none when rows cannot settle it."""
    if BEYOND_DATA.search(text) or NEGATION.search(MISSING_AT_ALL.sub("", text)):
        return []
    readings = [read_claim_for(text, t, tables) for t in tables if t.columns]
    readings = [r for r in readings if r.score > 0 and not r.unknown]
    readings.sort(key=lambda r: (-r.score, -len(r.table.columns), r.table.name))
    found: list[Meaning] = []
    for reading in readings[:_TABLES]:
        found += islice(_read(reading, tables), MOST_MEANINGS)
    return list(dict.fromkeys(found))[:MOST_MEANINGS]


def _read(reading: Reading, tables: Sequence[TableInfo]) -> Iterator[Meaning]:
    """Meanings for every assignment of the claim's values to columns of one table."""
    subject = Subject(reading)
    for conditions in _assignments(reading, tables):
        checks = checks_of(subject, conditions, tables)
        if checks:
            rows = Metric("count")
            present = [Measured(reading.table, rows, (c,)) for c in conditions.values()]
            yield Meaning(checks, tuple(present))


def _assignments(reading: Reading, tables: Sequence[TableInfo]) -> Iterator[dict[Value, Condition]]:
    """Each value with a column it may stand in; values of one comparison share theirs."""
    texts = [v for v in reading.values if v.kind in {"text", "word"}]
    fixed: dict[Value, Condition] = {}
    for value in reading.values:
        if value not in texts:
            part = calendar_part(reading.table, value.kind)
            if part is None:
                return
            fixed[value] = Condition(f"{part} = {value.number}", value.kind)
    if not texts:
        yield fixed
        return
    options = places(reading, tables, exact=any(v.kind == "word" for v in texts))
    together = COMPARATIVE.search(reading.text) or EQUAL.search(reading.text)
    if together or len(texts) == 1:
        for place in options:
            yield fixed | {v: place.condition(v) for v in texts}
        return
    for chosen in islice(product(options, repeat=len(texts)), _ASSIGNMENTS):
        yield fixed | {v: p.condition(v) for v, p in zip(texts, chosen, strict=True)}
