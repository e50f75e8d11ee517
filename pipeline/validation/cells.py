"""Rows as a model sees them: every cell short enough, cut on whole characters."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from math import isfinite
from typing import Any

from pipeline.sql.rows import normalise

ELLIPSIS = "…"
MIN_DIGITS, MIN_DECIMALS = 9, 6
"""Of a number with a fraction, significant digits and decimals that are shown at least."""
_ZWJ, _CR, _LF = "\u200d", "\r", "\n"
_REPLACEMENT = "\ufffd"


def cut(text: str, limit: int) -> str:
    """At most ``limit`` code points of ``text`` and an ellipsis, or ``text`` itself if it fits.

    The cut falls between characters as a reader sees them: no combining mark, emoji sequence, flag
    or Hangul syllable is split, and a lone surrogate, which no encoding can carry, is replaced.
    """
    if len(text) <= limit:
        return _encodable(text)
    end = limit
    while end > 0 and _joined(text, end):
        end -= 1
    return _encodable(text[:end]) + ELLIPSIS


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _joined(text: str, at: int) -> bool:
    """True when the characters around index ``at`` belong to one another."""
    before, after = text[at - 1], text[at]
    if before == _CR and after == _LF:
        return True
    if unicodedata.category(after)[0] == "M" or after == _ZWJ or before == _ZWJ:
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return True
    if "\U000e0020" <= after <= "\U000e007f":  # tags of sub-national flags
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        run = at
        while run > 0 and _is_flag_letter(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    return _is_hangul(before) and "\u1160" <= after <= "\u11ff"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_hangul(char: str) -> bool:
    return "\u1100" <= char <= "\u11ff" or "\uac00" <= char <= "\ud7a3"


def shown_cell(value: Any, limit: int) -> Any:
    """A JSON scalar: whole numbers, flags and nulls as they are, text cut, nested values as JSON
    text, and of a fraction the digits that say something."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and isfinite(value):
        return _shown_fraction(value)
    if isinstance(value, str):
        return cut(value, limit)
    value = normalise(value)
    if isinstance(value, (dict, list)):
        return cut(json.dumps(value, ensure_ascii=False), limit)
    return value


def _shown_fraction(value: float) -> float:
    """Without the tail of a computed double: 12.106072888000001 costs a model twice the tokens of
    12.106072888 and says no more."""
    if abs(value) >= 10**MIN_DIGITS:
        return round(value, MIN_DECIMALS)
    whole_digits = len(str(int(abs(value))))
    return float(f"{value:.{max(MIN_DIGITS, whole_digits + MIN_DECIMALS)}g}")


def shown_rows(rows: Sequence[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Rows with cells, and column names, of at most ``limit`` characters. Names that become equal
    when cut are numbered."""
    names: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    for row in rows:
        for name in row:
            if name not in names:
                names[name] = _free_name(cut(name, limit), names)
        shown.append({names[name]: shown_cell(value, limit) for name, value in row.items()})
    return shown


def _free_name(short: str, names: dict[str, str]) -> str:
    taken = set(names.values())
    free, number = short, len(names)
    while free in taken:
        free, number = f"{short} ({number})", number + 1
    return free
