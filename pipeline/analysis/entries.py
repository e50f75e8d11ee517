"""How a step appears in an analysis prompt: its question, its SQL and the digest of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.analysis.digest import digest
from pipeline.prompting import to_json
from pipeline.records import ExplorationStep


def entry(step: ExplorationStep) -> dict[str, Any]:
    """One element of ``{{QUERY_RESULTS}}``. ``row_count`` is the step's, which is authoritative
    even where only a sample of its rows is kept."""
    return {
        "step": step.step,
        "action": step.action.value,
        "query": step.query,
        "query_purpose": step.query_purpose,
        "thinking": step.thinking,
        "row_count": step.row_count,
        "error": step.error,
        "query_result": step.compact_result or _digest_of_kept_rows(step),
        "quality_caveats": [q.model_dump(mode="json") for q in step.quality],
    }


def _digest_of_kept_rows(step: ExplorationStep) -> dict[str, Any]:
    names = step.result_columns or list(dict.fromkeys(k for row in step.query_result for k in row))
    columns = [_column([row.get(name) for row in step.query_result]) for name in names]
    payload = digest(pa.table(columns, names=names)).as_json()
    return payload | {"row_count": step.row_count or len(step.query_result)}


def _column(values: list[Any]) -> pa.Array[Any]:
    """Kept rows are JSON values; a column of several kinds is shown as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([v if v is None or isinstance(v, str) else to_json(v) for v in values])


def rendered_chars(entries: Sequence[Mapping[str, Any]]) -> int:
    """Length of the entries as one JSON array in a prompt."""
    return rendered_chars_of([len(to_json(one)) for one in entries])


def rendered_chars_of(sizes: Sequence[int]) -> int:
    """The same from the lengths of the single entries: brackets and separators added."""
    return 2 + sum(sizes) + 2 * max(0, len(sizes) - 1)
