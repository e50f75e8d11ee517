"""When what is kept of a schema still holds: digests of a datasource, of a table, of a line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pipeline.records import Table, WarehouseConfig

STATE_DIGITS = 32
SCHEMA_TTL = timedelta(days=7)
"""What was read is read anew after this long."""


def source_fingerprint(config: WarehouseConfig, state: str = "") -> str:
    """SHA-256 over everything that decides what a datasource shows: provider, configuration,
    datasets and filter. ``state`` is what the adapter can tell cheaply of the data itself, such as
    the size and age of a file: it makes a second digest after a dot, unless it is "".
    """
    configured = _digest(
        {
            "provider": config.provider.strip().lower(),
            "project": config.project_id,
            "location": config.location,
            "config": config.config,
            "datasets": sorted(config.datasets),
            "filter": [config.filter_field, config.filter_value],
            "shared": sorted(config.shared_tables),
        }
    )
    return f"{configured}.{_digest([state])[:STATE_DIGITS]}" if state else configured


def same_configuration(left: str, right: str) -> bool:
    """True when two fingerprints of a datasource differ in the state of its data at most."""
    return left.partition(".")[0] == right.partition(".")[0]


def table_fingerprint(table: Table) -> str:
    """SHA-256 over a table's name and its columns; not over its rows or its description."""
    columns = [(c.name, c.type, c.nullable, c.category.value) for c in table.columns]
    return _digest([table.name, table.kind.value, columns])


def line_key(embedder_id: str, line: str) -> str:
    """Names the vector of a line by one embedder."""
    return _digest([embedder_id, line])


def _digest(value: Mapping[str, Any] | list[Any]) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
