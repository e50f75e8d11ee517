"""An exploration over two DuckDB files and a cube server; only the model is scripted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.embeddings.hashing import HashingEmbedder
from pipeline.correlations.known import KnownPairs, know_pairs
from pipeline.exploration.loop import Exploration
from pipeline.records import QualityKind, StepAction
from pipeline.schema.cache import CatalogCore
from pipeline.step_index import StepIndexCore
from pipeline.testing import Scripted, ScriptedModel
from tests.pipeline.exploration.lab import DONE, Lab, query, told
from tests.servers.cube_server import Answer
from tests.servers.shop import Shop, open_shop

BY_STATUS: dict[str, Any] = {
    "measures": ["orders.count", "orders.total"],
    "dimensions": ["orders.status"],
}


def on(source: str, asked: str | dict[str, Any], purpose: str = "what") -> dict[str, Any]:
    return query() | {"query": asked, "datasource_id": source, "query_purpose": purpose}


@dataclass
class Floor:
    """A laboratory over the shop, with a real catalog, a real index and measured keys."""

    lab: Lab
    shop: Shop
    catalog: CatalogCore
    keys: KnownPairs

    async def explore(self, *replies: Scripted) -> tuple[Exploration, ScriptedModel]:
        model = ScriptedModel(replies)
        found = await self.lab.explore(
            model,
            warehouses=self.shop.warehouses,
            catalog=self.catalog,
            index=StepIndexCore(HashingEmbedder()),
            correlations=self.keys,
            prohibited=self.keys.prohibitions(),
            cube_reaching=True,
        )
        return found, model


@pytest.fixture
async def floor(lab: Lab, tmp_path: Path) -> AsyncIterator[Floor]:
    async with open_shop(tmp_path) as shop:
        catalog = CatalogCore(shop.warehouses, HashingEmbedder())
        await catalog.load()
        keys = await know_pairs([], await catalog.tables(), shop.warehouses)
        yield Floor(lab, shop, catalog, keys)


async def test_three_datasources_are_explored_in_one_run(floor: Floor) -> None:
    server = floor.shop.server
    loads = len(server.loads)
    server.waits(1)
    customers = "SELECT count(*) AS n FROM customers WHERE id IN (1, 2, 3)"
    repeats = [on("sales", BY_STATUS, "orders by status")] * 3
    found, model = await floor.explore(
        on("sales", BY_STATUS, "orders by status"),
        {"get_correlations": {"a": "default", "b": "sales"}},
        on("shop", customers, "customers that ordered"),
        on("crm", "SELECT * FROM main.customers", "the contacts"),
        on("crm", "SELECT count(*) AS n FROM contacts", "the contacts"),
        on("finance", "SELECT 1"),
        DONE,
        *repeats,
        DONE,
    )
    assert found.completed
    first, keys, counted, foreign, contacts, unknown, rejected = found.steps[:7]
    assert (first.warehouse_id, first.row_count) == ("sales", 3)
    assert {row["orders.status"] for row in first.query_result} == {"open", "returned", "shipped"}
    assert sum(row["orders.count"] for row in first.query_result) == 1_200
    assert json.loads(first.query) == BY_STATUS
    assert len(server.loads) == loads + 1 + 1 + 3, "one poll, and four queries"
    assert (keys.action, keys.correlated) == (StepAction.GET_CORRELATIONS, ["default", "sales"])
    assert counted.query_result == [{"n": 3}]
    assert "table main.customers is not in datasource 'crm' but in shop" in foreign.error
    assert contacts.query_result == [{"n": 50}]
    assert unknown.error.endswith("the ids are: shop, crm, sales")
    assert rejected.action is StepAction.COMPLETE_REJECTED
    assert rejected.reject_reason.startswith("productive")
    assert [step.row_count for step in found.steps[7:10]] == [3, 3, 3]

    opening = model.requests[0].messages[0].content
    assert opening.index("<never_join>") < opening.index("- shop: duckdb SQL")
    assert "shop: main.products.product_id and crm: main.contacts.product_id" in opening
    correlations = told(model.requests[2])
    assert correlations["rejected"] == []
    assert ("main.customers.id", "orders.customer_id") in {
        (pair["a"], pair["b"]) for pair in correlations["confirmed"]
    }


async def test_a_cube_query_is_healed_and_its_caveats_reach_the_model(floor: Floor) -> None:
    wrong = BY_STATUS | {"measures": ["orders.amount"], "limit": 2}
    right = BY_STATUS | {"measures": ["orders.total"], "limit": 2}
    _, model = await floor.explore(
        on("sales", json.dumps(wrong)), json.dumps(right), *[on("sales", right)] * 3, DONE
    )
    step = floor.lab.journal.steps[0]
    assert (step.fixed, json.loads(step.query)) == (True, right)
    assert [caveat.kind for caveat in step.quality] == [QualityKind.TRUNCATED]
    payload = told(model.requests[2])
    assert (payload["healed"], payload["row_count"]) == (True, 2)
    assert payload["caveats"][0]["kind"] == "truncated"
    assert payload["columns"] == ["orders.status", "orders.total"]
    assert "orders.total number (sum)" in model.requests[1].messages[0].content


async def test_the_catalog_and_the_search_cover_all_datasources(floor: Floor) -> None:
    text = await floor.catalog.text()
    assert text.index("datasource shop | dialect duckdb | 3 tables") < text.index(
        "datasource crm | dialect duckdb | 2 tables"
    )
    assert "datasource sales | Cube JSON query | 2 cubes and views" in text
    [line] = [line for line in text.splitlines() if line.startswith("orders |")]
    assert line == (
        "orders | cube | measures: orders.count number (count), orders.total number (sum), "
        "orders.mean number (avg), orders.latest time (max) | dimensions: orders.id number, "
        "orders.customer_id number, orders.status string, orders.paid boolean, "
        "orders.ordered_at time | segments: orders.large | about: Orders of the web shop"
    )
    _, model = await floor.explore(
        {"search_tables": "orders by status of the web shop", "search_top_k": 30},
        *[on("sales", BY_STATUS)] * 4,
        DONE,
    )
    hits = {hit["table"]: hit for hit in told(model.requests[1])["hits"]}
    assert hits["orders"]["kind"] == "cube"
    assert hits["orders"]["datasource_id"] == "sales"
    assert "measures: orders.count" in hits["orders"]["description"]
    assert "kind" not in hits["main.customers"]


async def test_a_cube_that_fails_in_the_middle_does_not_end_the_run(floor: Floor) -> None:
    floor.shop.server.play(Answer(503, {"error": "restarting"}))
    found, model = await floor.explore(on("sales", BY_STATUS), *[on("sales", BY_STATUS)] * 4, DONE)
    assert found.completed
    assert "datasource 'sales'" in told(model.requests[1])["error"]
    assert "try again later" in found.steps[0].error
    assert found.steps[1].succeeded
