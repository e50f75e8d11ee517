"""Fields of a model's items, decoded tolerantly: numbers as text, a scalar for a list."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

_NUMBER = re.compile(
    r"[~≈+]?\s*(-?\d[\d,_ ]*(?:\.\d+)?|-?\.\d+)(?:[eE]([+-]?\d+))?\s*([kKmMbB])?\s*%?"
)
_NOTHING = {"", "-", "–", "n/a", "na", "none", "null", "unknown", "not applicable"}
_SCALE = {"k": 1e3, "m": 1e6, "b": 1e9}
_INT64 = 2**63


class BadItem(ValueError):
    """One item of a list cannot be used; the text says why."""


def field(item: Mapping[str, Any], *names: str) -> Any:
    """The first of the named fields that is there and not null, in any case."""
    folded = {key.strip().lower(): value for key, value in item.items()}
    return next((folded[name] for name in names if folded.get(name) is not None), None)


def as_number(value: Any) -> float:
    """A number, also written as text ("8,298", "67%", "1.2M"). Null and words for nothing are 0.

    A percent sign does not divide. Raises ``BadItem``.
    """
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else 0.0
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _NOTHING:
            return 0.0
        if match := _NUMBER.fullmatch(text):
            digits, exponent, scale = match.groups()
            plain = float(re.sub(r"[,_ ]", "", digits)) * 10.0 ** min(int(exponent or 0), 300)
            number = plain * _SCALE.get((scale or "").lower(), 1.0)
            return number if math.isfinite(number) else 0.0
    raise BadItem(f"{value!r} is not a number")


def as_count(value: Any) -> int:
    """A whole number of at least 0. Raises ``BadItem``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    return min(max(0, round(as_number(value))), _INT64 - 1)


def as_share(value: Any) -> float:
    """A share from 0 to 1; "85%" and 85 mean 0.85. Words and other shapes count as unstated, 0."""
    try:
        number = as_number(value)
    except BadItem:
        return 0.0
    percent = number > 1.5 or (isinstance(value, str) and value.strip().endswith("%"))
    return min(max(number / 100 if percent else number, 0.0), 1.0)


def as_text(value: Any) -> str:
    """A text; a number as written, a list joined by commas, an object as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return ", ".join(text for v in cast("list[Any]", value) if (text := as_text(v)))
    return json.dumps(value, ensure_ascii=False)


def as_texts(value: Any) -> list[str]:
    """A list of texts; a single value is a list of one. Blank ones are left out."""
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [text for one in values if (text := as_text(one))]
