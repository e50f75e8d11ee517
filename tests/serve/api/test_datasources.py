"""Projects over several datasources through the API: 400 at creation and 409 at run start."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from starlette.testclient import TestClient

PROJECTS = "/api/v1/projects"
SHOP: dict[str, Any] = {"id": "shop", "provider": "duckdb", "config": {"path": "/data/shop.duckdb"}}
CRM: dict[str, Any] = {**SHOP, "id": "crm"}
CUBE: dict[str, Any] = {"id": "sales", "provider": "cube", "config": {"url": "http://cube:4000"}}


class Kept(Protocol):
    kept: Any


class StoreLike(Protocol):
    projects: Kept


def test_several_warehouses_and_their_keys_are_kept(client: TestClient) -> None:
    pair = {
        "left": {"datasource_id": "shop", "table": "main.customers", "column": "id"},
        "right": {"datasource_id": "sales", "table": "orders", "column": "orders.customer_id"},
    }
    body = {"name": "Shop", "warehouses": [CUBE, SHOP, CRM], "key_pairs": [pair]}
    answer = client.post(PROJECTS, json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()["data"]
    assert [w["id"] for w in made["warehouses"]] == ["sales", "shop", "crm"]
    assert made["primary_warehouse_id"] == "shop"
    assert made["key_pairs"] == [{**pair, "rejected": False, "note": ""}]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"warehouses": [CUBE]}, "no datasource of the project can anchor a run"),
    ({"warehouses": [SHOP, CUBE], "primary_warehouse_id": "sales"}, "cannot anchor a run"),
    ({"warehouses": [SHOP, {**CUBE, "config": {}}]}, "config.url"),
    (
        {"warehouses": [SHOP, {**CUBE, "filter_field": "t", "filter_value": "7"}]},
        "cannot carry a row filter",
    ),
    ({"warehouses": [SHOP], "key_pairs": [{"left": {}}]}, "key_pairs"),
]


@pytest.mark.parametrize(("body", "told"), REFUSED)
def test_what_cannot_carry_a_run_is_refused_with_400(
    client: TestClient, body: dict[str, Any], told: str
) -> None:
    answer = client.post(PROJECTS, json={"name": "Shop", **body})
    assert answer.status_code == 400
    assert told in str(answer.json()["error"])


def test_a_run_without_a_source_that_anchors_is_409(client: TestClient, store: StoreLike) -> None:
    made = client.post(PROJECTS, json={"name": "Shop", "warehouses": [SHOP, CUBE]}).json()["data"]
    store.projects.kept[made["id"]].primary_warehouse_id = "sales"
    answer = client.post(f"{PROJECTS}/{made['id']}/discover", json={})
    assert answer.status_code == 409
    assert "'sales' is a cube and cannot anchor a run" in str(answer.json()["error"])
