"""What came of one action, and the message that tells the model. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from pipeline import prompting
from pipeline.ports import QueryResult
from pipeline.records import (
    ExplorationStep,
    Quality,
    StepAction,
    Table,
    TableHit,
    TableKind,
)
from pipeline.sql.rows import rows_of

SHOWN_ROWS = 10
SHOWN_CELLS = 1_000
CELL_CHARS = 400
RESULT_CHARS = 40_000
"""About the most that the cells of one result message hold together."""
LOGGED_ROWS = 200
LOGGED_BYTES = 2 * 1024 * 1024
LOOKUP_COLUMNS = 50
LOOKUP_SAMPLES = 3
LOOKUP_CHARS = 80
ERROR_CHARS = 600
MEMBER_CHARS = 4_000
"""Of a found cube, whose members are told nowhere else but in the catalog."""


@dataclass(slots=True)
class Outcome:
    """One executed action."""

    action: StepAction
    words: str
    """What is said to the model before the block."""
    payload: dict[str, Any]
    """The block's keys between ``action`` and ``steps_left``, in order."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the step record that this action fills."""
    result: QueryResult | None = None
    notice: str = ""
    """One line for the live feed."""
    executed: str = ""
    """The datasource that a query went to."""

    def message(self, step: int, steps_left: int) -> str:
        """The user message that answers the action."""
        head = {"step": step, "action": self.action.value}
        block = prompting.block("step_result", head | self.payload | {"steps_left": steps_left})
        return f"{self.words}\n\n{block}"


def failure(action: StepAction, error: str, words: str, **payload: Any) -> Outcome:
    """An action that gave nothing, with the reason."""
    return Outcome(
        action=action,
        words=words,
        payload={"ok": False, "error": clip(error, ERROR_CHARS)} | payload,
        fields={"error": error},
        notice=clip(error, ERROR_CHARS),
    )


def query_payload(result: QueryResult, purpose: str, *, healed: bool) -> dict[str, Any]:
    """Caveats and the true row count first, then the first rows as lists."""
    table = result.table
    names = _shown(table.column_names, table.num_rows)
    return _payload(
        purpose,
        (result.row_count, result.duration_ms),
        result.caveats,
        table.column_names,
        rows_of(table.select(names), 0, SHOWN_ROWS),
        healed=healed,
    )


def kept_payload(step: ExplorationStep) -> dict[str, Any]:
    """``query_payload`` of a step whose first rows alone have survived."""
    return _payload(
        step.query_purpose,
        (step.row_count, step.execution_time_ms),
        step.quality,
        step.result_columns,
        step.query_result[:SHOWN_ROWS],
        healed=step.fixed,
    )


def _payload(
    purpose: str,
    figures: tuple[int, int],
    caveats: Sequence[Quality],
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    healed: bool,
) -> dict[str, Any]:
    names = _shown(columns, len(rows))
    limit = max(40, min(CELL_CHARS, RESULT_CHARS // max(1, len(rows) * len(names))))
    payload: dict[str, Any] = {
        "ok": True,
        "purpose": clip(purpose, ERROR_CHARS),
        "row_count": figures[0],
        "duration_ms": figures[1],
        "healed": healed,
        "caveats": [stated(caveat) for caveat in caveats],
        "columns": names,
        "rows": [[clip_value(row.get(name), limit) for name in names] for row in rows],
    }
    if len(columns) > len(names):
        payload["more_columns"] = len(columns) - len(names)
    return payload


def _shown(columns: Sequence[str], rows: int) -> list[str]:
    """As many of the columns as one message takes with so many rows."""
    return list(columns[: SHOWN_CELLS // max(1, min(SHOWN_ROWS, rows))])


def finished(summary: str) -> Outcome:
    """A done that stands. Nothing is said to the model any more."""
    notice = clip(f"Exploration finished: {summary}".rstrip(": "), ERROR_CHARS)
    return Outcome(StepAction.COMPLETE, "", {}, notice=notice)


def rejected(reason: str) -> Outcome:
    """A done that came too early, with the rule that refused it."""
    words = "The exploration is not finished yet. Go on."
    outcome = failure(StepAction.COMPLETE_REJECTED, reason, words)
    outcome.fields = {"reject_reason": reason}
    return outcome


def stated(caveat: Quality) -> dict[str, str]:
    return {"kind": caveat.kind.value, "detail": caveat.detail}


def logged_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The first rows, normalised, for the step's record: 200, fewer when they are big."""
    count = min(LOGGED_ROWS, table.num_rows)
    while count and table.slice(0, count).nbytes > LOGGED_BYTES:
        count //= 2
    return rows_of(table, 0, count) if count else []


def table_payload(table: Table, *, several: bool) -> dict[str, Any]:
    """A looked-up table: at most 50 columns and 3 sample rows of values up to 80 characters."""
    shown = table.columns[:LOOKUP_COLUMNS]
    names = {column.name for column in shown}
    payload: dict[str, Any] = {"table": table.name}
    if several:
        payload["datasource_id"] = table.datasource_id
    payload["row_count"] = table.row_count
    if table.description:
        payload["description"] = clip(table.description, ERROR_CHARS)
    payload["columns"] = [
        {"name": c.name, "type": c.type, "nullable": c.nullable, "category": c.category.value}
        for c in shown
    ]
    if len(table.columns) > len(shown):
        payload["more_columns"] = len(table.columns) - len(shown)
    payload["sample_rows"] = [
        {key: clip_value(value, LOOKUP_CHARS) for key, value in row.items() if key in names}
        for row in table.sample_rows[:LOOKUP_SAMPLES]
    ]
    return payload


def hit_payload(hit: TableHit) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "table": hit.table,
        "datasource_id": hit.datasource_id,
        "score": round(hit.score, 3),
        "row_count": hit.row_count,
        "column_count": hit.column_count,
        "description": clip(hit.description, ERROR_CHARS),
    }
    if hit.kind is not TableKind.TABLE:
        payload |= {"kind": hit.kind.value, "description": clip(hit.description, MEMBER_CHARS)}
    return payload


def not_found_payload(missing: Mapping[str, Any], owners: Sequence[str]) -> dict[str, Any]:
    """A name that a lookup did not find, with near names and the datasources that have it."""
    name = clip(str(missing.get("table", "")), ERROR_CHARS)
    payload = {"table": name, "near": missing.get("near", [])}
    return payload | ({"found_in": list(owners)} if owners else {})


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters, an ellipsis in place of the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clip_value(value: Any, limit: int) -> Any:
    """A normalised value whose text, or JSON text when nested, is at most ``limit`` long."""
    if isinstance(value, str):
        return clip(value, limit)
    if not isinstance(value, list | dict):
        return value
    nested = cast("Any", value)
    text = json.dumps(nested, ensure_ascii=False)
    return clip(text, limit) if len(text) > limit else nested
