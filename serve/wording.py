"""How verdicts and severities are put to a decision maker: one place for labels and taglines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.records import InsightValidation, Severity, Status


class Tone(StrEnum):
    """What a colour and a sign should say; never the only carrier of the meaning."""

    GOOD = "good"
    FAIR = "fair"
    CAUTION = "caution"
    BAD = "bad"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class StatusMeta:
    label: str
    tagline: str
    """One sentence for someone who decides on it."""
    tone: Tone
    sign: str


STATUS_META: dict[Status, StatusMeta] = {
    Status.CONFIRMED: StatusMeta(
        "Confirmed",
        "The data shows exactly this, and a deliberate attempt to refute it failed.",
        Tone.GOOD,
        "✓",
    ),
    Status.SUPPORTED: StatusMeta(
        "Supported",
        "The data agrees with this, and a deliberate attempt to refute it failed.",
        Tone.FAIR,
        "✓",
    ),
    Status.PARTIAL: StatusMeta(
        "Partly backed",
        "Some of this is backed by rows of data and some is not; read the claims one by one.",
        Tone.CAUTION,
        "◐",
    ),
    Status.REJECTED: StatusMeta(
        "Rejected",
        "The data contradicts this. Do not act on it.",
        Tone.BAD,
        "✕",
    ),
    Status.UNVERIFIABLE: StatusMeta(
        "Could not be checked",
        "No row of data was found that could prove or disprove this.",
        Tone.NEUTRAL,
        "?",
    ),
    Status.VALIDATION_DISABLED: StatusMeta(
        "Not checked",
        "Checking is switched off for this project, so nobody looked for evidence.",
        Tone.NEUTRAL,
        "–",
    ),
    Status.SKIPPED_BUDGET_CAP: StatusMeta(
        "Not reached",
        "The run reached its limit of checks before it came to this one.",
        Tone.NEUTRAL,
        "–",
    ),
}
UNVERIFIED = StatusMeta("Unverified", "Nothing has checked this yet.", Tone.NEUTRAL, "–")
_WITHOUT_REFUTER = {
    Status.CONFIRMED: "The data shows exactly this. No one tried to refute it: that check was off.",
    Status.SUPPORTED: "The data agrees with this. No one tried to refute it: that check was off.",
}
SEVERITY_ORDER = {
    Severity.CRITICAL: 0,
    Severity.HIGH: 1,
    Severity.MEDIUM: 2,
    Severity.LOW: 3,
}


def status_meta(status: Status | str | None, *, refuter_disabled: bool = False) -> StatusMeta:
    """Words for a combined or claim status; an unknown or missing one reads as unverified."""
    try:
        known = Status(status or "")
    except ValueError:
        return UNVERIFIED
    meta = STATUS_META[known]
    if refuter_disabled and known in _WITHOUT_REFUTER:
        return StatusMeta(meta.label, _WITHOUT_REFUTER[known], meta.tone, meta.sign)
    return meta


def validation_meta(validation: InsightValidation | None) -> StatusMeta:
    """Words for what a document's two verdicts amount to; the legacy field is the fallback."""
    if validation is None:
        return UNVERIFIED
    return status_meta(
        validation.combined or validation.status, refuter_disabled=validation.refuter_disabled
    )


def model_words(provider: str, model: str) -> str:
    """One plain sentence on who writes the statements of a finished discovery."""
    if provider in ("", "offline"):
        return "No language model is involved: all statements come from rules applied to the data."
    return f"Statements are written by a language model: {model or 'the default'} ({provider})."
