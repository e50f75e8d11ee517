"""What a deployment leaves out of an answer is told: withheld, restricted, truncated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adapters.warehouses.cube.conftest import CubeOpener
from tests.servers.cube_server import Answer, CubeServer

BY_STATUS = {"measures": ["orders.count", "orders.total"], "dimensions": ["orders.status"]}
REGION: dict[str, Any] = {"member": "orders.region", "operator": "equals", "values": ["EU"]}
PAID: dict[str, Any] = {"member": "orders.paid", "operator": "equals", "values": ["true"]}
OPEN: dict[str, Any] = {"member": "orders.status", "operator": "equals", "values": ["open"]}
ROW = {"orders.status": "open", "orders.count": "4", "orders.total": "8.5"}


@pytest.mark.parametrize(
    ("sent", "ran", "row", "kinds", "named"),
    [
        ({}, None, ROW, [], ""),
        ({"filters": [OPEN]}, {"filters": [OPEN], "rowLimit": 3}, ROW, [], ""),
        ({"filters": [{"or": [OPEN, PAID]}]}, {"filters": [{"or": [OPEN, PAID]}]}, ROW, [], ""),
        ({"filters": [OPEN]}, {"filters": [OPEN, REGION]}, ROW, ["restricted"], "orders.region"),
        ({}, {"filters": [{"and": [REGION, PAID]}]}, ROW, ["restricted"], "orders.paid, orders.re"),
        ({"filters": [OPEN]}, {"filters": [OPEN, OPEN]}, ROW, ["restricted"], "orders.status"),
        ({}, {"segments": ["orders.mine"]}, ROW, ["restricted"], "orders.mine"),
        ({}, {}, {"orders.status": "open", "orders.count": "4"}, ["withheld"], "orders.total"),
        ({}, {}, ROW | {"orders.total": None}, [], ""),
        (
            {"limit": 1},
            {"filters": [REGION]},
            {"orders.status": "open", "orders.count": "4"},
            ["truncated", "restricted", "withheld"],
            "",
        ),
    ],
)
async def test_what_the_deployment_left_out_is_a_caveat(
    server: CubeServer,
    open_cube: CubeOpener,
    sent: dict[str, Any],
    ran: dict[str, Any] | None,
    row: dict[str, Any],
    kinds: list[str],
    named: str,
) -> None:
    warehouse = open_cube()
    await warehouse.ping()
    server.play(Answer(200, {"data": [row]} | ({} if ran is None else {"query": ran})))
    result = await warehouse.query(json.dumps(BY_STATUS | sent))
    assert [caveat.kind.value for caveat in result.caveats] == kinds
    assert all(named in caveat.detail for caveat in result.caveats)
