"""Every knob, grouped by concern. Names are the specification's, read from the environment.

An unparseable number falls back to its default with a warning (reference: validation settings);
a value that parses but makes no sense (a negative cap) is refused at start. A time is a number of
seconds or a duration such as ``90s``, ``1h30m`` or ``500ms``.
"""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

log = logging.getLogger(__name__)
CHECKPOINT_RETENTION = timedelta(hours=48)
MOST_SECONDS = 2**31 - 1
"""The longest that an index of the store can keep anything."""
TRUE, FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")


def _seconds(text: str) -> float:
    """``1h30m`` as seconds. Raises ``ValueError``."""
    if not _DURATION.fullmatch(text):
        raise ValueError(text)
    parts = re.findall(r"([\d.]+)([a-z]+)", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _number_or_default(name: str, field: FieldInfo, value: Any) -> Any:
    kind = field.annotation
    if not isinstance(value, str) or (kind is not int and kind is not float):
        return value
    try:
        return kind(value.strip())
    except ValueError:
        pass
    try:
        if kind is float:
            return _seconds(value.strip().lower())
    except ValueError:
        pass
    log.warning("%s=%r is not a number; using the default %s", name, value, field.default)
    return field.default


def _parse_flag(value: Any, handler: ValidatorFunctionWrapHandler) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in TRUE | FALSE:
            return word in TRUE
    return handler(value)


Flag = Annotated[bool, WrapValidator(_parse_flag)]


class _Group(BaseSettings):
    model_config = SettingsConfigDict(extra="ignore", case_sensitive=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _forgive_numbers(cls, data: Any) -> Any:
        values = cast("dict[str, Any]", data)
        fields = cls.model_fields
        return {k: _number_or_default(k, fields[k], v) for k, v in values.items() if k in fields}


class HomeSettings(_Group):
    VERIDICAL_HOME: Path = Path(".veridical")

    @property
    def path(self) -> Path:
        """Absolute folder below which everything written at run time lives."""
        return self.VERIDICAL_HOME.expanduser().absolute()


class StoreSettings(_Group):
    MONGODB_URI: str = ""
    MONGODB_DB: str = "veridical"
    DISCOVERY_CHECKPOINT_RETENTION: float = Field(
        default=CHECKPOINT_RETENTION.total_seconds(), ge=1, le=MOST_SECONDS
    )
    """Seconds that a run's checkpoints are kept; must exceed DISCOVERY_MAX_DURATION, or a run's
    first checkpoints expire while it works."""


class VectorSettings(_Group):
    QDRANT_URL: str = ""
    QDRANT_API_KEY: str = ""
    EMBEDDING_BASE_URL: str = ""
    EMBEDDING_API_KEY: str = ""
    EMBEDDING_MODEL: str = ""


class ModelSettings(_Group):
    """Which model, and how a call to it is retried."""

    ANTHROPIC_API_KEY: str = ""
    ANTHROPIC_BASE_URL: str = ""
    OPENAI_API_KEY: str = ""
    OPENAI_BASE_URL: str = ""
    LLM_PROVIDER: Literal["", "anthropic", "openai", "offline"] = ""
    LLM_MODEL: str = ""
    LLM_TIMEOUT: float = Field(default=300.0, gt=0)
    """Seconds for one call."""
    LLM_RETRY_MAX_ATTEMPTS: int = 3
    LLM_RETRY_BASE_BACKOFF: float = Field(default=5.0, ge=0)
    """Seconds; doubled each time, capped at 60, jittered by a quarter."""
    LLM_REQUEST_DELAY_MS: int = Field(default=0, ge=0)


class WarehouseSettings(_Group):
    WAREHOUSE_MAX_ROWS: int = Field(default=10_000, gt=0)
    WAREHOUSE_MAX_BYTES: int = Field(default=64 * 1024 * 1024, gt=0)
    WAREHOUSE_TIMEOUT: float = Field(default=300.0, gt=0)
    """Seconds for one query; then it is cancelled in the warehouse."""
    LIST_TABLES_TIMEOUT_SECONDS: float = Field(default=120.0, gt=0)


class ExplorationSettings(_Group):
    EXPLORATION_MAX_OUTPUT_TOKENS: int = Field(default=4096, gt=0)
    DISCOVERY_MAX_DURATION: float = Field(
        default=timedelta(hours=24).total_seconds(), le=MOST_SECONDS
    )
    """Seconds for the whole run; 0 means none. A negative one counts as unreadable."""

    @field_validator("DISCOVERY_MAX_DURATION")
    @classmethod
    def _never_negative(cls, value: float) -> float:
        if value >= 0:
            return value
        default = timedelta(hours=24).total_seconds()
        log.warning("DISCOVERY_MAX_DURATION=%r is negative; using the default %s", value, default)
        return default


class AnalysisSettings(_Group):
    ANALYSIS_MIN_OUTPUT_TOKENS: int = Field(default=8192, gt=0)
    ANALYSIS_PARSE_MAX_RETRIES: int = Field(default=1, ge=0)
    RECOMMENDATION_PARSE_MAX_RETRIES: int = Field(default=1, ge=0)


class ValidationSettings(_Group):
    """Section A.2 of the reference facts, and the settings of the design's decision 2."""

    VALIDATION_REFUTER_ENABLED: Flag = True
    VALIDATION_MAX_INSIGHTS_PER_RUN: int = Field(default=30, ge=0)
    VALIDATION_MAX_RECOMMENDATIONS_PER_RUN: int = Field(default=15, ge=0)
    VALIDATION_VERIFIER_MAX_ROUNDS: int = Field(default=8, ge=0)
    VALIDATION_VERIFIER_TOKEN_CAP: int = Field(default=30_000, ge=0)
    VALIDATION_VERIFIER_MAX_OUTPUT: int = Field(default=4_000, gt=0)
    VALIDATION_REFUTER_MAX_ROUNDS: int = Field(default=6, ge=0)
    VALIDATION_REFUTER_TOKEN_CAP: int = Field(default=20_000, ge=0)
    VALIDATION_REFUTER_MAX_OUTPUT: int = Field(default=3_000, gt=0)
    VALIDATION_BUNDLE_SAMPLE_ROWS: int = Field(default=50, gt=0)
    VALIDATION_BUNDLE_CELL_CHAR_CAP: int = Field(default=200, gt=0)
    VALIDATION_REC_STEPS_TOKEN_BUDGET: int = Field(default=12_000, ge=0)
    VALIDATION_ESTIMATE_TOKEN_RATIO: float = Field(default=3.5, gt=0, allow_inf_nan=False)
    VALIDATION_MAX_READ_STEP_ROWS: int = Field(default=200, gt=0)
    VALIDATION_NUMERIC_TOLERANCE: float = Field(default=0.20, ge=0, lt=1)
    VALIDATION_MIN_SAMPLE_SIZE: int = Field(default=30, ge=0)
    VALIDATION_EVIDENCE_PROVENANCE: Literal["enforce", "record", "off"] = "enforce"
    VALIDATION_CONCURRENCY: int = Field(default=1, ge=1, le=64)


class Settings:
    """All groups, read from the environment once. Refusals come out as ``BadRequest``."""

    def __init__(self) -> None:
        self.home = HomeSettings()
        self.store = StoreSettings()
        self.vectors = VectorSettings()
        self.model = ModelSettings()
        self.warehouse = WarehouseSettings()
        self.exploration = ExplorationSettings()
        self.analysis = AnalysisSettings()
        self.validation = ValidationSettings()
        self._check()

    def _check(self) -> None:
        from pipeline.errors import BadRequest

        kept = self.store.DISCOVERY_CHECKPOINT_RETENTION
        longest = self.exploration.DISCOVERY_MAX_DURATION
        if kept <= longest:
            raise BadRequest(
                f"DISCOVERY_CHECKPOINT_RETENTION ({timedelta(seconds=kept)}) must exceed "
                f"DISCOVERY_MAX_DURATION ({timedelta(seconds=longest)}), or a run's first "
                "checkpoints expire while it works; raise them together"
            )

    @classmethod
    def load(cls) -> Self:
        from pydantic import ValidationError

        from pipeline.errors import BadRequest

        try:
            return cls()
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            value, why = first["input"], first["msg"]
            raise BadRequest(f"the setting {name}={value!r} is refused: {why}") from error
