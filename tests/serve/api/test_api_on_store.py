"""The API over the real store: what one request writes, the next one reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from adapters.store import connect, settled
from pipeline.records import DiscoveryRun, Project, RunStep, RunStepType
from pipeline.settings import Settings
from serve.api import ApiDeps, create_app


@pytest.fixture
async def api(home: Path) -> AsyncGenerator[tuple[httpx2.AsyncClient, Any]]:
    settings = Settings.load()
    store = await connect(settings.store, settings.home.path)

    async def start_run(_: Project, run: DiscoveryRun) -> str:
        return run.id

    deps = ApiDeps(store=store, start_run=start_run, checks={"store": store.ping})
    transport = httpx2.ASGITransport(app=create_app(deps))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client, store
    await store.close()
    await asyncio.to_thread(settled, settings.home.path)


async def test_from_a_project_to_the_feed_of_its_run(
    api: tuple[httpx2.AsyncClient, Any],
) -> None:
    client, store = api
    warehouse = {"provider": "duckdb", "config": {"path": "/data/a.b$c.duckdb"}}
    answer = await client.post("/api/v1/projects", json={"name": "Shop", "warehouse": warehouse})
    made = answer.json()["data"]
    assert answer.status_code == 201

    shown = (await client.get(f"/api/v1/projects/{made['id']}")).json()["data"]
    assert shown["warehouses"] == made["warehouses"]
    listed = (await client.get("/api/v1/projects")).json()["data"]
    assert [project["id"] for project in listed] == [made["id"]]

    discover = f"/api/v1/projects/{made['id']}/discover"
    started = await client.post(discover, json={"effort": "lower"})
    run_id = started.json()["data"]["run_id"]
    assert started.status_code == 202
    again = await client.post(discover)
    assert (again.status_code, again.json()["run_id"]) == (409, run_id)

    run: DiscoveryRun = await store.runs.get(run_id)
    for number in (1, 2, 3):
        await store.run_steps.append(
            RunStep(
                run_id=run_id,
                project_id=made["id"],
                step_num=number,
                timestamp=run.started_at,
                type=RunStepType.QUERY,
            )
        )
    feed = f"/api/v1/runs/{run_id}/steps"
    first = (await client.get(feed, params={"limit": 1})).json()["data"]
    rest = (await client.get(feed, params={"since_id": first[0]["id"]})).json()["data"]
    assert [row["step_num"] for row in [*first, *rest]] == [1, 2, 3]

    assert await store.runs.fail(run_id, 1, "stopped")
    ended = (await client.get(f"/api/v1/runs/{run_id}")).json()["data"]
    assert (ended["status"], ended["error"]) == ("failed", "stopped")
    assert (await client.post(discover)).status_code == 202
    assert (await client.get("/health/ready")).status_code == 200
