"""From a datasource's configuration to a warehouse that can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from adapters.warehouses.duckdb import DuckDbWarehouse
from pipeline.errors import WarehouseUnavailable
from pipeline.ports import Warehouse
from pipeline.records import WarehouseConfig
from pipeline.schema.fingerprint import source_fingerprint
from pipeline.settings import WarehouseSettings

PROVIDERS = ("duckdb", "cube")


class OpenWarehouse(Warehouse, Protocol):
    """A warehouse with its life cycle."""

    async def ping(self) -> None:
        """Reach it and run the smallest query. Raises ``WarehouseUnavailable``."""
        ...

    async def close(self) -> None:
        """Cancel what runs and let go of the connection. May be called twice."""
        ...


def open_warehouse(config: WarehouseConfig, settings: WarehouseSettings) -> OpenWarehouse:
    """The warehouse of one datasource; neither disk nor network is touched before the first
    question, so that this may be called on an event loop. ``ping`` says whether it can be reached.

    Raises ``WarehouseUnavailable`` for a provider that does not exist and for settings that cannot
    work.
    """
    provider = config.provider.strip().lower()
    if provider == "duckdb":
        return DuckDbWarehouse(config, settings)
    if provider == "cube":
        from adapters.warehouses.cube import CubeWarehouse  # its client is slow to import

        return CubeWarehouse(config, settings)
    known = ", ".join(PROVIDERS)
    raise WarehouseUnavailable(
        f"datasource {config.id!r}: there is no adapter for the provider {config.provider!r}; "
        f"set its provider to one of: {known}"
    )


async def fingerprints(configs: Sequence[WarehouseConfig]) -> dict[str, str]:
    """By datasource id, what must be the same for a kept schema to count. A DuckDB file counts with
    its size and its age, so that tables that were added to it are seen."""
    return await asyncio.to_thread(
        lambda: {config.id: source_fingerprint(config, _state(config)) for config in configs}
    )


def _state(config: WarehouseConfig) -> str:
    path = str(config.config.get("path") or "").strip()
    if config.provider.strip().lower() != "duckdb" or not path:
        return ""
    file = Path(path).expanduser()
    return " ".join(_stamp(each) for each in (file, file.with_name(f"{file.name}.wal")))


def _stamp(file: Path) -> str:
    try:
        found = file.stat()
    except OSError:
        return "-"
    return f"{found.st_size}:{found.st_mtime_ns}"
