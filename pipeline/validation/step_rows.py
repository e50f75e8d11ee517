"""Pages of the rows that exploration steps returned, read from memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.errors import ToolError
from pipeline.ports import QueryResult, StepPage
from pipeline.records import ExplorationStep
from pipeline.sql.rows import rows_of


class StepSnapshot:
    """``StepRows`` over a run's steps. Both arguments are read at call time and may still grow.

    A step whose full result is in ``results`` is read from there; one that came back from a
    checkpoint or a log has only the rows it kept, and a page beyond those says so.
    """

    def __init__(
        self, steps: Sequence[ExplorationStep], results: Mapping[int, QueryResult]
    ) -> None:
        self._steps = steps
        self._results = results

    def load(self, steps: Sequence[ExplorationStep], results: Mapping[int, QueryResult]) -> None:
        """Serve another exploration from now on."""
        self._steps, self._results = steps, results

    async def read(self, step_id: int, offset: int, limit: int) -> StepPage:
        """Rows ``offset`` to ``offset + limit``. Raises ``ToolError`` for an unknown step."""
        step = next((s for s in self._steps if s.step == step_id and s.succeeded), None)
        if step is None:
            known = ", ".join(str(s.step) for s in self._steps if s.succeeded)
            raise ToolError(f"step {step_id} is no query step; steps with rows: {known or 'none'}")
        offset = max(0, offset)
        result = self._results.get(step_id)
        if result is not None:
            total, kept = max(step.row_count, result.table.num_rows), result.table.num_rows
            columns = list(result.table.column_names)
            rows = rows_of(result.table, offset, limit)
        else:
            total, kept = step.row_count, len(step.query_result)
            rows = step.query_result[offset : offset + limit]
            columns = list(step.result_columns) or (list(rows[0]) if rows else [])
        beyond_all = offset >= total and offset > 0
        return StepPage(
            columns=columns,
            rows=rows,
            total_rows=total,
            truncated=beyond_all or offset + len(rows) < total,
            rows_retained=not (kept < total and offset + limit > kept and offset < total),
        )
