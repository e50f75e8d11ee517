"""What a column is for: a key, a time, a measure or a group."""

from __future__ import annotations

import re

from pipeline.records import ColumnCategory

KEY_NAMES = frozenset({"id", "user_id", "player_id", "session_id", "event_id"})
_TIME = re.compile(r"^\W*(date|time|timestamp|datetime|smalldatetime)", re.IGNORECASE)
_NUMBER = re.compile(
    r"^\W*(u?(tiny|small|medium|big|huge)?int(eger)?(\d+)?|int\d|serial|bigserial|smallserial"
    r"|bignum|varint|byteint|long|short|byte|number|numeric|bignumeric|decimal|dec|float(\d+)?"
    r"|double|real|money|smallmoney|byte)\b(?!\s*\[)",
    re.IGNORECASE,
)
_LIST = re.compile(r"\[\d*\]\s*$|^\W*(array|list|struct|map|record|row|union)\b", re.IGNORECASE)
_REFERENCE = re.compile(r"(_id|_key|_uuid|_guid)$|[a-z](Id|ID|Key)$")


def categorise(name: str, type_name: str, *, is_key: bool = False) -> ColumnCategory:
    """The category of a column by its name and its type as the warehouse writes it.

    ``is_key`` says that the warehouse declares it the table's primary key. A number that refers to
    another table (``order_id``) is a group: adding it up means nothing.
    """
    if is_key or name.lower() in KEY_NAMES:
        return ColumnCategory.PRIMARY_KEY
    if _LIST.search(type_name):
        return ColumnCategory.DIMENSION
    if _TIME.search(type_name):
        return ColumnCategory.TIME
    if _NUMBER.search(type_name) and not _REFERENCE.search(name):
        return ColumnCategory.METRIC
    return ColumnCategory.DIMENSION
