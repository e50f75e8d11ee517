"""Every validation knob works from the environment and is checked at start."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipeline.records import AgentMode
from pipeline.settings import ValidationSettings
from pipeline.validation.briefing import Limits, limits_for

NUMBERS = {
    "VALIDATION_MAX_INSIGHTS_PER_RUN": 30,
    "VALIDATION_MAX_RECOMMENDATIONS_PER_RUN": 15,
    "VALIDATION_VERIFIER_MAX_ROUNDS": 8,
    "VALIDATION_VERIFIER_TOKEN_CAP": 30_000,
    "VALIDATION_VERIFIER_MAX_OUTPUT": 4_000,
    "VALIDATION_REFUTER_MAX_ROUNDS": 6,
    "VALIDATION_REFUTER_TOKEN_CAP": 20_000,
    "VALIDATION_REFUTER_MAX_OUTPUT": 3_000,
    "VALIDATION_BUNDLE_SAMPLE_ROWS": 50,
    "VALIDATION_BUNDLE_CELL_CHAR_CAP": 200,
    "VALIDATION_REC_STEPS_TOKEN_BUDGET": 12_000,
    "VALIDATION_ESTIMATE_TOKEN_RATIO": 3.5,
    "VALIDATION_MAX_READ_STEP_ROWS": 200,
    "VALIDATION_NUMERIC_TOLERANCE": 0.20,
    "VALIDATION_MIN_SAMPLE_SIZE": 30,
}


@pytest.mark.parametrize(("name", "default"), NUMBERS.items())
def test_numbers_have_the_published_defaults_and_come_from_the_environment(
    name: str, default: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert getattr(ValidationSettings(), name) == default
    monkeypatch.setenv(name, "0.5" if isinstance(default, float) else "7")
    assert getattr(ValidationSettings(), name) == (0.5 if isinstance(default, float) else 7)
    monkeypatch.setenv(name, "many")
    assert getattr(ValidationSettings(), name) == default
    monkeypatch.setenv(name, "-1")
    with pytest.raises(ValidationError):
        ValidationSettings()


@pytest.mark.parametrize("word", ["true", "1", "yes", "on", "TRUE", "On"])
def test_the_refuter_can_be_switched_on(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALIDATION_REFUTER_ENABLED", word)
    assert ValidationSettings().VALIDATION_REFUTER_ENABLED is True


@pytest.mark.parametrize("word", ["false", "0", "no", "off", "FALSE", "Off"])
def test_the_refuter_can_be_switched_off(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALIDATION_REFUTER_ENABLED", word)
    assert ValidationSettings().VALIDATION_REFUTER_ENABLED is False


def test_each_agent_has_its_own_limits() -> None:
    settings = ValidationSettings()
    assert limits_for(AgentMode.VERIFIER, settings) == Limits(8, 30_000, 4_000)
    assert limits_for(AgentMode.REFUTER, settings) == Limits(6, 20_000, 3_000)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf"])
def test_a_ratio_that_would_switch_the_caps_off_is_refused(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALIDATION_ESTIMATE_TOKEN_RATIO", value)
    with pytest.raises(ValidationError):
        ValidationSettings()
