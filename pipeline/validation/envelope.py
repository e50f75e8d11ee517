"""One reply, one envelope: what a verifier or refuter may answer, and what it is told otherwise.

Only a JSON object that stands at the top level of a reply can be an envelope; objects inside
strings, rows or lists never are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from pipeline.errors import EnvelopeError
from pipeline.validation.scanning import Scan, ScannedObject, scan


class EnvelopeKind(StrEnum):
    LOOKUP_SCHEMA = "lookup_schema"
    QUERY_WAREHOUSE = "query_warehouse"
    READ_STEP_ROWS = "read_step_rows"
    SUBMIT_VERDICT = "submit_verdict"


SHAPES: Mapping[str, str] = {
    EnvelopeKind.LOOKUP_SCHEMA: '{"lookup_schema": ["dataset.table"]}',
    EnvelopeKind.QUERY_WAREHOUSE: '{"query_warehouse": "SELECT ..."}',
    EnvelopeKind.READ_STEP_ROWS: '{"read_step_rows": {"step_id": 1, "offset": 0, "limit": 50}}',
    EnvelopeKind.SUBMIT_VERDICT: '{"submit_verdict": {"claims_considered": [...], '
    '"claim_verdicts": [...], "overall": "...", "overall_reason": "..."}}',
}
VERDICT_FIELDS = frozenset(
    {
        "doc_id",
        "doc_kind",
        "mode",
        "claims_considered",
        "claim_verdicts",
        "overall",
        "overall_reason",
        "stats",
    }
)
"""Tolerated beside an envelope: models lift them out of the verdict by mistake."""
_BARE = {"claims_considered", "claim_verdicts", "overall"}


@dataclass(frozen=True, slots=True)
class Envelope:
    kind: str
    """lookup_schema, query_warehouse, read_step_rows or submit_verdict."""
    body: Any
    """list of str, str, dict and dict respectively, as the model wrote it."""


def parse_envelope(
    reply: Any, allowed: Collection[str] | None = None, *, object_queries: bool = False
) -> Envelope:
    """The one envelope in ``reply``; ``allowed`` names the kinds of this round, None allows all.

    With ``object_queries`` a query may be a JSON object, which becomes its text: the datasource
    is not asked in SQL. Reasoning blocks and code fences are tolerated, and so is a verdict without
    its envelope. Raises ``EnvelopeError``, whose reason tells the model what to send instead.
    """
    menu = _menu(allowed)
    if not isinstance(reply, str) or not reply.strip():
        raise EnvelopeError(f"the reply was empty; {menu}")
    found = _the_object(scan(reply), menu)
    keys = [kind.value for kind in EnvelopeKind if kind.value in found]
    if len(keys) > 1 or found.repeated & set(keys):
        named = ", ".join(keys) if len(keys) > 1 else f"{keys[0]} twice"
        raise EnvelopeError(f"the object has several envelope keys ({named}); {menu}")
    bare = not keys and found.keys() >= _BARE
    extra = [key for key in found if key not in VERDICT_FIELDS and key not in keys]
    if (keys or bare) and extra:
        named = ", ".join(key[:40] for key in extra[:5])
        raise EnvelopeError(f"extra keys beside the envelope ({named}); leave them out: {menu}")
    if not keys and not bare:
        named = ", ".join(key[:40] for key in list(found)[:5]) or "none"
        raise EnvelopeError(f"the object has no envelope key (it has: {named}); {menu}")
    kind = EnvelopeKind.SUBMIT_VERDICT.value if bare else keys[0]
    if allowed is not None and kind not in _kinds(allowed):
        raise EnvelopeError(f"{kind} is not allowed in this round; {menu}")
    body: Any = dict(found) if bare else found[kind]
    if object_queries and kind == EnvelopeKind.QUERY_WAREHOUSE and isinstance(body, dict) and body:
        body = json.dumps(body, ensure_ascii=False)
    _check_type(kind, body)
    return Envelope(kind, body)


def _the_object(scanned: Scan, menu: str) -> ScannedObject:
    """The envelope among the objects of a reply, or the only object there is."""
    envelopes = [f for f in scanned.objects if _envelope_like(f.value)]
    if len(envelopes) > 1:
        raise EnvelopeError(f"the reply holds several envelopes; {menu}")
    if not envelopes:
        if scanned.objects and not scanned.problem:
            return scanned.objects[0].value
        why = scanned.problem or "the reply holds no JSON object"
        raise EnvelopeError(f"{why}; {menu}")
    chosen = envelopes[0]
    first = next(f for f in scanned.objects if f.region == chosen.region)
    if first is not chosen:
        raise EnvelopeError(f"another JSON object stands before the envelope; {menu}")
    return chosen.value


def _envelope_like(found: ScannedObject) -> bool:
    return any(kind.value in found for kind in EnvelopeKind) or found.keys() >= _BARE


def _kinds(allowed: Collection[str] | None) -> list[str]:
    if allowed is None:
        return [kind.value for kind in EnvelopeKind]
    names = {allowed} if isinstance(allowed, str) else {str(kind) for kind in allowed}
    return [kind.value for kind in EnvelopeKind if kind.value in names]


def _menu(allowed: Collection[str] | None) -> str:
    shapes = " or ".join(SHAPES[kind] for kind in _kinds(allowed))
    return f"send exactly one JSON object with one key: {shapes}"


def _check_type(kind: str, body: Any) -> None:
    problem = ""
    match kind:
        case EnvelopeKind.LOOKUP_SCHEMA:
            names = cast("list[Any]", body) if isinstance(body, list) else []
            if not names or not all(isinstance(n, str) and n.strip() for n in names):
                problem = "must be a list of one or more table names"
        case EnvelopeKind.QUERY_WAREHOUSE:
            if not isinstance(body, str) or not body.strip():
                problem = "must be the bare SQL text as one string, not an object or a list"
        case EnvelopeKind.READ_STEP_ROWS:
            problem = _page_problem(body)
        case _:
            if not isinstance(body, dict):
                problem = "must be an object: the whole verdict"
    if problem:
        raise EnvelopeError(f"{kind} {problem}; send {SHAPES[kind]}")


def _page_problem(body: Any) -> str:
    if not isinstance(body, dict):
        return "must be an object with step_id, offset and limit"
    page = cast("dict[str, Any]", body)
    if not is_whole(page.get("step_id")):
        return "needs step_id, a whole number"
    for name in ("offset", "limit"):
        if page.get(name) is not None and not is_whole(page[name]):
            return f"has {name}, which must be a whole number"
    return ""


def is_whole(value: Any) -> bool:
    """True for 3 and 3.0, not for true, "3" or 3.5."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
