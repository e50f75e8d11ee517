"""Phase 3: lookups, table searches, correlations, their budgets, and several datasources."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.errors import (
    VectorsUnavailable,
    WarehouseUnavailable,
)
from pipeline.exploration.loop import Budget
from pipeline.ports import WarehouseInfo
from pipeline.records import StepAction
from pipeline.testing import ScriptedModel
from tests.pipeline.exploration.lab import (
    DONE,
    Lab,
    MemoryWarehouse,
    answer_all,
    make_table,
    query,
    told,
)

# ---------------------------------------------------------------- schema actions and their budgets


async def test_a_lookup_is_cut_to_fifty_columns_three_samples_and_eighty_characters(
    lab: Lab,
) -> None:
    model = ScriptedModel([{"lookup_schema": ["main.wide", "main.nothing"]}, DONE])
    await lab.explore(model)
    payload = told(model.requests[1])
    assert list(payload) == [
        *("step", "action", "ok", "tables", "not_found", "calls_left", "steps_left"),
    ]
    table = payload["tables"][0]
    assert (table["table"], table["row_count"], table["more_columns"]) == ("main.wide", 7, 30)
    assert len(table["columns"]) == 50
    assert table["columns"][0] == {
        "name": "c0",
        "type": "INTEGER",
        "nullable": True,
        "category": "dimension",
    }
    assert len(table["sample_rows"]) == 3
    assert len(table["sample_rows"][0]) == 50
    assert {len(value) for value in table["sample_rows"][0].values()} == {80}
    assert payload["not_found"] == [
        {"table": "main.nothing", "near": ["main.flights", "main.planes"]}
    ]
    assert payload["calls_left"] == 29


async def test_tables_already_fetched_are_free_and_said_so(lab: Lab) -> None:
    model = ScriptedModel(
        [
            {"lookup_schema": ["main.flights"]},
            {"lookup_schema": ["FLIGHTS", "main.flights"]},
            {"lookup_schema": ["flights", "main.planes"]},
            DONE,
        ]
    )
    await lab.explore(model)
    second, third = told(model.requests[2]), told(model.requests[3])
    assert second["already_fetched"] == [{"table": "main.flights", "step": 1}]
    assert second["tables"] == []
    assert second["calls_left"] == 29
    assert "cost nothing" in model.requests[2].messages[-1].content
    assert [t["table"] for t in third["tables"]] == ["main.planes"]
    assert third["calls_left"] == 28
    assert lab.catalog.looked_up == [["main.flights"], ["main.planes"]]


async def test_a_lookup_takes_ten_new_tables(lab: Lab) -> None:
    lab.catalog.known = [make_table(f"main.t{i}") for i in range(14)]
    names = [table.name for table in lab.catalog.known]
    model = ScriptedModel([{"lookup_schema": names}, {"lookup_schema": names}, DONE])
    await lab.explore(model)
    first, second = told(model.requests[1]), told(model.requests[2])
    assert len(first["tables"]) == 10
    assert first["left_out"] == names[10:]
    assert [t["table"] for t in second["tables"]] == names[10:]
    assert len(second["already_fetched"]) == 10


async def test_lookup_budget_is_spent_even_when_the_provider_fails(lab: Lab) -> None:
    lab.catalog.fail = VectorsUnavailable("the cache is gone")
    model = ScriptedModel([{"lookup_schema": [f"t{i}"]} for i in range(3)] + [DONE])
    found = await lab.explore(model, Budget(max_steps=10, lookup_calls=2))
    answers = [told(request) for request in model.requests[1:]]
    assert [a["calls_left"] for a in answers] == [1, 0, 0]
    assert [a["error"] for a in answers] == [
        *("the cache is gone", "the cache is gone"),
        "the lookup budget of this run is spent",
    ]
    assert found.completed
    assert found.steps[0].error == "the cache is gone"
    assert len(lab.catalog.looked_up) == 2


async def test_a_spent_lookup_budget_still_serves_what_was_fetched(lab: Lab) -> None:
    model = ScriptedModel(
        [{"lookup_schema": ["main.flights"]}, {"lookup_schema": ["flights", "planes"]}, DONE]
    )
    await lab.explore(model, Budget(max_steps=10, lookup_calls=1))
    payload = told(model.requests[2])
    assert payload["ok"]
    assert payload["left_out"] == ["planes"]
    assert payload["already_fetched"] == [{"table": "main.flights", "step": 1}]


async def test_search_budget_is_echoed_and_ends(lab: Lab) -> None:
    model = ScriptedModel([{"search_tables": "late", "search_top_k": 2}] * 2 + [DONE])
    found = await lab.explore(model, Budget(max_steps=10, search_calls=1))
    first, second = told(model.requests[1]), told(model.requests[2])
    assert list(first) == ["step", "action", "ok", "hits", "calls_left", "steps_left"]
    assert first["hits"][0] == {
        "table": "main.flights",
        "datasource_id": "default",
        "score": 0.512,
        "row_count": 5,
        "column_count": 0,
        "description": "",
    }
    assert first["calls_left"] == 0
    assert second["error"] == "the search budget of this run is spent"
    assert lab.catalog.searched == [("late", 2)]
    assert found.steps[0].search_text == "late"


async def test_a_failing_search_is_an_answer(lab: Lab) -> None:
    lab.catalog.fail = VectorsUnavailable("no vectors")
    model = ScriptedModel([{"search_tables": "late"}, DONE])
    await lab.explore(model)
    assert told(model.requests[1])["error"] == "no vectors"
    assert told(model.requests[1])["calls_left"] == 29


async def test_a_table_whose_answer_has_left_the_conversation_is_shown_again(lab: Lab) -> None:
    script = [{"lookup_schema": ["main.flights"]}, *(query(f"SELECT {i}") for i in range(4))]
    nudged: list[Any] = ["prose"] * 3
    model = ScriptedModel([script[0], *nudged, *script[1:], *nudged, script[0], DONE])
    await lab.explore(model, Budget(max_steps=7))
    payload = told(model.requests[-1])
    assert [t["table"] for t in payload["tables"]] == ["main.flights"]
    assert payload["calls_left"] == 29
    assert "left your view" in model.requests[-1].messages[-1].content


# ---------------------------------------------------------------- correlations


class Keys:
    def __init__(self, known: dict[str, list[Any]] | BaseException) -> None:
        self.known = known

    async def between(self, a: str, b: str) -> dict[str, list[Any]]:
        if isinstance(self.known, BaseException):
            raise self.known
        return self.known


def two(lab: Lab) -> Lab:
    shop = MemoryWarehouse(answer_all, WarehouseInfo("shop", "postgres", label="the shop"))
    lab.warehouses["shop"] = shop
    lab.catalog.known.append(make_table("public.orders", source="shop"))
    return lab


async def test_correlations_without_a_provider_are_answered_clearly(lab: Lab) -> None:
    model = ScriptedModel([{"get_correlations": {"a": "default", "b": "default"}}, DONE])
    found = await lab.explore(model)
    payload = told(model.requests[1])
    assert payload["ok"] is False
    assert "does not mean that no key exists" in payload["error"]
    assert found.steps[0].action is StepAction.GET_CORRELATIONS
    assert "get_correlations" not in model.requests[0].messages[0].content


async def test_correlations_state_rejected_pairs_first_within_their_budget(lab: Lab) -> None:
    ask = {"get_correlations": {"a": "default", "b": "shop"}}
    keys = Keys({"confirmed": [["a.x", "b.y"]], "rejected": [["a.z", "b.z"]]})
    model = ScriptedModel([ask, ask, DONE])
    budget = Budget(max_steps=9, correlation_calls=1)
    await two(lab).explore(model, budget, correlations=keys)
    first, second = told(model.requests[1]), told(model.requests[2])
    assert list(first)[2:6] == ["ok", "rejected", "confirmed", "declared"]
    assert first["calls_left"] == 0
    assert "budget" in second["error"]
    assert '"get_correlations"' in model.requests[0].messages[0].content
    assert lab.journal.counters["correlation_lookup_calls"] == 2


async def test_a_correlation_error_is_not_an_empty_answer(lab: Lab) -> None:
    ask = {"get_correlations": {"a": "default", "b": "shop"}}
    model = ScriptedModel([ask, {"get_correlations": {"a": "x", "b": "shop"}}, DONE])
    await two(lab).explore(model, correlations=Keys(VectorsUnavailable("lost")))
    assert told(model.requests[1])["error"] == "lost"
    assert "the ids are: default, shop" in told(model.requests[2])["error"]


async def test_an_empty_correlation_answer_does_not_deny_a_key(lab: Lab) -> None:
    model = ScriptedModel([{"get_correlations": {"a": "default", "b": "shop"}}, DONE])
    await two(lab).explore(model, correlations=Keys({}))
    assert "does not mean that no key exists" in model.requests[1].messages[-1].content


# ---------------------------------------------------------------- several datasources


async def test_every_query_and_lookup_names_its_datasource(lab: Lab) -> None:
    model = ScriptedModel(
        [query("SELECT 1", datasource_id="shop"), {"lookup_schema": ["orders"]}, DONE]
    )
    found = await two(lab).explore(model)
    opening = model.requests[0].messages[0].content
    assert opening.count('"datasource_id": "..."') == 2
    assert "- shop: postgres SQL, the shop" in opening
    assert lab.warehouses["shop"].asked == ["SELECT 1"]
    assert found.steps[0].warehouse_id == "shop"
    assert told(model.requests[1])["datasource_id"] == "shop"
    missing = told(model.requests[2])["not_found"][0]
    assert missing["found_in"] == ["shop: public.orders"]


async def test_an_unknown_datasource_is_answered_with_the_valid_ids(lab: Lab) -> None:
    wrong = {"datasource_id": "crm"}
    model = ScriptedModel([query(**wrong), {"lookup_schema": ["a"]} | wrong, DONE])
    found = await two(lab).explore(model)
    for request in model.requests[1:]:
        assert told(request)["error"].endswith("the ids are: default, shop")
    assert [bool(step.error) for step in found.steps] == [True, True, False]


@pytest.mark.parametrize("name", ["", "default"])
async def test_an_empty_id_means_the_primary(lab: Lab, name: str) -> None:
    lab.warehouses = {"shop": MemoryWarehouse(answer_all, WarehouseInfo("shop", "duckdb"))}
    found = await lab.explore(ScriptedModel([query(datasource_id=name), DONE]))
    assert found.steps[0].warehouse_id == "shop"


async def test_a_table_of_another_datasource_is_answered_with_advice(lab: Lab) -> None:
    sql = "WITH orders_now AS (SELECT * FROM public.orders) SELECT * FROM orders_now"
    model = ScriptedModel([query(sql), query("SELECT * FROM main.flights"), DONE])
    await two(lab).explore(model)
    assert "list of literals" in told(model.requests[1])["error"]
    assert told(model.requests[2])["ok"]
    assert lab.warehouses["default"].asked == ["SELECT * FROM main.flights"]


@pytest.mark.parametrize(("broken", "ends"), [("default", True), ("shop", False)])
async def test_only_a_broken_primary_fails_the_run(lab: Lab, broken: str, ends: bool) -> None:
    error = WarehouseUnavailable("the file is gone")
    two(lab).warehouses[broken].answer = lambda sql: error
    model = ScriptedModel([query(datasource_id=broken), DONE])
    if ends:
        with pytest.raises(WarehouseUnavailable):
            await lab.explore(model)
    else:
        assert (await lab.explore(model)).completed
        assert "the file is gone" in told(model.requests[1])["error"]
