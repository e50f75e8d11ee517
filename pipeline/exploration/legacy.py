"""Old pack prompts taught a JSON key that some models now refuse to be asked for."""

from __future__ import annotations

import re

_OPEN = r"""\\{0,4}["'`]|\*\*|“|‘|&quot;"""
_CLOSE = r"""\\{0,4}["'`]|\*\*|”|’|&quot;"""
_ITEM = (
    r"[`\"']?(?:query_purpose|query|lookup_schema|search_tables|search_top_k|datasource_id)[`\"']?"
)
"""Another key of the grammar; a comma alone proves nothing: "after thinking, query the table"."""
_ENDS = r"(?=\s{0,99}(?:[,;:.)\]}]|(?:and|or)\b|$))"
_LIST = r"\s{0,9}(?:,|,?\s{0,9}\b(?:and|or)\b|[&+/])\s{0,9}"
_RULES = (
    rf"(?P<before>{_OPEN})thinking(?=:?(?:{_CLOSE}))",
    r"(?P<before>(?:^|[{,]\s{0,99})[ \t]{0,99}(?:[-*+•][ \t]{0,9}|\d{1,3}[.)][ \t]{0,9})?)thinking"
    r"(?=\s*(?:\([^()\n]{0,60}\)\s*)?[:=])",
    r"(?P<before>\|[ \t]{0,99})thinking(?=[ \t]*\|)",
    r"(?P<before>\b)thinking(?=\s+(?:field|key|property|attribute|string)s?\b)",
    r"(?P<before>\b(?:field|key|property|properties|attribute)s?:?\s+(?:named\s+|called\s+)?)"
    r"thinking\b",
    rf"(?P<before>\b)thinking(?=(?:\s*\([^()\n]{{0,60}}\))?{_LIST}{_ITEM}{_ENDS})",
    rf"(?P<before>\b{_ITEM}{_LIST})thinking\b{_ENDS}",
)
_DATA = re.compile(r"^<(catalog|areas|profile|previous_context|filter)>\n[^<]*\n</\1>$", re.M)
"""Data holds no tag character: ``prompting`` escapes them."""
_TAUGHT = tuple(re.compile(rule, re.I | re.M) for rule in _RULES)


def rewrite_legacy(text: str) -> str:
    """Pack text that teaches the key ``thinking`` teaches ``rationale`` instead.

    Only the key is rewritten: quoted, before a colon as in JSON or a list, in a cell of its own,
    called a field, or listed with other keys. Prose about thinking stays, tags and data blocks too.
    """
    parts: list[str] = []
    position = 0
    for block in _DATA.finditer(text):
        parts += [_rewritten(text[position : block.start()]), block[0]]
        position = block.end()
    return "".join([*parts, _rewritten(text[position:])])


def _rewritten(text: str) -> str:
    for taught in _TAUGHT:
        text = taught.sub(lambda found: f"{found['before']}rationale", text)
    return text
