"""How well an output of a step suits a figure, by the words around it."""

from __future__ import annotations

import re

from adapters.llm.offline.judging.claims import Figure
from adapters.llm.offline.judging.steps import Step, spaced
from adapters.llm.offline.schema import name_words, word_set
from adapters.llm.offline.sqlshape import Measure

_PLAIN_WORDS = word_set("row rows count number total avg value values pct rate of with n")
_WORDS: dict[Measure, re.Pattern[str]] = {
    Measure.AVERAGE: re.compile(r"\b(average|mean|avg)\b"),
    Measure.SUM: re.compile(r"\b(total|sum|altogether|combined)\b"),
    Measure.MINIMUM: re.compile(r"\b(minimum|lowest|smallest|earliest)\b"),
    Measure.MAXIMUM: re.compile(r"\b(maximum|highest|largest|longest|latest|reaches|fence)\b"),
    Measure.PERCENTILE: re.compile(r"\b(median|percentile|quartile)\b"),
    Measure.DISTINCT: re.compile(r"\b(distinct|different|unique)\b"),
}
_COUNTED = re.compile(r"^\s*(?:\w+\s+){0,1}(rows?|records?|entries|times)\b")
_DISTINCT_AFTER = re.compile(r"^\s*(distinct|different|unique)\b")
_OF = re.compile(r"\b(of|among|out of|over|across)\s*$")
_NONE_IN = re.compile(r"\b(?:no|none|never|neither)\b[^\d,;]*\bin\s*$")
"""``no missing values in 500 rows``: the whole, unless the rows are those that lack the value."""
_CLAUSE_END = re.compile(r"\band\b|\bwhile\b|[,;(]|\.\s")
_COUNTS = frozenset({Measure.ROWS, Measure.WHOLE, Measure.DISTINCT, Measure.SUM, Measure.OTHER})
_SPOKEN = {"at": "exactly|equal|equals|at"}
"""How a word of an output's name may be said."""


def fit(
    figure: Figure,
    text: str,
    step: Step,
    row: int,
    name: str,
    *,
    whole: bool = False,
    since: int = 0,
) -> float:
    """A score; below the barrier of -3 the output cannot be what the figure states. ``whole``
    takes all words of the sentence rather than those beside the figure; ``since`` is where the
    figure before it ended."""
    lowered = text.lower()
    before = lowered if whole else lowered[max(0, figure.start - 60) : figure.start]
    own = lowered if whole else lowered[max(since, figure.start - 60) : figure.start]
    after = lowered[figure.end : figure.end + 30]
    kind = step.kind(row, name)
    output = step.output(row, name)
    score = 0.0
    if not whole:
        score += _unit(figure, kind, name)
        score += _position(before, after, kind, step, row, name)
    score += _kind_words(before, own, after, kind, name, whole=whole)
    if whole:
        score += _whole_words(lowered, kind)
    clause = lowered[figure.end :]
    stop = _CLAUSE_END.search(clause)
    near = lowered if whole else own + " " + clause[: min(40, stop.start() if stop else 40)]
    wide = lowered if whole else lowered[max(0, figure.start - 40) : figure.end + 40]
    for column in output.columns if output else ():
        if _has_word(wide, spaced(column.lower())):
            score += 1
    for part in name_words(name):
        spoken = _SPOKEN.get(part, re.escape(part))
        if part not in _PLAIN_WORDS:
            score += 1.5 if _has_word(near, spoken) else 0.2 if _has_word(wide, spoken) else 0.0
    return score


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![a-z])(?:{word})(?![a-z])", text) is not None


def _kind_words(
    before: str, own: str, after: str, kind: Measure, name: str, *, whole: bool
) -> float:
    """``the average``, ``the median``: words that say what the figure amounts to. The words since
    the last figure count before those of the sentence."""
    pattern = _WORDS.get(kind)
    spoken = own if any(p.search(own) for p in _WORDS.values()) else before
    if whole:
        return 0.0 if pattern is None else 3.0 if pattern.search(before) else -0.5
    direct = pattern is not None and pattern.search(own) is not None
    if not direct and kind not in _COUNTS and _COUNTED.match(after):
        return -8.0
    if kind is Measure.DISTINCT and _DISTINCT_AFTER.match(after):
        return 5.0
    if pattern is None:
        return 0.0
    score = 5.0 if direct else 3.0 if pattern.search(spoken) else -0.5
    return score + (_percentile(spoken, name) if kind is Measure.PERCENTILE else 0.0)


def _unit(figure: Figure, kind: Measure, name: str) -> float:
    share = kind is Measure.SHARE or re.search(r"pct|percent|share|rate", name.lower()) is not None
    if figure.percent:
        return 5.0 if share else -8.0
    return -5.0 if share and kind is Measure.SHARE and "ratio" not in name.lower() else 0.0


def _position(before: str, after: str, kind: Measure, step: Step, row: int, name: str) -> float:
    """``58665 of 336776 rows``: a part comes first, its whole after ``of``."""
    score = 0.0
    counts = [n for n in step.figures(row) if step.kind(row, n) in {Measure.ROWS, Measure.WHOLE}]
    base = base_of(step, row, counts)
    counted = bool(_COUNTED.match(after)) or any(
        re.match(rf"^\s*{spaced(t.lower())}\b", after) for s in step.shapes[:1] for t in s.tables
    )
    if _OF.search(before):
        if base:
            return 4.0 if name == base else -3.0
        return 3.0 + 2.0 * counted if kind is Measure.ROWS else -0.5
    if _NONE_IN.search(before):
        score += 4.0 if name == base else 0.0
    if re.match(r"^\s*(?:of|out of|among)\b", after):
        score += 2.0 if name in counts and name != base else 0.0
    if counted and kind in {Measure.ROWS, Measure.WHOLE}:
        score += 2.0 if name != base or len(counts) == 1 else 0.5
    return score


def base_of(step: Step, row: int, counts: list[str]) -> str:
    """The count that the others are parts of: the whole, or else the first of several."""
    for name in counts:
        if step.kind(row, name) is Measure.WHOLE:
            return name
    return counts[0] if len(counts) > 1 else ""


def _percentile(spoken: str, name: str) -> float:
    """Which percentile: the one that is named."""
    lowered = name.lower()
    if "median" in spoken:
        return 2.0 if "median" in lowered or "50" in lowered else -4.0
    named = re.search(r"\b(\d{1,2})(?:st|nd|rd|th)\b", spoken)
    if named:
        return 2.0 if named.group(1) in lowered else -4.0
    return 0.0


def _whole_words(text: str, kind: Measure) -> float:
    """For a ranking without a figure: what is being compared."""
    if kind is Measure.ROWS and re.search(r"\b(rows?|records?|most|number of|more|fewest)\b", text):
        return 1.5
    if kind is Measure.SHARE and re.search(r"\b(share|rate|percentage|proportion|often)\b", text):
        return 3.0
    return 0.0
