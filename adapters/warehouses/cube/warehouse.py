"""A Cube deployment as a warehouse: measures and dimensions are catalogued instead of tables, and a
query is a JSON object instead of SQL."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from adapters.warehouses.capping import Cap, collect
from adapters.warehouses.cube.api import CubeApi
from adapters.warehouses.cube.caveats import caveats_of, row_cap
from adapters.warehouses.cube.model import CubeModel, read_model
from adapters.warehouses.cube.query import read_query
from adapters.warehouses.cube.result import table_of
from pipeline.errors import QueryFailed, QueryTimeout, WarehouseUnavailable
from pipeline.ports import QueryResult, WarehouseInfo
from pipeline.records import Shape, Table, WarehouseConfig
from pipeline.settings import WarehouseSettings

LANGUAGE = "Cube JSON query"
SERVER_LIMIT = 50_000
"""The most rows that Cube gives for one query, unless it is set up otherwise."""
LIMIT_EXCEEDED = "limit has been exceeded"
JSON_FACTOR = 4
"""JSON repeats the names of the members in every row."""


class CubeWarehouse:
    """The ``Warehouse`` port over the Cube REST API.

    ``config.config``: ``url`` (required; ``http://host:4000``, or with its base path) and ``token``
    (sent as the ``Authorization`` header), or ``token_env``, the name of the environment variable
    that holds it. ``datasets`` may name the cubes and views to read.
    Cancelling a query stops polling for it; Cube drops a query that nobody polls for.
    """

    def __init__(self, config: WarehouseConfig, settings: WarehouseSettings) -> None:
        """Raises ``WarehouseUnavailable`` without a url or without the token that ``token_env``
        names, and with a row filter: no filter could be enforced on measures that are computed
        elsewhere."""
        _check(config)
        self._settings = settings
        self._cap = Cap(settings.WAREHOUSE_MAX_ROWS, settings.WAREHOUSE_MAX_BYTES)
        self._only = tuple(config.datasets)
        self._model: CubeModel | None = None
        self._api = CubeApi(
            config.id,
            str(config.config["url"]),
            _token(config),
            JSON_FACTOR * settings.WAREHOUSE_MAX_BYTES,
        )
        self._info = WarehouseInfo(
            id=config.id,
            dialect="",
            datasets=self._only,
            label=config.label,
            shape=Shape.CUBE,
            query_language=LANGUAGE,
            anchors=config.anchors,
        )

    @property
    def info(self) -> WarehouseInfo:
        return self._info

    async def ping(self) -> None:
        """Read the data model."""
        await self._read_model()

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        """Check and run one JSON query; ``max_rows`` may only lower the configured cap.

        Raises ``QueryFailed`` with what to write instead, ``QueryTimeout`` or
        ``WarehouseUnavailable``.
        """
        asked = read_query(sql, self._model or await self._read_model())
        cap = self._cap.lowered(max_rows)
        started = time.monotonic()
        limit = min(asked.limit or SERVER_LIMIT, cap.rows + 1, SERVER_LIMIT)
        try:
            async with asyncio.timeout(self._settings.WAREHOUSE_TIMEOUT):
                answer = await self._api.load({**asked.body, "limit": limit}, asked.text)
        except QueryFailed as error:
            if LIMIT_EXCEEDED not in error.reason.lower():
                raise
            raise QueryFailed(
                f"{error.reason.rstrip('.')}: the deployment gives fewer rows than the {limit} "
                'asked for; write a smaller "limit" into the query, such as 1000',
                asked.text,
            ) from error
        except TimeoutError:
            raise QueryTimeout(
                f"the query ran longer than {self._settings.WAREHOUSE_TIMEOUT:g} s and was given "
                "up; ask for less: fewer members, a shorter dateRange, a coarser granularity",
                asked.text,
            ) from None
        whole = await asyncio.to_thread(table_of, asked.columns, answer.rows)
        table, capped = collect(whole.schema, whole.to_batches(), cap)
        cut = capped or row_cap(asked, table.num_rows, limit)
        return QueryResult(
            sql=asked.text,
            table=table,
            row_count=table.num_rows,
            duration_ms=int((time.monotonic() - started) * 1000),
            caveats=caveats_of(asked, answer.query, answer.rows, cut=cut),
        )

    async def tables(self) -> list[Table]:
        """The cubes and views; the data model is read anew each time."""
        model = await self._read_model()
        return [cube.table(self._info.id) for cube in model.cubes]

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        """None: a cube has no rows of its own."""
        return []

    async def close(self) -> None:
        """Let go of the connections."""
        await self._api.close()

    async def _read_model(self) -> CubeModel:
        try:
            async with asyncio.timeout(self._settings.LIST_TABLES_TIMEOUT_SECONDS):
                meta = await self._api.meta()
        except TimeoutError:
            raise WarehouseUnavailable(
                f"the Cube API of datasource {self._info.id!r} gave no data model within "
                f"{self._settings.LIST_TABLES_TIMEOUT_SECONDS:g} s; check it, or raise "
                "LIST_TABLES_TIMEOUT_SECONDS"
            ) from None
        self._model = read_model(meta, self._only)
        return self._model


def _check(config: WarehouseConfig) -> None:
    if not str(config.config.get("url") or "").strip():
        raise WarehouseUnavailable(
            f"datasource {config.id!r} names no Cube deployment; set its config to "
            '{"url": "http://host:4000", "token_env": "CUBE_API_TOKEN"}'
        )
    if config.filter_field.strip():
        raise WarehouseUnavailable(
            f"datasource {config.id!r} is a cube and cannot carry the row filter "
            f"{config.filter_field.strip()!r}; take the filter away, and restrict what its token "
            "may see instead"
        )


def _token(config: WarehouseConfig) -> str:
    """The token itself, else what the environment variable holds that is named; may be empty."""
    given = str(config.config.get("token") or "").strip()
    variable = str(config.config.get("token_env") or "").strip()
    if given or not variable:
        return given
    held = os.environ.get(variable, "").strip()
    if not held:
        raise WarehouseUnavailable(
            f"the token of datasource {config.id!r} is to come from the environment variable "
            f"{variable}, which is not set; set it where Veridical runs, before `veridical up`"
        )
    return held
