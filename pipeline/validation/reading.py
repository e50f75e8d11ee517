"""Reading verdicts that a model wrote: odd shapes become empty fields, never a crash.

A field of the wrong type is treated as missing, so that the finaliser, not a parser, says what is
wrong with a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from pipeline.records import ClaimEvidence, ClaimVerdict, Provenance, StructuredVerdict
from pipeline.records.verdict import VerdictStats
from pipeline.sql.rows import INT64_MAX, INT64_MIN, normalise

_DIGITS = re.compile("[0-9]{1,18}")

VerdictLike = StructuredVerdict | Mapping[str, Any] | str | None
"""What the rules accept: a record, its JSON object, a bare overall status, or nothing."""


def as_verdict(value: VerdictLike) -> StructuredVerdict:
    """A new record with the content of ``value``, which is left untouched."""
    raw = {"overall": value} if isinstance(value, str) else _mapping(value)
    return StructuredVerdict(
        doc_id=_text(raw.get("doc_id")),
        doc_kind=_text(raw.get("doc_kind")),
        mode=_text(raw.get("mode")),
        claims_considered=[_text(item) for item in _list(raw.get("claims_considered"))],
        claim_verdicts=[_claim(item) for item in _list(raw.get("claim_verdicts"))],
        overall=_text(raw.get("overall")),
        overall_reason=_text(raw.get("overall_reason")),
        overall_conflict=_text(raw.get("overall_conflict")),
        stats=_stats(raw.get("stats")),
    )


def overall_of(value: VerdictLike) -> str:
    """The overall status as written; empty when it is missing or no text."""
    if isinstance(value, str):
        return _text(value)
    return _text(_mapping(value).get("overall"))


def _claim(value: Any) -> ClaimVerdict:
    raw = _mapping(value)
    return ClaimVerdict(
        claim_text=_text(raw.get("claim_text")),
        claim_kind=_text(raw.get("claim_kind")),
        is_headline=_flag(raw.get("is_headline")),
        status=_text(raw.get("status")),
        reasoning=_text(raw.get("reasoning")),
        evidence=_evidence(raw.get("evidence")),
    )


def _evidence(value: Any) -> ClaimEvidence:
    raw = _mapping(value)
    row = raw.get("row")
    named = cast("dict[str, Any]", normalise(row)) if isinstance(row, dict) else None
    return ClaimEvidence(
        kind=_text(raw.get("kind")),
        step_id=_integer(raw.get("step_id")),
        query_sql=_text(raw.get("query_sql")),
        row=named,
        additional_rows=_integer(raw.get("additional_rows")) or 0,
        provenance=_provenance(raw.get("provenance")),
    )


def _provenance(value: Any) -> Provenance | None:
    raw = _mapping(value)
    if not isinstance(raw.get("attested"), bool):
        return None
    return Provenance(attested=raw["attested"], source=_text(raw.get("source")))


def _stats(value: Any) -> VerdictStats:
    numbers = {name: _integer(cell) for name, cell in _mapping(value).items()}
    return VerdictStats.model_validate({k: v for k, v in numbers.items() if v is not None})


def _mapping(value: Any) -> Mapping[str, Any]:
    """The fields of a record or a JSON object; of anything else none."""
    if isinstance(value, BaseModel):
        return vars(value)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Strings as they are (but lone surrogates, which no store takes, written out; a status enum
    becomes its value); numbers as written; else empty."""
    if isinstance(value, str):
        return str(normalise(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return ""


def _flag(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _integer(value: Any) -> int | None:
    """A whole number that a store can hold, also where it came as 3.0 or as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    return value if isinstance(value, int) and INT64_MIN <= value <= INT64_MAX else None
