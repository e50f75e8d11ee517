"""The knobs: names, defaults and what unreadable or senseless values get."""

from __future__ import annotations

import pytest

from pipeline.errors import BadRequest
from pipeline.settings import Settings, StoreSettings, ValidationSettings, WarehouseSettings

DURATIONS = [
    ("72h", 259_200.0),
    ("1h30m", 5_400.0),
    ("500ms", 0.5),
    ("90", 90.0),
    (" 2.5M ", 150.0),
    ("soon", 86_400.0),
    ("-1", 86_400.0),
    ("0", 0.0),
    ("", 86_400.0),
]


@pytest.mark.parametrize(("written", "seconds"), DURATIONS)
def test_a_time_is_seconds_or_a_duration(
    monkeypatch: pytest.MonkeyPatch, written: str, seconds: float
) -> None:
    monkeypatch.setenv("DISCOVERY_MAX_DURATION", written)
    monkeypatch.setenv("DISCOVERY_CHECKPOINT_RETENTION", "100h")
    assert seconds == Settings.load().exploration.DISCOVERY_MAX_DURATION


def test_checkpoints_are_kept_for_48_hours_by_default() -> None:
    assert StoreSettings().DISCOVERY_CHECKPOINT_RETENTION == 48 * 3600


@pytest.mark.parametrize(
    ("retention", "longest", "fits"),
    [
        ("48h", "24h", True),
        ("48h", "0", True),
        ("24h", "24h", False),
        ("48h", "72h", False),
        ("96h", "72h", True),
    ],
)
def test_the_retention_must_exceed_the_longest_run(
    monkeypatch: pytest.MonkeyPatch, retention: str, longest: str, fits: bool
) -> None:
    monkeypatch.setenv("DISCOVERY_CHECKPOINT_RETENTION", retention)
    monkeypatch.setenv("DISCOVERY_MAX_DURATION", longest)
    if fits:
        Settings.load()
        return
    with pytest.raises(BadRequest, match=r"DISCOVERY_CHECKPOINT_RETENTION .* raise them together"):
        Settings.load()


def test_an_unreadable_number_falls_back_to_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALIDATION_MAX_INSIGHTS_PER_RUN", "many")
    assert ValidationSettings().VALIDATION_MAX_INSIGHTS_PER_RUN == 30


def test_a_senseless_number_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE_MAX_ROWS", "-1")
    assert WarehouseSettings.model_fields["WAREHOUSE_MAX_ROWS"].default == 10_000
    with pytest.raises(BadRequest, match="WAREHOUSE_MAX_ROWS"):
        Settings.load()
