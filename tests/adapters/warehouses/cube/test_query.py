"""Issue 4: a JSON query "validated against meta with errors the model can act on"."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.warehouses.cube.model import CubeModel, read_model
from adapters.warehouses.cube.query import read_query
from pipeline.errors import QueryFailed
from tests.servers.cube_model import HIDDEN, ORDERS, ORDERS_VIEW

MODEL: CubeModel = read_model({"cubes": [c.described() for c in (ORDERS, ORDERS_VIEW, HIDDEN)]})
COUNT = {"measures": ["orders.count"]}


def body(query: Any) -> dict[str, Any]:
    text = query if isinstance(query, str) else json.dumps(query)
    return read_query(text, MODEL).body


WRITTEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (COUNT, COUNT),
    ({"query": COUNT}, COUNT),
    ({"measures": "orders.count"}, COUNT),
    ({"measures": ["orders.count", " orders.count "]}, COUNT),
    (
        COUNT | {"dimensions": [], "filters": [], "segments": None, "offset": 0},
        COUNT | {"offset": 0},
    ),
    (COUNT | {"limit": "25", "offset": 3.0}, COUNT | {"limit": 25, "offset": 3}),
    (COUNT | {"segments": ["orders.large"]}, COUNT | {"segments": ["orders.large"]}),
    (
        COUNT | {"timezone": "Europe/Berlin", "ungrouped": True},
        COUNT | {"timezone": "Europe/Berlin", "ungrouped": True},
    ),
    (COUNT | {"ungrouped": False}, COUNT),
    (
        COUNT | {"dimensions": ["orders.ordered_at.week", "orders.status"]},
        COUNT
        | {
            "dimensions": ["orders.status"],
            "timeDimensions": [{"dimension": "orders.ordered_at", "granularity": "week"}],
        },
    ),
    (
        COUNT | {"timeDimensions": {"dimension": "orders.ordered_at", "dateRange": "last week"}},
        COUNT | {"timeDimensions": [{"dimension": "orders.ordered_at", "dateRange": "last week"}]},
    ),
    *(
        (COUNT | {"order": order}, COUNT | {"order": [["orders.count", "desc"]]})
        for order in (
            {"orders.count": "desc"},
            [["orders.count", "DESC"]],
            [{"id": "orders.count", "desc": True}],
            [{"orders.count": "desc"}],
        )
    ),
    (
        COUNT | {"order": {"orders.ordered_at.month": "asc"}},
        COUNT | {"order": [["orders.ordered_at", "asc"]]},
    ),
    (COUNT | {"order": []}, COUNT | {"order": []}),
    (
        COUNT
        | {"filters": [{"dimension": "orders.id", "operator": ">=", "values": [5, True, None]}]},
        COUNT
        | {"filters": [{"member": "orders.id", "operator": "gte", "values": ["5", "true", None]}]},
    ),
    (
        COUNT | {"filters": {"member": "orders.status", "operator": "is_null", "values": []}},
        COUNT | {"filters": [{"member": "orders.status", "operator": "notSet"}]},
    ),
    (
        COUNT
        | {
            "filters": [
                {
                    "or": [
                        {"member": "orders.status", "operator": "equals", "values": "open"},
                        {"and": [{"member": "orders.paid", "operator": "set"}]},
                    ]
                }
            ]
        },
        COUNT
        | {
            "filters": [
                {
                    "or": [
                        {"member": "orders.status", "operator": "equals", "values": ["open"]},
                        {"and": [{"member": "orders.paid", "operator": "set"}]},
                    ]
                }
            ]
        },
    ),
]


@pytest.mark.parametrize(("written", "sent"), WRITTEN)
def test_what_models_write_is_sent_as_cube_wants_it(
    written: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert body(written) == sent
    assert body(sent) == sent
    assert json.loads(read_query(json.dumps(written), MODEL).text) == sent


def test_the_columns_are_dimensions_times_and_measures_each_once() -> None:
    query = {
        "measures": ["orders.total", "orders.count"],
        "dimensions": ["orders.status", "orders.ordered_at.day"],
        "timeDimensions": [
            {"dimension": "orders.ordered_at", "granularity": "day"},
            {"dimension": "orders.ordered_at", "dateRange": ["2024-01-01"]},
        ],
    }
    assert [column.name for column in read_query(json.dumps(query), MODEL).columns] == [
        "orders.status",
        "orders.ordered_at.day",
        "orders.total",
        "orders.count",
    ]


REFUSED: list[tuple[Any, str]] = [
    ("SELECT count(*) FROM orders", 'takes no SQL; send a JSON request such as {"measures"'),
    ("", "takes no SQL"),
    ('{"measures": ["orders.count"', "is not valid JSON"),
    ('["orders.count"]', "must be one JSON object"),
    ("[" * 100_000, "must be one JSON object|takes no SQL"),
    ('{"measures": ["\\ud800"]}', "not valid text"),
    ({}, "asks for nothing"),
    ({"dimensions": []}, "asks for nothing"),
    ({"segments": ["orders.large"]}, "asks for nothing"),
    ({"timeDimensions": [{"dimension": "orders.ordered_at"}]}, "asks for nothing"),
    ({"measure": ["orders.count"]}, "no key 'measure': did you mean 'measures'?"),
    (COUNT | {"renewQuery": True}, "no key 'renewQuery': leave it out"),
    (COUNT | {"joinHints": [["a", "b"]]}, "no key 'joinHints': the keys are measures"),
    ({"measures": ["orders.cuont"]}, "no measure 'orders.cuont'; near names: orders.count"),
    ({"measures": ["count"]}, "no measure 'count'; near names: .*orders.count"),
    ({"measures": ["Orders.Total"]}, "no measure 'Orders.Total'; near names: .*orders.total"),
    ({"measures": ["zzz.qqq"]}, "no measure 'zzz.qqq'; see the catalog"),
    ({"measures": ["internal.count"]}, "no measure 'internal.count'"),
    ({"dimensions": ["orders.secret"]}, "no dimension 'orders.secret'"),
    ({"measures": ["orders.status"]}, "is a dimension, not a measure: put it under 'dimen"),
    (
        {"dimensions": ["orders.count"]},
        "is a measure, not a dimension: put it under 'measures'",
    ),
    ({"dimensions": ["orders.large"]}, "put it under 'segments'"),
    ({"measures": [{"expression": "count(*)"}]}, "'measures' must be a list of names such as"),
    ({"dimensions": ["orders.ordered_at.fortnight"]}, "no granularity 'fortnight'; it has day"),
    ({"timeDimensions": ["orders.ordered_at"]}, "'timeDimensions' must be a list of objects"),
    (
        {"timeDimensions": [{"dimension": "orders.status", "granularity": "day"}]},
        "is of type string, not time",
    ),
    (
        {"timeDimensions": [{"dimension": "orders.ordered_at", "compareDateRange": []}]},
        "one date range at a time",
    ),
    (
        COUNT | {"timeDimensions": [{"dimension": "orders.ordered_at", "dateRange": 2024}]},
        "'dateRange' must be two dates",
    ),
    (COUNT | {"filters": ["orders.status = 'open'"]}, "a filter must be an object such as"),
    (COUNT | {"filters": [{"member": "orders.status"}]}, "no filter operator None"),
    (
        COUNT | {"filters": [{"member": "orders.status", "operator": "eqals", "values": ["a"]}]},
        "did you mean 'equals'?",
    ),
    (
        COUNT | {"filters": [{"member": "orders.status", "operator": "regexp", "values": ["a"]}]},
        "the operators are equals",
    ),
    (
        COUNT | {"filters": [{"member": "orders.sttus", "operator": "set"}]},
        "no measure or dimension 'orders.sttus'; near names: orders.status",
    ),
    (
        COUNT | {"filters": [{"member": "orders.status", "operator": "equals", "values": []}]},
        "needs a list of values",
    ),
    (
        COUNT | {"filters": [{"member": "orders.status", "operator": "gt", "values": [{}]}]},
        "must be plain",
    ),
    (COUNT | {"filters": [{"or": []}]}, "'or' is no list of filters"),
    (COUNT | {"order": "orders.count"}, "'order' must be an object"),
    (COUNT | {"order": {"orders.count": "down"}}, 'must be "asc" or "desc"'),
    (COUNT | {"order": {"orders.cnt": "asc"}}, "no measure or dimension 'orders.cnt'"),
    (COUNT | {"limit": 0}, "'limit' must be a whole number from 1 on"),
    (COUNT | {"limit": True}, "'limit' must be a whole number"),
    (COUNT | {"limit": "many"}, "'limit' must be a whole number"),
    (COUNT | {"offset": -1}, "'offset' must be a whole number from 0 on"),
    (COUNT | {"timezone": 5}, "'timezone' must be a name"),
    (COUNT | {"ungrouped": "yes"}, "'ungrouped' must be true or false"),
]


@pytest.mark.parametrize(("written", "reason"), REFUSED)
def test_a_query_that_cannot_be_sent_is_answered_with_what_to_write(
    written: Any, reason: str
) -> None:
    with pytest.raises(QueryFailed, match=reason) as caught:
        body(written)
    assert caught.value.sql == (written if isinstance(written, str) else json.dumps(written))


def test_all_problems_are_told_at_once_up_to_five() -> None:
    with pytest.raises(QueryFailed) as caught:
        body({"measures": [f"orders.m{i}" for i in range(8)]})
    assert caught.value.reason.count("there is no measure") == 5
    assert caught.value.reason.endswith("and 3 more problems")


def test_filters_nested_without_end_are_refused() -> None:
    nested: dict[str, Any] = {"member": "orders.status", "operator": "set"}
    for _ in range(30):
        nested = {"and": [nested]}
    with pytest.raises(QueryFailed, match="nested deeper than 10 levels"):
        body(COUNT | {"filters": [nested]})
