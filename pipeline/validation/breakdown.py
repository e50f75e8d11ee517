"""Tells a verdict that somebody reached from one that only says that an agent could not work."""

from __future__ import annotations

import re

from pipeline.records import InsightValidation, StructuredVerdict

_NOT_JUDGED = re.compile(
    r"(?:forced )?chat failed: |the (?:verifier|refuter) failed after one retry: "
    r"|the evidence cannot be put together: "
)


def breakdown(validation: InsightValidation) -> str:
    """Why the model or an agent failed over this document; empty when both agents judged it.

    Such a validation is right for a run, which must go on, and worthless as a measurement.
    """
    return _of(validation.verifier) or _of(validation.refuter)


def _of(verdict: StructuredVerdict | None) -> str:
    if verdict is None or verdict.claim_verdicts:
        return ""
    found = _NOT_JUDGED.match(verdict.overall_reason)
    return verdict.overall_reason[found.end() :] if found else ""
