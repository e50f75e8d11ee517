"""Answers the query action: pick the datasource, run with self-healing, describe the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from pipeline.errors import QueryFailed, ToolError, UnsafeSql, WarehouseUnavailable
from pipeline.exploration.actions import Action
from pipeline.exploration.datasources import chosen, foreign_table
from pipeline.exploration.outcome import (
    Outcome,
    clip,
    failure,
    kept_payload,
    logged_rows,
    query_payload,
)
from pipeline.ports import SchemaCatalog, Warehouse
from pipeline.records import ExplorationStep, FixAttempt, StepAction
from pipeline.sql.healing import Healed, Healer

DigestOf = Callable[[pa.Table], BaseModel | dict[str, Any]]


@dataclass(slots=True)
class QueryDesk:
    """One run's queries, and how many of them succeeded."""

    warehouses: Mapping[str, Warehouse]
    """The primary first."""
    healers: Mapping[str, Healer]
    """By datasource id."""
    catalog: SchemaCatalog
    digest: DigestOf | None = None
    total: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)

    async def run(self, action: Action, step: int) -> Outcome:
        """Run a query action. Raises ``WarehouseUnavailable`` for the primary only."""
        self.total += 1
        try:
            warehouse = chosen(action.datasource_id, self.warehouses)
        except ToolError as error:
            return self._failure(action, "", str(error), ())
        source = warehouse.info.id
        advice = ""
        if len(self.warehouses) > 1:
            advice = foreign_table(action.query, warehouse, await self.catalog.tables())
        if advice:
            return self._failure(action, source, advice, ())
        try:
            healed = await self.healers[source].run(action.query, step=step)
        except (UnsafeSql, QueryFailed) as error:
            return self._failure(action, source, error.reason, error.fix_history)
        except WarehouseUnavailable as error:
            if warehouse is next(iter(self.warehouses.values())):
                raise
            return self._failure(action, source, f"datasource {source!r}: {error}", ())
        return self._success(action, source, healed)

    def again(self, step: ExplorationStep) -> Outcome:
        """The answer to a query of an earlier attempt, from what its step kept. Nothing is run."""
        self.total += 1
        if step.error:
            self.failed += 1
            return _failed(step.error, step.query, step.fix_attempts)
        payload = kept_payload(step)
        if len(self.warehouses) > 1:
            payload["datasource_id"] = step.warehouse_id
        return Outcome(StepAction.QUERY_DATA, _described(payload), payload)

    def _success(self, action: Action, source: str, healed: Healed) -> Outcome:
        result = healed.result
        payload = query_payload(result, action.query_purpose, healed=healed.repairs > 0)
        if len(self.warehouses) > 1:
            payload["datasource_id"] = source
        fields: dict[str, Any] = {
            "query": result.sql,
            "query_result": logged_rows(result.table),
            "result_columns": result.table.column_names,
            "row_count": result.row_count,
            "execution_time_ms": result.duration_ms,
            "compact_result": self._digest(result.table),
            "fix_attempts": healed.repairs,
            "fixed": healed.repairs > 0,
            "fix_history": list(healed.fix_history),
            "quality": list(result.caveats),
            "warehouse_id": source,
            "query_purpose": action.query_purpose,
        }
        return Outcome(
            action=StepAction.QUERY_DATA,
            words=_described(payload),
            payload=payload,
            fields=fields,
            result=result,
            notice=clip(action.query_purpose or action.rationale, 200) or "Ran a query",
        )

    def _failure(
        self, action: Action, source: str, error: str, history: tuple[FixAttempt, ...]
    ) -> Outcome:
        self.failed += 1
        applied = [attempt.sql_after for attempt in history if not attempt.fixer_error]
        sql = applied[-1] if applied else action.query
        outcome = _failed(error, sql, len(applied))
        outcome.fields |= {
            "query": sql,
            "fix_attempts": len(applied),
            "fix_history": list(history),
            "warehouse_id": source,
            "query_purpose": action.query_purpose,
        }
        return outcome

    def _digest(self, table: pa.Table) -> dict[str, Any] | None:
        if self.digest is None:
            return None
        made = self.digest(table)
        return made.model_dump(mode="json") if isinstance(made, BaseModel) else made


def _failed(error: str, sql: str, repairs: int) -> Outcome:
    tried = f" after {repairs} repairs" if repairs else ""
    words = f"The query failed{tried}. Do not send it again; take a different approach."
    return failure(StepAction.QUERY_DATA, error, words, sql=clip(sql, 2_000))


def _described(payload: Mapping[str, Any]) -> str:
    count, rows = payload["row_count"], payload["rows"]
    kinds = {caveat["kind"] for caveat in payload["caveats"]}
    parts = [f"At least {count} rows." if "truncated" in kinds else f"{count} rows."]
    if payload["healed"]:
        parts.append("The query was repaired before it ran.")
    if kinds:
        parts.append(f"Mind the caveats ({', '.join(sorted(kinds))}): not the whole answer.")
    if count > len(rows):
        parts.append(f"The first {len(rows)} rows follow.")
    return " ".join(parts)
