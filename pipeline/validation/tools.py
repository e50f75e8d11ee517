"""The tools of both agents: look up a schema, query the warehouse, read a step's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.errors import RunSuperseded, ToolError, VeridicalError
from pipeline.ports import QueryResult, SchemaCatalog, StepRows, Warehouse
from pipeline.records import Table
from pipeline.settings import ValidationSettings
from pipeline.sql.rows import INT64_MAX, rows_of
from pipeline.validation.bundle import Bundle, Row
from pipeline.validation.cells import cut, shown_rows
from pipeline.validation.envelope import Envelope, EnvelopeKind

DEFAULT_PAGE = 50
MAX_TABLES, MAX_COLUMNS, MAX_SAMPLES, SAMPLE_CHARS = 10, 50, 3, 80
NAME_CHARS = 200


class HealedQuery(Protocol):
    @property
    def result(self) -> QueryResult: ...


class QueryRunner(Protocol):
    """Runs one read-only query, repairing it if it can (``pipeline.sql.healing.Healer``)."""

    async def run(self, sql: str, *, step: int = 0) -> HealedQuery: ...


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool call came to."""

    payload: dict[str, Any]
    """For the model: cells cut, rows capped."""
    source: str
    """Names the rows for people."""
    rows: Sequence[Row] = ()
    """The shown rows, uncut: what evidence is compared with. Samples of a schema are none."""
    shown: Sequence[Row] = ()
    offset: int = 0
    beyond_retained: bool = False


class Tools(Protocol):
    async def call(self, envelope: Envelope, bundle: Bundle) -> ToolReply:
        """Serve one call. Raises ``ToolError`` with a text for the model."""
        ...


@dataclass(frozen=True, slots=True)
class _Ran:
    result: QueryResult


@dataclass(frozen=True, slots=True)
class Unhealed:
    """A ``QueryRunner`` that repairs nothing: for manual jobs and replays without a model."""

    warehouse: Warehouse

    async def run(self, sql: str, *, step: int = 0) -> _Ran:
        """Run ``sql`` once."""
        return _Ran(await self.warehouse.query(sql))


@dataclass(frozen=True)
class WarehouseTools:
    """The tools over a run's datasources. Stateless: any number of documents may share it."""

    queries: Mapping[str, QueryRunner]
    """By datasource id."""
    step_rows: StepRows
    catalog: SchemaCatalog | None = None
    """None: ``lookup_schema`` answers with an error."""
    settings: ValidationSettings = field(default_factory=ValidationSettings)

    async def call(self, envelope: Envelope, bundle: Bundle) -> ToolReply:
        """Serve one call. Raises ``ToolError``; only a lost run passes through as it is."""
        try:
            match envelope.kind:
                case EnvelopeKind.LOOKUP_SCHEMA:
                    return await self._lookup(envelope.body, bundle)
                case EnvelopeKind.QUERY_WAREHOUSE:
                    return await self._query(envelope.body, bundle)
                case EnvelopeKind.READ_STEP_ROWS:
                    return await self._read(envelope.body)
                case _:
                    raise ToolError(f"{envelope.kind} is not a tool")
        except (ToolError, RunSuperseded):
            raise
        except VeridicalError as error:
            raise ToolError(f"{envelope.kind} failed: {error}") from error

    async def _lookup(self, names: Sequence[str], bundle: Bundle) -> ToolReply:
        if self.catalog is None:
            raise ToolError("lookup_schema is not available here; use query_warehouse instead")
        asked = [cut(name, NAME_CHARS) for name in names[:MAX_TABLES]]
        found = await self.catalog.lookup(asked, bundle.warehouse.datasource_id)
        wide = any(len(table.columns) > MAX_COLUMNS for table in found.tables)
        payload = {
            "tool": EnvelopeKind.LOOKUP_SCHEMA.value,
            "tables": [_table(table) for table in found.tables],
            "not_found": found.not_found,
            "truncated": wide or len(names) > MAX_TABLES,
        }
        return ToolReply(payload, EnvelopeKind.LOOKUP_SCHEMA.value)

    async def _query(self, sql: str, bundle: Bundle) -> ToolReply:
        datasource = bundle.warehouse.datasource_id
        runner = self.queries.get(datasource)
        if runner is None:
            raise ToolError(f"query_warehouse cannot reach the datasource {datasource!r}")
        result = (await runner.run(sql, step=0)).result
        limit = self.settings.VALIDATION_BUNDLE_SAMPLE_ROWS
        rows = rows_of(result.table, 0, limit)
        shown = shown_rows(rows, self.settings.VALIDATION_BUNDLE_CELL_CHAR_CAP)
        capped = any(caveat.kind == "truncated" for caveat in result.caveats)
        payload = {
            "tool": EnvelopeKind.QUERY_WAREHOUSE.value,
            "sql": result.sql or sql,
            "row_count": result.row_count,
            "rows": shown,
            "truncated": capped or result.row_count > len(rows),
        }
        return ToolReply(payload, "query_warehouse", rows, shown)

    async def _read(self, page: Mapping[str, Any]) -> ToolReply:
        step_id = int(page["step_id"])
        offset = min(max(0, int(page.get("offset") or 0)), INT64_MAX)
        limit = int(page.get("limit") or 0)
        limit = min(limit if limit > 0 else DEFAULT_PAGE, self._max_rows)
        read = await self.step_rows.read(step_id, offset, limit)
        out_of_range = offset > 0 and offset >= read.total_rows
        rows = [] if out_of_range else read.rows[:limit]
        shown = shown_rows(rows, self.settings.VALIDATION_BUNDLE_CELL_CHAR_CAP)
        payload = {
            "tool": EnvelopeKind.READ_STEP_ROWS.value,
            "step_id": step_id,
            "offset": offset,
            "limit": limit,
            "rows": shown,
            "total_rows": read.total_rows,
            "truncated": out_of_range or read.truncated,
            "rows_retained": read.rows_retained,
        }
        return ToolReply(
            payload,
            f"read_step_rows step {step_id}",
            rows,
            shown,
            offset=offset,
            beyond_retained=not read.rows_retained,
        )

    @property
    def _max_rows(self) -> int:
        return self.settings.VALIDATION_MAX_READ_STEP_ROWS


def _table(table: Table) -> dict[str, Any]:
    columns = [
        {"name": cut(c.name, SAMPLE_CHARS), "type": cut(c.type, NAME_CHARS), "nullable": c.nullable}
        for c in table.columns[:MAX_COLUMNS]
    ]
    return {
        "table": table.name,
        "columns": columns,
        "row_count": table.row_count,
        "sample_rows": shown_rows(table.sample_rows[:MAX_SAMPLES], SAMPLE_CHARS),
    }
