# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# The driver's BSON functions are only partly typed.
"""No value that a warehouse can yield fails a save, and names survive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from adapters.store.client import encoded_size
from adapters.store.documents import (
    STEP_BYTES,
    from_document,
    rows_of,
    step_document,
    step_from,
    table_of,
    to_document,
)
from pipeline.errors import StoreUnavailable
from pipeline.records import ExplorationStep, FixAttempt, RunStatus

NewStep = Callable[..., ExplorationStep]


class Free(BaseModel):
    """A record with one field that holds anything."""

    id: str = "x"
    value: dict[str, Any] = Field(default_factory=dict)


def stored(value: Any) -> Any:
    """What comes back for a value after a trip through BSON."""
    document = bson.decode(bson.encode(to_document(Free(value={"v": value}))))
    return from_document(Free, document).value["v"]


deep: Any = "bottom"
for _ in range(300):
    deep = {"down": deep}

ODD_NAMES = {"a.b": 1, "$c": 2, "": 3, "n\0n": 4, "~p": 5}
TRIPS: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (2**63 - 1, 2**63 - 1),
    (-(2**63), -(2**63)),
    (2**63, str(2**63)),
    (-(2**63) - 1, str(-(2**63) - 1)),
    (10**40, str(10**40)),
    (1.5, 1.5),
    (float("inf"), float("inf")),
    ("a\0b", "a\0b"),
    ("half \ud83d pair", "half \\ud83d pair"),
    ("größe 🙂", "größe 🙂"),
    (date(2026, 1, 2), "2026-01-02"),
    (Decimal("1.10"), "1.10"),
    (RunStatus.FAILED, "failed"),
    ((1, 2), [1, 2]),
    (
        {"a.b": 1, "$c": 2, "": 3, "n\0n": 4, "~p": 5},
        {"a.b": 1, "$c": 2, "": 3, "n\0n": 4, "~p": 5},
    ),
    ({"$ref": 1, "$id": 2}, {"$ref": 1, "$id": 2}),
    ({"~pairs": [["a", 1]]}, {"~pairs": [["a", 1]]}),
    ({"plain": {"in.side": [{"$x": 1}]}}, {"plain": {"in.side": [{"$x": 1}]}}),
    ({"\ud800": 1}, {"\\ud800": 1}),
    ({1: "number"}, {"1": "number"}),
]


@pytest.mark.parametrize(("value", "comes_back"), TRIPS)
def test_values_survive_or_become_readable_text(value: Any, comes_back: Any) -> None:
    assert stored(value) == comes_back


def test_nesting_beyond_what_the_store_takes_becomes_text() -> None:
    node, levels = stored(deep), 0
    while isinstance(node, dict):
        node, levels = node["down"], levels + 1
    assert 70 < levels < 90
    assert node.startswith('{"down": {"down"')
    assert node.count("down") + levels == 300


names = st.text(max_size=6) | st.sampled_from(["a.b", "$x", "", "~pairs", "~missing", "_id"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


@given(st.lists(st.dictionaries(names, values, max_size=4), max_size=5))
def test_any_rows_can_be_stored_and_keep_their_names(rows: list[dict[str, Any]]) -> None:
    table = bson.decode(bson.encode(table_of(rows)))
    back = rows_of(table)
    assert [row.keys() for row in back] == [row.keys() for row in rows]
    assert bson.decode(bson.encode(table_of(back))) == table


def test_rows_are_kept_as_columns_and_rows() -> None:
    rows = [{"sum(x.y)": 1, "$t": None}, {"sum(x.y)": 2, "$t": "b"}]
    table = table_of(rows, ["$t", "sum(x.y)"])
    assert table == {"columns": ["$t", "sum(x.y)"], "rows": [[None, 1], ["b", 2]]}
    assert rows_of(table) == rows


def test_a_row_without_a_column_comes_back_without_it() -> None:
    rows = [{"a": 1}, {"b": None}, {}, {"b": 2, "a": {"~missing": True}}]
    assert rows_of(table_of(rows)) == rows


def test_a_step_with_odd_and_duplicate_names_comes_back_as_it_was(new_step: NewStep) -> None:
    step = new_step(
        query_result=[{"a.b": 1, "$c": "x", "c_2": 2.5}],
        result_columns=["a.b", "$c", "$c"],
        compact_result={"columns": [{"name": "a.b", "top": {"$v": 3}}]},
    )
    document = bson.decode(
        bson.encode(step_document(step, encoded_size)), CodecOptions(tz_aware=True, tzinfo=UTC)
    )
    assert step_from(document) == step


def test_a_step_whose_rows_are_too_large_keeps_fewer_rows(new_step: NewStep) -> None:
    rows = [{"n": n, "text": "x" * 1_000_000} for n in range(20)]
    document = step_document(new_step(query_result=rows, row_count=20), encoded_size)
    assert encoded_size(document) <= STEP_BYTES
    kept = step_from(document)
    assert kept.row_count == 20
    assert kept.query_result == rows[: len(kept.query_result)]
    assert len(kept.query_result) == 10


def test_a_step_whose_texts_are_too_large_keeps_their_beginnings(new_step: NewStep) -> None:
    repair = FixAttempt(step=1, attempt=0, sql_before="s", error_in="e", prompt_in="p" * 9_000_000)
    step = new_step(
        query_result=[{"n": 1}],
        fix_history=[repair],
        llm_request="q" * 20_000_000,
        compact_result={"rows": "r" * 20_000_000},
        query="SELECT 1",
    )
    document = step_document(step, encoded_size)
    assert encoded_size(document) <= STEP_BYTES
    kept = step_from(document)
    assert kept.query == "SELECT 1"
    assert step.llm_request.startswith(kept.llm_request)


def test_ids_become_the_document_key_and_back() -> None:
    assert to_document(Free(id="a"))["_id"] == "a"
    assert "_id" not in to_document(Free(id=""))
    assert from_document(Free, {"_id": "a", "foreign": 1}).id == "a"


def test_a_naive_time_is_taken_as_utc() -> None:
    class Timed(BaseModel):
        at: datetime

    naive = datetime(2026, 1, 2, 3, 4)
    assert to_document(Timed(at=naive))["at"] == naive.replace(tzinfo=UTC)


def test_a_stored_record_of_another_shape_is_named_in_one_sentence() -> None:
    with pytest.raises(StoreUnavailable, match="the stored Free 'k' cannot be read"):
        from_document(Free, {"_id": "k", "value": 3})
