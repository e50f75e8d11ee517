"""Every collection and every index, in one place (reference facts, B.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeline.schema.fingerprint import SCHEMA_TTL
from pipeline.settings import CHECKPOINT_RETENTION

VECTOR_RETENTION = timedelta(days=30)
"""A vector is named by the text that it stands for, so it never becomes wrong, only unused."""

UP, DOWN = 1, -1
ACTIVE = ("pending", "running")


@dataclass(frozen=True, slots=True)
class Index:
    """``where`` makes it partial; ``expire_after`` makes it delete documents by age."""

    keys: Sequence[tuple[str, int]]
    name: str
    unique: bool = False
    where: Mapping[str, Any] | None = None
    expire_after: timedelta | None = None


def _by(*keys: str | tuple[str, int], unique: bool = False) -> Index:
    pairs = tuple(key if isinstance(key, tuple) else (key, UP) for key in keys)
    return Index(pairs, "_".join(f"{field}_{order}" for field, order in pairs), unique)


def indexes(retention: timedelta = CHECKPOINT_RETENTION) -> dict[str, list[Index]]:
    """By collection. ``retention`` is how long a run's checkpoints are kept."""
    standalone = [_by("project_id", ("created_at", DOWN)), _by("discovery_id"), _by("run_id")]
    return {
        "projects": [
            _by(("created_at", DOWN)),
            _by("domain"),
            _by("status"),
            Index(
                (("schema_index_status", UP), ("updated_at", UP)),
                "schema_index_work",
                where={"schema_index_status": {"$exists": True}},
            ),
        ],
        "discoveries": [
            _by("project_id", ("discovery_date", DOWN)),
            _by("project_id"),
            _by(("created_at", DOWN)),
            _by("run_id"),
        ],
        "discovery_runs": [
            _by("project_id", ("started_at", DOWN)),
            _by("status"),
            _by("status", "completion_hooks_fired_at", "started_at"),
            # The lock: at most one active run per project.
            Index(
                (("project_id", UP),),
                "uniq_active_run",
                unique=True,
                where={"status": {"$in": list(ACTIVE)}},
            ),
        ],
        "discovery_run_steps": [_by("run_id", "timestamp"), _by("run_id", "_id")],
        "discovery_exploration_steps": [
            _by("discovery_id", "step"),
            _by("project_id", "created_at"),
        ],
        "discovery_analysis_steps": [_by("discovery_id", "run_at")],
        "discovery_validation_results": [_by("discovery_id", "validated_at")],
        "discovery_recommendation_log": [_by("discovery_id", unique=True)],
        "discovery_checkpoints": [
            Index((("run_id", UP), ("step_number", UP)), "uq_run_step", unique=True),
            Index((("created_at", UP),), "ttl_discovery_checkpoint", expire_after=retention),
        ],
        "discovery_analysis_checkpoints": [
            Index((("run_id", UP), ("area_id", UP)), "uq_run_area", unique=True),
            Index((("created_at", UP),), "ttl_analysis_checkpoint", expire_after=retention),
        ],
        "feedback": [
            _by("discovery_id"),
            _by("project_id"),
            _by("discovery_id", "target_type", "target_id", unique=True),
        ],
        "project_context": [_by("project_id", unique=True), _by("updated_at")],
        "project_schema_cache": [
            _by("project_id", "datasource"),
            _by("project_id", "datasource", "table"),
            Index((("cached_at", UP),), "ttl_schema_cache", expire_after=SCHEMA_TTL),
        ],
        "project_schema_vectors": [
            _by("project_id"),
            Index((("cached_at", UP),), "ttl_schema_vectors", expire_after=VECTOR_RETENTION),
        ],
        "project_schema_index_runs": [
            _by("project_id", "finished"),
            _by("project_id", "datasource", "finished"),
        ],
        "project_key_pairs": [
            _by("project_id"),
            Index((("measured_at", UP),), "ttl_key_pairs", expire_after=SCHEMA_TTL),
        ],
        "project_schema_index_progress": [_by("project_id", unique=True)],
        "insights": [
            *standalone,
            _by("project_id", "analysis_area"),
            _by("project_id", "severity"),
            _by("embedding_model"),
        ],
        "recommendations": [
            *standalone,
            _by("project_id", "recommendation_category"),
            _by("embedding_model"),
        ],
    }
