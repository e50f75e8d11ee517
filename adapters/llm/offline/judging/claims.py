"""Text to claims, and claims to the figures and words that can be checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from adapters.llm.offline.reading import Json, int_of, text_of

_FIGURE = re.compile(
    r"(?<![\w.,/-])(?P<sign>[-−+]?)(?P<money>[$€£]?)"
    r"(?P<body>\d[\d,]*(?:\.\d+)?)(?P<scale>\s?(?:million|billion|thousand)\b|[KMB]\b)?"
    r"(?P<percent>\s?%|\s?percent\b|\s?per cent\b)?(?![\w-])"
)
PERIOD = re.compile(
    r"(?<![\w-])\d{4}-(?:Q[1-4]|\d{2}(?:-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?)?)(?![\w])"
)
_SCALES = {
    "k": 1_000,
    "thousand": 1_000,
    "m": 10**6,
    "million": 10**6,
    "b": 10**9,
    "billion": 10**9,
}
_HEDGES = re.compile(
    r"(about|around|roughly|approximately|approx\.?|nearly|almost|some|circa|close to|~|≈)\s*$",
    re.IGNORECASE,
)
_COMPARATORS = (
    (
        re.compile(
            r"(more than|over|above|exceed(?:s|ed|ing)?|greater than|higher than)\s*$", re.I
        ),
        ">",
    ),
    (re.compile(r"(at least|no less than|no fewer than)\s*$", re.I), ">="),
    (re.compile(r"(less than|fewer than|under|below|lower than)\s*$", re.I), "<"),
    (re.compile(r"(at most|no more than|up to)\s*$", re.I), "<="),
)
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:Inc|Ltd|Co|Corp|St|Mr|Mrs|Dr|No|vs|approx|e\.g|i\.e)\.$")
_MAX = re.compile(
    r"\b(largest|highest|most|biggest|greatest|longest|peak(?:s|ed)?|top|leads?|leading|busiest|"
    r"maximum|best|oldest|latest|heaviest|fastest|dominates?)\b",
    re.IGNORECASE,
)
_MIN = re.compile(
    r"\b(smallest|lowest|fewest|least|shortest|minimum|bottom|rarest|worst|lightest|slowest|"
    r"trough)\b",
    re.IGNORECASE,
)
_NOT_SUPERLATIVE = re.compile(
    r"\b(at (?:most|least)|most recent|more or less|top \d+|"
    r"(?:largest|highest|maximum|minimum|lowest|smallest) (?:number of copies|value)|most of|"
    r"(?:the )?(?:maximum|minimum) (?=[\w`]))\b",
    re.IGNORECASE,
)
_NO_OTHER = re.compile(
    r"\bno other\b[^.]*?\b(higher|larger|more|greater|lower|smaller|fewer|less)\b|"
    r"\b(more|higher|larger|fewer|lower|less|smaller)\b[^.]*?\bthan any other\b",
    re.IGNORECASE,
)
_ORDINALS = {"second": 1, "third": 2, "fourth": 3, "fifth": 4}
_ORDINAL = re.compile(r"\b(second|third|fourth|fifth)\b(?!s)", re.IGNORECASE)
_RISES = re.compile(r"\b(rose|rises?|increased?s?|grew|grows?|climbed|gained)\b", re.IGNORECASE)
_FALLS = re.compile(
    r"\b(fell|falls?|decreased?s?|declined?s?|dropped|drops?|shrank|shrinks?)\b", re.IGNORECASE
)
COVERS = re.compile(r"^the comparison covers\b", re.IGNORECASE)
_METHOD = re.compile(r"^(only the first|the comparison|left out|a correlation|a report)", re.I)


_FLOAT_NOISE = Decimal("1e-13")
"""What the order of a floating sum may change."""


class ClaimKind(StrEnum):
    HEADLINE = "headline"
    STATEMENT = "statement"
    AFFECTED = "affected_count"


@dataclass(frozen=True, slots=True)
class Figure:
    value: Decimal
    start: int
    end: int
    decimals: int
    percent: bool
    hedged: bool
    comparator: str
    """One of ``>``, ``>=``, ``<``, ``<=`` or ''."""
    scaled: bool = False

    def agrees(self, actual: float | int | None) -> str:
        """``exact``, ``rounded`` or '' for a value that does not fit what is written."""
        if actual is None:
            return ""
        number = Decimal(repr(actual))
        if self.comparator:
            return "exact" if _holds(number, self.comparator, self.value) else ""
        if number == self.value:
            return "exact"
        gap = abs(number - self.value)
        if gap <= abs(number) * _FLOAT_NOISE:
            return "rounded"
        if self.hedged:
            return "rounded" if gap <= abs(number) * Decimal("0.05") else ""
        if self.decimals == 0 and not self.scaled and number == number.to_integral_value():
            return ""
        unit = Decimal(1).scaleb(-self.decimals)
        if self.scaled:
            unit = self.value / Decimal(_leading(self.value))
        return "rounded" if gap <= unit / 2 else ""


def _leading(value: Decimal) -> int:
    digits = str(int(abs(value))).rstrip("0") or "1"
    return int(digits)


def _holds(number: Decimal, comparator: str, bound: Decimal) -> bool:
    return {
        ">": number > bound,
        ">=": number >= bound,
        "<": number < bound,
        "<=": number <= bound,
    }[comparator]


@dataclass(frozen=True, slots=True)
class Superlative:
    """A rank that is claimed: ``above`` groups stand before the subject; 0 means first."""

    direction: int
    """1 for the largest, -1 for the smallest."""
    above: int
    start: int


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    kind: ClaimKind
    figures: tuple[Figure, ...] = ()
    superlative: Superlative | None = None
    movement: int = 0
    """1 when the text says that something rose, -1 when it says that it fell."""

    @property
    def checkable(self) -> bool:
        return bool(self.figures) or self.superlative is not None or bool(self.movement)


def claims_of(doc: Json, known: Sequence[str], quiet: Iterable[re.Pattern[str]]) -> list[Claim]:
    """The claims of a document: headline first, then sentences with something to check, then the
    affected count. ``known`` are cell texts that are no prose; ``quiet`` are their digits."""
    patterns = list(quiet)
    headline = text_of(doc.get("headline")) or text_of(doc.get("description"))
    found = [_claim(headline, ClaimKind.HEADLINE, patterns)]
    seen = {_bare(headline)}
    for sentence in sentences_of(text_of(doc.get("description")), known):
        covers = len(PERIOD.findall(sentence)) > 1 and COVERS.match(sentence)
        if (_METHOD.match(sentence) and not covers) or _bare(sentence) in seen:
            continue
        claim = _claim(sentence, ClaimKind.STATEMENT, patterns)
        if claim.checkable or covers:
            seen.add(_bare(sentence))
            found.append(claim)
    count = int_of(doc.get("affected_count"))
    if count:
        text = f"affected_count = {count}"
        figure = Figure(Decimal(count), 0, len(text), 0, False, False, "")
        found.append(Claim(text, ClaimKind.AFFECTED, (figure,)))
    return found


def read_claim(text: str, kind: ClaimKind, quiet: Iterable[re.Pattern[str]] = ()) -> Claim:
    """One claim from its text alone."""
    if match := re.fullmatch(r"affected_count = (\d+)", text.strip()):
        figure = Figure(Decimal(match.group(1)), 0, len(text), 0, False, False, "")
        return Claim(text, ClaimKind.AFFECTED, (figure,))
    return _claim(text, kind, list(quiet))


def _claim(text: str, kind: ClaimKind, quiet: list[re.Pattern[str]]) -> Claim:
    masked = mask(text, quiet)
    movement = 1 if _RISES.search(masked) else -1 if _FALLS.search(masked) else 0
    return Claim(text, kind, tuple(figures_in(masked)), superlative_in(masked), movement)


def _bare(text: str) -> str:
    return " ".join(text.lower().rstrip(".").split())


def mask(text: str, quiet: Iterable[re.Pattern[str]]) -> str:
    """Blank out names and periods, so that their digits are not read as figures."""
    for pattern in [PERIOD, *quiet]:
        text = pattern.sub(lambda m: "\ue000" * len(m.group(0)), text)
    return text


def sentences_of(text: str, known: Sequence[str]) -> list[str]:
    """Split prose into sentences; points inside known names do not end one."""
    hidden = text
    for name in sorted(set(known), key=len, reverse=True):
        if re.search(r"[.!?;\n]", name):
            hidden = hidden.replace(name, re.sub(r"[.!?;\n]", "\ue001", name))
    found: list[str] = []
    for line_start, line in _lines(hidden):
        begin = 0
        for stop in re.finditer(r"[.!?;](?=\s|$)", line):
            if stop.group(0) == "." and _ABBREVIATION.search(line[: stop.end()]):
                continue
            found.append(text[line_start + begin : line_start + stop.end()])
            begin = stop.end()
        found.append(text[line_start + begin : line_start + len(line)])
    clean = (re.sub(r"^\s*(?:[-*+•#>]+|\d+[.)])\s+", "", s).strip() for s in found)
    bold = (re.sub(r"^\*\*(.*?[.!?]?)\*\*$", r"\1", s) for s in clean)
    return [s for s in bold if re.search(r"\w", s)]


def _lines(text: str) -> Iterable[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def figures_in(masked: str) -> list[Figure]:
    """Every number that is written as a quantity."""
    found: list[Figure] = []
    for match in _FIGURE.finditer(masked):
        before = masked[: match.start()]
        if re.search(r"\b(top|first|last|step|steps|part)\s*$", before, re.IGNORECASE):
            continue
        try:
            value = Decimal(match.group("body").replace(",", ""))
        except InvalidOperation:
            continue
        if match.group("sign") in {"-", "−"}:
            value = -value
        scale = _SCALES.get((match.group("scale") or "").strip().lower(), 1)
        body = match.group("body")
        found.append(
            Figure(
                value * scale,
                match.start(),
                match.end(),
                len(body.partition(".")[2]) if scale == 1 else 0,
                bool(match.group("percent")),
                _HEDGES.search(before) is not None,
                _comparator(before),
                scale != 1,
            )
        )
    return found


def _comparator(before: str) -> str:
    """The bound that the words before a number make of it; "24.8 over 300 rows" makes none."""
    if re.search(r"[\d%]\s+(?:over|above|below|under)\s*$", before, re.IGNORECASE):
        return ""
    return next((sign for pattern, sign in _COMPARATORS if pattern.search(before)), "")


def superlative_in(masked: str) -> Superlative | None:
    """The rank that a sentence claims for its subject, or None."""
    text = _NOT_SUPERLATIVE.sub(lambda m: "\ue000" * len(m.group(0)), masked)
    other = _NO_OTHER.search(text)
    if other:
        word = (other.group(1) or other.group(2)).lower()
        direction = 1 if word in {"higher", "larger", "more", "greater"} else -1
        return Superlative(direction, 0, other.start())
    high, low, ordinal = _MAX.search(text), _MIN.search(text), _ORDINAL.search(text)
    above = _ORDINALS[ordinal.group(1).lower()] if ordinal else 0
    if high and (not low or high.start() < low.start()):
        return Superlative(1, above, high.start())
    if low:
        return Superlative(-1, above, low.start())
    return Superlative(1, above, ordinal.start()) if ordinal and above else None
