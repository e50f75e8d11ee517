"""The opening of a conversation, rendered from the prompts under ``prompts/validation``.

Rules, bundle and role are three texts in that order: the first is the same for a whole run, the
second for both agents of a document, and only the third tells them apart. So the verifier and the
refuter share a byte-stable prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.ports import SQL
from pipeline.prompting import block, load, render, text_block
from pipeline.records import AgentMode, DocKind
from pipeline.settings import ValidationSettings
from pipeline.validation.bundle import Bundle, BundleWarehouse

DEFAULT_LANGUAGE = "English"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one agent may spend on one document."""

    rounds: int
    token_cap: int
    """Tokens in and out, over all its calls."""
    max_output: int
    """Tokens of one reply."""


def limits_for(mode: AgentMode, settings: ValidationSettings) -> Limits:
    """The knobs of one mode."""
    if mode is AgentMode.VERIFIER:
        return Limits(
            settings.VALIDATION_VERIFIER_MAX_ROUNDS,
            settings.VALIDATION_VERIFIER_TOKEN_CAP,
            settings.VALIDATION_VERIFIER_MAX_OUTPUT,
        )
    return Limits(
        settings.VALIDATION_REFUTER_MAX_ROUNDS,
        settings.VALIDATION_REFUTER_TOKEN_CAP,
        settings.VALIDATION_REFUTER_MAX_OUTPUT,
    )


def rules(bundle: Bundle, settings: ValidationSettings) -> str:
    """The system text, shared by both agents: no role, nothing of the document."""
    return render(
        load("validation/shared"),
        {
            "NUMERIC_TOLERANCE_PCT": _tolerance(settings),
            "MIN_SAMPLE_SIZE": str(settings.VALIDATION_MIN_SAMPLE_SIZE),
            "ROW_LIMIT": str(settings.VALIDATION_BUNDLE_SAMPLE_ROWS),
            "READ_LIMIT": str(settings.VALIDATION_MAX_READ_STEP_ROWS),
            "FILTER_RULE": _filter_rule(bundle.warehouse) + _language_rule(bundle.warehouse),
            "LANGUAGE": bundle.discovery.language or DEFAULT_LANGUAGE,
        },
    )


def exhibit(bundle: Bundle) -> str:
    """The first message: the bundle as one data block."""
    return block("bundle", bundle.payload(), dense=True)


def brief(mode: AgentMode, bundle: Bundle, settings: ValidationSettings) -> str:
    """The second message: who the agent is, and what only it is told."""
    is_insight = bundle.doc.kind is DocKind.INSIGHT
    claims_rule = "claims_copied" if bundle.prior_claims else "claims_own"
    return render(
        load(f"validation/{mode.value}"),
        {
            "ROUNDS": str(limits_for(mode, settings).rounds),
            "NUMERIC_TOLERANCE_PCT": _tolerance(settings),
            "MIN_SAMPLE_SIZE": str(settings.VALIDATION_MIN_SAMPLE_SIZE),
            "SOURCE_STEPS_TRUNCATION_NOTICE": _truncation_notice(bundle),
            "DOC_PARTS": "" if is_insight else ", its expected impact and its actions",
            "PRIOR_CLAIMS": _prior_claims(bundle),
            "CLAIMS_RULE": load(f"validation/{claims_rule}").strip(),
        },
    ).strip()


def _tolerance(settings: ValidationSettings) -> str:
    return f"{settings.VALIDATION_NUMERIC_TOLERANCE * 100:g}"


def _filter_rule(warehouse: BundleWarehouse) -> str:
    if not warehouse.filter_field:
        return ""
    return render(
        load("validation/filter"),
        {
            "FILTER_BLOCK": text_block("filter", warehouse.filter_clause),
            "FILTER_CLAUSE": warehouse.filter_clause,
            "FILTER_FIELD": warehouse.filter_field,
            "FILTER_VALUE": warehouse.filter_value,
        },
    ).rstrip()


def _language_rule(warehouse: BundleWarehouse) -> str:
    """How to query a datasource that is not asked in SQL."""
    if warehouse.query_language == SQL:
        return ""
    variables = {"QUERY_LANGUAGE": warehouse.query_language}
    return render(load("validation/cube"), variables).rstrip()


def _truncation_notice(bundle: Bundle) -> str:
    if not bundle.source_steps_truncated:
        return ""
    omitted = ", ".join(str(step) for step in bundle.source_steps_omitted)
    return render(load("validation/truncation_notice"), {"OMITTED_STEPS": omitted})


def _prior_claims(bundle: Bundle) -> str:
    if not bundle.prior_claims:
        return ""
    claims = block("prior_claims", bundle.prior_claims)
    return render(load("validation/claims_given"), {"PRIOR_CLAIMS_BLOCK": claims})
