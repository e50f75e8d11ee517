"""When a value that a model wrote is the value that a tool returned.

Formatting is forgiven (``1,234`` for 1234, ``17.4%`` for 17.4, a midnight without its time), and
so is a value written shorter: a number that the returned one rounds to, with at least three
significant digits, and the beginning of a long text before an ellipsis. A changed value never is.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from types import NoneType
from typing import Any, cast

from pipeline.sql.rows import normalise

MIN_SIGNIFICANT_DIGITS = 3
MIN_BEGINNING_CHARS = 40
"""Of a text that stands for a longer one."""
LONG_TEXT_CHARS = 100_000
"""A longer text is compared as it is."""
NAN = "NaN"
"""What a warehouse's not-a-number becomes (``pipeline.sql.rows``)."""

_PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_FORMATTED = re.compile(
    r"""
    (?P<sign>[-+−]?)\s?(?P<currency>[$€£¥₹]?)\s?
    (?P<whole>
        [0-9]{1,3}(?:(?P<group>[,_'\u2019\u00a0\u202f ])[0-9]{3})(?:(?P=group)[0-9]{3})*
        | [0-9]+
    )
    (?P<fraction>\.[0-9]+)?
    \s?(?P<suffix>%|bn|[kmbt])?\s?(?P<trailing>[$€£¥₹])?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SCALE = {"k": 3, "m": 6, "b": 9, "bn": 9, "t": 12}
_PERCENT_NAME = re.compile(r"%|pct|percent", re.IGNORECASE)
_MOMENT = re.compile(
    r"""
    [0-9]{4}-[0-9]{2}-[0-9]{2}
    (?:
        [T\ ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?
        \s?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?
    )?
    """,
    re.VERBOSE,
)
_ELLIPSES = ("…", "...")
_EXACT = Context(prec=200)


def same_value(claimed: Any, returned: Any, *, column: str = "") -> bool:
    """True when ``claimed`` is ``returned``, give or take formatting. ``column`` is its name."""
    claimed, returned = _plain(claimed), _plain(returned)
    if claimed is None or returned is None:
        return claimed is None and returned in (None, NAN)  # JSON has no other word for it
    if isinstance(claimed, bool) or isinstance(returned, bool):
        return _same_flag(claimed, returned)
    if isinstance(returned, Decimal):
        return _same_number(claimed, returned, column)
    if isinstance(claimed, Decimal):
        return isinstance(returned, str) and _same_as_number_text(claimed, returned)
    if isinstance(claimed, str) and isinstance(returned, str):
        return _same_text(claimed, returned)
    return _same_nested(claimed, returned)


def _plain(value: Any) -> Any:
    """Numbers as ``Decimal`` (a float as it prints); what JSON has no type for as its text."""
    if not isinstance(value, (bool, str, int, float, Decimal, Mapping, list, NoneType)):
        value = normalise(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return cast("Any", value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
    return number if number.is_finite() else normalise(value)


def _same_flag(claimed: Any, returned: Any) -> bool:
    """A flag is itself or its own word; never a number."""
    words = {"true": True, "false": False}
    one, other = (
        words.get(v.strip().lower()) if isinstance(v, str) else v for v in (claimed, returned)
    )
    return isinstance(one, bool) and one is other


def _same_number(claimed: Any, returned: Decimal, column: str) -> bool:
    if isinstance(claimed, Decimal):
        return _rounds_to(returned, claimed)
    if not isinstance(claimed, str):
        return False
    parsed = _FORMATTED.fullmatch(unicodedata.normalize("NFC", claimed.strip()))
    if parsed is None:
        return _same_exponent_text(claimed, returned)
    number = _number_of(parsed)
    if parsed["suffix"] != "%":
        return _rounds_to(returned, number)
    if _rounds_to(returned, number):
        return True
    # "17.4%" is by definition 0.174, but not where the column itself counts in per cent.
    if _PERCENT_NAME.search(column) or abs(returned) > 1:
        return False
    return _rounds_to(returned, number.scaleb(-2, _EXACT))


def _same_exponent_text(claimed: str, returned: Decimal) -> bool:
    try:
        number = Decimal(claimed.strip()) if len(claimed) <= 40 else None
    except InvalidOperation:
        return False
    return number is not None and number.is_finite() and number == returned


def _number_of(parsed: re.Match[str]) -> Decimal:
    digits = re.sub(r"[^0-9]", "", parsed["whole"]) + (parsed["fraction"] or "")
    sign = "-" if parsed["sign"] in ("-", "−") else ""
    number = Decimal(sign + digits)
    return number.scaleb(_SCALE.get((parsed["suffix"] or "").lower(), 0), _EXACT)


def _rounds_to(returned: Decimal, claimed: Decimal) -> bool:
    """Equal, or ``claimed`` is ``returned`` rounded at the place where ``claimed`` stops.

    That place leaves at least three significant digits of the returned value: zeros that got lost
    on the way are put back (0.120 arrives as 0.12), and 99.6 never becomes 100.
    """
    if claimed == returned:
        return True
    if claimed == 0 or returned == 0:
        return False
    written = cast("int", claimed.as_tuple().exponent)
    exponent = min(written, returned.adjusted() - MIN_SIGNIFICANT_DIGITS + 1)
    place = Decimal((0, (1,), exponent))
    try:
        return any(
            returned.quantize(place, rounding, _EXACT) == claimed
            for rounding in (ROUND_HALF_UP, ROUND_HALF_EVEN)
        )
    except InvalidOperation:
        return False


def _same_as_number_text(claimed: Decimal, returned: str) -> bool:
    """A warehouse may return numbers as text, also as ``1,234`` or ``17.4%``; ``00501`` or
    ``v1.10`` are names, not numbers."""
    text = returned.strip()
    if len(text) > 60:
        return False
    if _PLAIN.fullmatch(text):
        return _rounds_to(Decimal(text), claimed)
    parsed = _FORMATTED.fullmatch(text)
    if parsed is None or not (parsed["group"] or parsed["suffix"] == "%"):
        return False
    return _rounds_to(_number_of(parsed), claimed)


def _same_text(claimed: str, returned: str) -> bool:
    if claimed == returned or _begins(claimed, returned):
        return True
    if max(len(claimed), len(returned)) > LONG_TEXT_CHARS:
        return False
    if _normal(claimed) == _normal(returned):
        return True
    one, other = _moment(claimed), _moment(returned)
    if one is not None and other is not None:
        return _same_moment(one, other)
    formatted = any(mark in claimed for mark in ",%$€£") and len(claimed) < 60
    if formatted and _PLAIN.fullmatch(returned.strip()) and len(returned) <= 60:
        return _same_number(claimed, Decimal(returned.strip()), "%")
    return False


def _begins(claimed: str, returned: str) -> bool:
    """True when ``claimed`` is a good piece of ``returned`` from its beginning, and an ellipsis."""
    beginning = next((claimed.removesuffix(e) for e in _ELLIPSES if claimed.endswith(e)), "")
    beginning = _normal(beginning[:LONG_TEXT_CHARS])
    if len(beginning) < MIN_BEGINNING_CHARS:
        return False
    rest = _normal(returned[: 4 * len(beginning) + 1_000])
    return len(rest) > len(beginning) and rest.startswith(beginning)


def _normal(text: str) -> str:
    """Composed characters, white space collapsed; upper and lower case stay different."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _moment(text: str) -> datetime | date | None:
    """The date or time that an ISO text writes out in full, else None."""
    text = text.strip()
    if not _MOMENT.fullmatch(text):
        return None
    try:
        if len(text) == len("2013-01-01"):
            return date.fromisoformat(text)
        return datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-").replace(" Z", "Z"))
    except ValueError:
        return None


def _same_moment(claimed: datetime | date, returned: datetime | date) -> bool:
    """A date is its midnight on the same clock; a time without an offset is taken as UTC."""
    if not isinstance(claimed, datetime) or not isinstance(returned, datetime):
        one, other = (
            m.replace(tzinfo=None) if isinstance(m, datetime) else datetime.combine(m, time())
            for m in (claimed, returned)
        )
        return one == other
    one, other = (m if m.tzinfo else m.replace(tzinfo=UTC) for m in (claimed, returned))
    return one == other


def _same_nested(claimed: Any, returned: Any) -> bool:
    """Lists and objects must be equal part by part; one side may be JSON text."""
    if isinstance(returned, str):
        returned = _parsed(returned)
    elif isinstance(claimed, str):
        claimed = _parsed(claimed)
    if isinstance(claimed, Mapping) and isinstance(returned, Mapping):
        one, other = cast("Mapping[str, Any]", claimed), cast("Mapping[str, Any]", returned)
        return one.keys() == other.keys() and all(same_value(one[k], other[k]) for k in one)
    if isinstance(claimed, list) and isinstance(returned, list):
        left, right = cast("list[Any]", claimed), cast("list[Any]", returned)
        return len(left) == len(right) and all(map(same_value, left, right))
    return False


def _parsed(text: str) -> Any:
    """The list or object that a JSON text holds, else None."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Any", value) if isinstance(value, (dict, list)) else None
