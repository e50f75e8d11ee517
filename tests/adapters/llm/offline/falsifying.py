"""Ways to make a true insight false: one figure, one name, one word at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pipeline.records import Insight
from pipeline.validation.bundle import Bundle

NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:\.\d+)?(?![\w-]|[.,]\d)")
_PLACES = ("name", "description")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WORDS = (
    ("has the most", "has the fewest"),
    ("is highest for", "is lowest for"),
    ("has the highest", "has the lowest"),
    ("has more", "has fewer"),
    ("has a higher", "has a lower"),
    ("is lowest with", "is highest with"),
    ("The lowest is", "The highest is"),
    ("has the fewest", "has the most"),
    ("is second", "is third"),
    ("peaked in", "was lowest in"),
    (" rose ", " fell "),
    (" fell ", " rose "),
)

Falsified = tuple[str, Insight]


def _like(text: str, value: float) -> str:
    """A number with the decimals of the one that it replaces."""
    return f"{value:.{len(text.partition('.')[2])}f}"


def _digit_swap(text: str) -> str:
    for i in range(len(text) - 1):
        pair = text[i : i + 2]
        if pair.isdigit() and pair[0] != pair[1] and not (i == 0 and pair[1] == "0"):
            return text[:i] + pair[::-1] + text[i + 2 :]
    return text


def _cells(text: str, bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Numbers of the cited rows, written as the figure is."""
    for step in bundle.source_steps:
        rows: list[dict[str, Any]] = step.sample_rows
        numbers = [
            {n: v for n, v in r.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            for r in rows
        ]
        own = next(
            (i for i, r in enumerate(numbers) if any(_like(text, v) == text for v in r.values())), 0
        )
        for name, value in (numbers[own] if numbers else {}).items():
            yield f"{name} of the row", _like(text, value)
        for near in (own - 1, own + 1):
            if 0 <= near < len(numbers):
                for name, value in numbers[near].items():
                    yield f"{name} of row {near}", _like(text, value)
        for name in numbers[0] if numbers else {}:
            if all(isinstance(r.get(name), int | float) for r in numbers):
                yield f"total of {name}", _like(text, sum(r[name] for r in numbers))


def replacements(text: str, others: list[str], bundle: Bundle) -> dict[str, str]:
    """Other figures to stand in place of ``text``, by how they came about."""
    value = float(text)
    unit = 10.0 ** -len(text.partition(".")[2])
    found = {
        "doubled": _like(text, value * 2),
        "3 % more": _like(text, value * 1.03),
        "one more": _like(text, value + unit),
        "digits swapped": _digit_swap(text),
        "sign flipped": f"-{text}",
    }
    found |= {f"sentence's {o}": o for o in others}
    found |= dict(_cells(text, bundle))
    kept: dict[str, str] = {}
    for how, new in found.items():
        if float(new) != value and new not in kept.values():
            kept[how] = new
    return kept


def false_figures(insight: Insight, bundle: Bundle) -> Iterator[Falsified]:
    """Every figure of headline, description and affected count replaced, one at a time."""
    for place in _PLACES:
        text = str(getattr(insight, place))
        for match in NUMBER.finditer(text):
            stop = text.find(". ", match.end())
            start = max(text.rfind(". ", 0, match.start()), text.rfind("\n", 0, match.start()), 0)
            sentence = text[start : stop if stop > 0 else len(text)]
            others = [o for o in NUMBER.findall(sentence) if o != match.group()]
            for how, new in replacements(match.group(), others, bundle).items():
                changed = text[: match.start()] + new + text[match.end() :]
                yield (
                    f"{place}: {match.group()} as {new} ({how})",
                    insight.model_copy(update={place: changed}),
                )
    if insight.affected_count:
        text = str(insight.affected_count)
        others = [o for o in NUMBER.findall(insight.name) if o != text and o.isdigit()]
        for how, new in replacements(text, others, bundle).items():
            if new.isdigit() and int(new):
                yield (
                    f"affected_count: {text} as {new} ({how})",
                    insight.model_copy(update={"affected_count": int(new)}),
                )


def false_names(insight: Insight, bundle: Bundle) -> Iterator[Falsified]:
    """A key's value or a month replaced by another of the same result."""
    for step in bundle.source_steps:
        rows: list[dict[str, Any]] = step.sample_rows
        for name in rows[0] if rows else ():
            values = list(dict.fromkeys(r[name] for r in rows if isinstance(r[name], str)))
            for place in _PLACES:
                text = str(getattr(insight, place))
                for match in re.finditer(rf"(?<!\w){re.escape(name)} ([A-Z0-9]\w*)(?!\w)", text):
                    for other in values[:4]:
                        if match.group(1) in values and other != match.group(1):
                            changed = text[: match.start(1)] + other + text[match.end(1) :]
                            yield (
                                f"{place}: {match.group()} as {other}",
                                insight.model_copy(update={place: changed}),
                            )
    for place in _PLACES:
        text = str(getattr(insight, place))
        for match in re.finditer(
            rf"(?<!\w)(\d{{4}}-)(\d{{2}})(?![\w-])|\b({'|'.join(_MONTHS)})\b", text
        ):
            if match.group(2):
                new = f"{match.group(1)}{int(match.group(2)) % 12 + 1:02d}"
            else:
                new = _MONTHS[(_MONTHS.index(match.group()) + 1) % 12]
            changed = text[: match.start()] + new + text[match.end() :]
            yield f"{place}: {match.group()} as {new}", insight.model_copy(update={place: changed})


def false_words(insight: Insight) -> Iterator[Falsified]:
    """A comparison turned round."""
    for place in _PLACES:
        text = str(getattr(insight, place))
        for word, other in _WORDS:
            if word in text:
                changed = text.replace(word, other, 1)
                yield f"{place}: {word} as {other}", insight.model_copy(update={place: changed})
