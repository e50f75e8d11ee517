"""What an agent reads of a step: the whole shared result, or what a checkpoint kept of it."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from actors.validators import SharedStep, SharedStepRows
from pipeline.errors import ToolError
from pipeline.records import ExplorationStep, StepAction

NUMBERS = [{"n": n} for n in range(120)]
RESUMED = ExplorationStep(
    step=2,
    timestamp=datetime(2026, 1, 1, tzinfo=UTC),
    action=StepAction.QUERY_DATA,
    query_result=NUMBERS[:50],
    result_columns=["n"],
    row_count=120,
)


async def rows() -> SharedStepRows:
    shared = SharedStepRows()
    whole, kept = (asyncio.get_running_loop().create_future() for _ in range(2))
    whole.set_result(pa.Table.from_pylist(NUMBERS))
    kept.set_result(RESUMED)
    shared.steps = {1: SharedStep(120, whole), 2: SharedStep(120, kept)}
    return shared


@pytest.mark.parametrize(
    ("step", "offset", "limit", "found", "truncated", "retained"),
    [
        (1, 0, 50, 50, True, True),
        (1, 100, 50, 20, False, True),
        (1, 120, 50, 0, True, True),
        (2, 0, 50, 50, True, True),
        (2, 10, 20, 20, True, True),
        (2, 40, 20, 10, True, False),
        (2, 50, 50, 0, True, False),
        (2, 200, 50, 0, True, True),
    ],
)
async def test_beyond_the_sample_of_a_resumed_step_there_are_no_rows_and_it_says_so(
    step: int, offset: int, limit: int, found: int, truncated: bool, retained: bool
) -> None:
    page = await (await rows()).read(step, offset, limit)
    expected: list[dict[str, Any]] = NUMBERS[offset : offset + limit]
    assert page.rows == expected[:found]
    assert (page.columns, page.total_rows) == (["n"], 120)
    assert (page.truncated, page.rows_retained) == (truncated, retained)


async def test_an_unknown_step_is_named_with_those_that_have_rows() -> None:
    with pytest.raises(ToolError, match="steps with rows: 1, 2"):
        await (await rows()).read(3, 0, 50)
