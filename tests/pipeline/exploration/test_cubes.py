"""Phase 3, a run that can query a cube: its language is shown, lookup_schema is not offered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.errors import ActionError, QueryFailed
from pipeline.exploration.actions import parse_action
from pipeline.ports import WarehouseInfo
from pipeline.records import Column, ColumnCategory, Shape, StepAction, Table, TableKind
from pipeline.testing import ScriptedModel
from tests.pipeline.exploration.lab import DONE, Lab, MemoryWarehouse, answer_all, query, told

CUBES = ("sales", "web")
ASKED = {"measures": ["orders.count"], "dimensions": ["orders.status"]}
ORDERS = Table(
    datasource_id="sales",
    name="orders",
    kind=TableKind.CUBE,
    columns=[
        Column(name="orders.count", type="number (count)", category=ColumnCategory.METRIC),
        Column(name="orders.status", type="string"),
    ],
    description="Orders of the web shop",
)


def with_cube(lab: Lab, **info: Any) -> Lab:
    """The laboratory with a cube beside its warehouse."""
    cube = WarehouseInfo(
        "sales", "", shape=Shape.CUBE, query_language="Cube JSON query", label="orders", **info
    )
    lab.warehouses["sales"] = MemoryWarehouse(answer_all, cube)
    lab.catalog.known.append(ORDERS)
    return lab


# ---------------------------------------------------------------- the query is an object


@pytest.mark.parametrize(
    "reply",
    [
        {"query": ASKED, "datasource_id": "sales"},
        {"rationale": "r", "query": ASKED, "datasource_id": "sales", "lookup_schema": []},
        {"name": "query", "input": {"query": ASKED, "datasource_id": "sales"}},
        {"action": "query_data", "parameters": {"query": ASKED}, "datasource_id": "sales"},
        {"action": "query_data", "input": {"sql": ASKED, "datasource_id": "web"}},
    ],
)
def test_an_object_is_accepted_for_a_cube(reply: dict[str, Any]) -> None:
    action = parse_action(json.dumps(reply), object_sources=CUBES)
    assert json.loads(action.query) == ASKED
    assert action.datasource_id in CUBES


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"query": ASKED}, r"only these datasources take: sales, web; name one of them"),
        ({"query": ASKED, "datasource_id": "default"}, 'name one of them as "datasource_id"'),
        ({"query": {}, "datasource_id": "sales"}, '"query" is an object; send the whole query'),
        ({"query": [ASKED], "datasource_id": "sales"}, '"query" is a list'),
        ({"query": "", "datasource_id": "sales"}, '"query" is empty'),
    ],
)
def test_an_object_is_refused_where_sql_is_asked(reply: dict[str, Any], reason: str) -> None:
    with pytest.raises(ActionError, match=reason):
        parse_action(json.dumps(reply), object_sources=CUBES)


def test_without_a_cube_an_object_is_refused_as_ever() -> None:
    with pytest.raises(ActionError, match='"query" is an object; send the whole query as one JSON'):
        parse_action(json.dumps({"query": ASKED, "datasource_id": "sales"}))


async def test_objects_and_texts_reach_the_cube_alike(lab: Lab) -> None:
    text = json.dumps(ASKED)
    model = ScriptedModel(
        [
            query("ignored") | {"query": ASKED, "datasource_id": "sales"},
            query(text, datasource_id="sales"),
            {"query": ASKED},
            query("SELECT 1"),
            DONE,
        ]
    )
    found = await with_cube(lab).explore(model)
    assert lab.warehouses["sales"].asked == [text, text]
    assert lab.warehouses["default"].asked == ["SELECT 1"]
    assert [step.warehouse_id for step in found.steps] == ["sales", "sales", "default", ""]
    assert "only these datasources take: sales" in model.requests[3].messages[-1].content


# ---------------------------------------------------------------- what the model is shown


async def test_the_contract_names_every_language_and_how_to_write_it(lab: Lab) -> None:
    model = ScriptedModel([DONE])
    await with_cube(lab).explore(model)
    opening = model.requests[0].messages[0].content
    assert "- default: duckdb SQL\n" in opening
    assert "- sales: Cube JSON query, orders, has no tables to look up" in opening
    assert 'query a cube (sales): {"rationale"' in opening
    assert '"datasource_id": "sales"}' in opening
    assert "A cube takes no SQL" in opening
    assert '"lookup_schema"' in opening


async def test_rejected_pairs_come_first_in_the_routing_contract(lab: Lab) -> None:
    model = ScriptedModel(["no json", DONE])
    pair = "default: main.t.id and sales: orders.id: <0 of 9>"
    await with_cube(lab).explore(model, prohibited=[pair])
    for request in model.requests:
        text = request.messages[-1].content
        assert text.index("<never_join>") < text.index("This run reads several datasources")
        assert "sales: orders.id: \\u003c0 of 9" in text


async def test_a_run_over_one_datasource_has_no_prohibitions(lab: Lab) -> None:
    model = ScriptedModel([DONE])
    await lab.explore(model, prohibited=["a and b"])
    assert "never_join" not in model.requests[0].messages[0].content


# ---------------------------------------------------------------- nothing to look up


async def test_a_lookup_in_a_cube_is_answered_with_its_members_and_costs_nothing(lab: Lab) -> None:
    model = ScriptedModel(
        [
            {"lookup_schema": ["Orders"], "datasource_id": "sales"},
            {"lookup_schema": ["nothing"], "datasource_id": "sales"},
            {"lookup_schema": ["main.flights"]},
            DONE,
        ]
    )
    await with_cube(lab).explore(model)
    first, second, third = (told(request) for request in model.requests[1:])
    assert first["ok"] is False
    assert "is a cube and has no tables to look up" in first["error"]
    assert "measures: orders.count number (count) | dimensions: orders.status" in first["error"]
    assert "its members are in the catalog, under orders" in second["error"]
    assert (first["calls_left"], second["calls_left"], third["calls_left"]) == (30, 30, 29)
    assert lab.catalog.looked_up == [["main.flights"]]


async def test_a_cube_of_another_datasource_is_answered_with_advice(lab: Lab) -> None:
    with_cube(lab)
    model = ScriptedModel(
        [
            query(datasource_id="sales") | {"query": {"measures": ["flights.count"]}},
            query("SELECT count(*) FROM orders"),
            query(datasource_id="sales") | {"query": {"measures": ["unknown.count"]}},
            DONE,
        ]
    )
    await lab.explore(model)
    first, second, third = (told(request) for request in model.requests[1:])
    assert (
        "cube flights is not in datasource 'sales' but in default: main.flights" in first["error"]
    )
    assert "table orders is not in datasource 'default' but in sales: orders" in second["error"]
    assert third["ok"]


# ---------------------------------------------------------------- repair


async def test_a_refused_query_is_repaired_in_the_language_of_the_cube(lab: Lab) -> None:
    with_cube(lab)
    wrong, right = {"measures": ["orders.cnt"]}, {"measures": ["orders.count"], "limit": 5}
    lab.warehouses["sales"].answer = lambda text: (
        QueryFailed("there is no measure 'orders.cnt'", text) if "cnt" in text else answer_all(text)
    )
    model = ScriptedModel(
        [
            query(datasource_id="sales") | {"query": wrong},
            f"Mended:\n```json\n{json.dumps(right)}\n```",
            DONE,
        ]
    )
    found = await lab.explore(model)
    [step, _] = found.steps
    assert (step.fixed, step.fix_attempts, json.loads(step.query)) == (True, 1, right)
    fixer = model.requests[1]
    assert fixer.system.startswith("# Veridical role: sql_fixer")
    assert "A cube takes no SQL" in fixer.system
    assert "orders: orders.count number (count), orders.status string" in fixer.messages[0].content


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("I cannot.", "the reply holds no Cube JSON query"),
        ("```sql\nSELECT 1\n```", "the reply holds no Cube JSON query"),
        ('{"measures": ["orders.cnt"]}', "the model sent the same query back"),
    ],
)
async def test_a_repair_that_is_none_ends_the_step_with_its_error(
    lab: Lab, reply: str, problem: str
) -> None:
    with_cube(lab).warehouses["sales"].answer = lambda text: QueryFailed("no measure", text)
    model = ScriptedModel(
        [query(datasource_id="sales") | {"query": {"measures": ["orders.cnt"]}}, reply, DONE]
    )
    found = await lab.explore(model)
    assert found.steps[0].error == "no measure"
    assert [attempt.fixer_error for attempt in found.steps[0].fix_history] == [problem]


# ---------------------------------------------------------------- the log


async def test_the_shapes_and_the_rule_are_logged_at_exploration_start(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await with_cube(lab).explore(ScriptedModel([DONE]), cube_reaching=False)
    assert "datasources default (entities), sales (cube)" in caplog.text
    assert "judged by the floor alone" in caplog.text
    caplog.clear()
    model = ScriptedModel([query(), DONE, *[query()] * 3, DONE])
    found = await lab.explore(model, cube_reaching=True)
    assert "judged by the floor and the novelty rule" in caplog.text
    assert [s.action for s in found.steps].count(StepAction.COMPLETE_REJECTED) == 1
