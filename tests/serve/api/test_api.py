"""The HTTP contract: paths, statuses and the two envelopes (reference C)."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import pytest
from starlette.testclient import TestClient

from pipeline.errors import StoreUnavailable
from pipeline.packs import export_pack, load_pack
from pipeline.records import (
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Project,
    RunStatus,
    RunStep,
    RunStepType,
)
from serve.api import ApiDeps, create_app, health

PROJECTS = "/api/v1/projects"
DUCKDB: dict[str, Any] = {"provider": "duckdb", "config": {"path": "/data/shop.duckdb"}}
NOTHING: dict[str, Any] = {}
CRM: dict[str, Any] = {**DUCKDB, "id": "crm"}
CUBE: dict[str, Any] = {
    "id": "sales",
    "provider": "cube",
    "config": {"url": "http://localhost:4000", "token": "s3cret"},
}


class Kept(Protocol):
    kept: Any


class StoreLike(Protocol):
    """The store of the fixtures, as these tests reach into it."""

    projects: Kept
    runs: Kept
    run_steps: Kept
    discoveries: Kept
    exploration_steps: Kept


class StarterLike(Protocol):
    taken: list[tuple[str, str]]
    refusal: str


# ---------------------------------------------------------------- health


@pytest.mark.parametrize("path", ["/health", "/api/v1/health"])
def test_health_answers(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (200, {"data": {"status": "ok"}})


async def _works() -> None:
    return None


async def _refuses() -> None:
    raise StoreUnavailable("no MongoDB answers at db:27017")


async def _hangs() -> None:
    await asyncio.Event().wait()


def _with_checks(kept: Any, starter: Any, **checks: Any) -> TestClient:
    return TestClient(create_app(ApiDeps(store=kept, start_run=starter, checks=checks)))


def test_ready_when_every_part_answers(store: Any, starter: Any) -> None:
    answer = _with_checks(store, starter, store=_works, vectors=_works).get("/health/ready")
    checks = {"store": "ok", "vectors": "ok"}
    assert (answer.status_code, answer.json()) == (
        200,
        {"data": {"status": "ready", "checks": checks}},
    )


def test_degraded_is_503_and_names_what_is_down(
    store: Any, starter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.05)
    answer = _with_checks(store, starter, store=_refuses, vectors=_hangs, ray=_works).get(
        "/health/ready"
    )
    body = answer.json()
    assert answer.status_code == 503
    assert "store is down: no MongoDB answers at db:27017" in body["error"]
    assert "vectors is down: no answer within" in body["error"]
    assert body["status"] == "degraded"
    assert body["checks"]["ray"] == "ok"
    assert "data" not in body


# ---------------------------------------------------------------- projects


def test_a_project_is_created_with_its_packs_prompts(client: TestClient, store: StoreLike) -> None:
    body = {
        "name": "  Shop ",
        "warehouse": {**DUCKDB, "filter_field": "tenant", "filter_value": "7"},
        "language": "Turkish",
        "validation_enabled": False,
        "recommendation_verdicts": ["confirmed"],
    }
    answer = client.post(PROJECTS, json=body)
    made = answer.json()["data"]
    assert answer.status_code == 201
    assert made["name"] == "Shop"
    assert made["domain"] == "general"
    assert made["language"] == "Turkish"
    assert made["validation_enabled"] is False
    assert made["recommendation_verdicts"] == ["confirmed"]
    assert made["warehouses"][0]["filter_value"] == "7"
    assert len(made["prompts"]["analysis_areas"]) >= 4
    assert made["prompts"]["exploration"]
    assert Project.model_validate(made) == store.projects.kept[made["id"]]


def test_datasources_bring_packs_of_their_own(client: TestClient, store: StoreLike) -> None:
    retail = export_pack(load_pack("general"))
    retail["pack"]["slug"] = "retail"
    retail["pack"]["analysis_areas"]["base"][0]["prompt"] = "Ours"
    body = {
        "name": "Shop",
        "warehouses": [
            {**CUBE, "domain": "measures"},
            {**DUCKDB, "domain": "general"},
            {**CRM, "pack": retail, "profile": {"since": 2019}},
        ],
    }
    answer = client.post(PROJECTS, json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()["data"]
    assert (made["domain"], made["primary_warehouse_id"]) == ("general", "default")
    assert [(w["id"], w["domain"]) for w in made["warehouses"]] == [
        ("sales", "measures"),
        ("default", "general"),
        ("crm", "retail"),
    ]
    assert "s3cret" not in answer.text
    assert "s3cret" not in client.get(PROJECTS).text + client.get(f"{PROJECTS}/{made['id']}").text
    kept = store.projects.kept[made["id"]]
    assert kept.warehouses[0].config["token"] == "s3cret"
    own = {id_: area.datasource_id for id_, area in kept.areas().items() if area.datasource_id}
    assert own == {"crm_trends": "crm", "measure_movement": "sales", "measure_mix": "sales"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"warehouse": DUCKDB}, "name is missing"),
        ({"name": "  ", "warehouse": DUCKDB}, "name:"),
        ({"name": "x" * 201, "warehouse": DUCKDB}, "name:"),
        ({"name": 7, "warehouse": DUCKDB}, "name:"),
        ({"name": "Shop"}, "warehouse is needed"),
        ({"name": "Shop", "warehouse": None}, "warehouse is needed"),
        ({"name": "Shop", "warehouse": {"provider": "duckdb"}}, "config.path"),
        ({"name": "Shop", "warehouse": {**DUCKDB, "provider": ""}}, "provider"),
        ({"name": "Shop", "warehouse": {**DUCKDB, "filter_field": "t"}}, "belong together"),
        ({"name": "Shop", "warehouse": DUCKDB, "domain": "nope"}, "nope"),
        ({"name": "Shop", "warehouse": DUCKDB, "domain": "../etc"}, "../etc"),
        ({"name": "Shop", "warehouse": DUCKDB, "category": "nope"}, "nope"),
        ({"name": "Shop", "warehouses": [DUCKDB, DUCKDB]}, "share an id"),
        ({"name": "Shop", "warehouse": DUCKDB, "primary_warehouse_id": "b"}, "primary"),
        ({"name": "Shop", "warehouse": {**DUCKDB, "domain": "nope"}}, "no domain pack 'nope'"),
        ({"name": "Shop", "warehouse": DUCKDB, "domain": "measures"}, "the shape 'cube'"),
        (
            {"name": "Shop", "warehouse": DUCKDB, "pack": {"pack": NOTHING}},
            "pack.slug: Field required",
        ),
        (
            {"name": "Shop", "warehouses": [{**CRM, "pack": NOTHING}, DUCKDB]},
            "pack: Field required",
        ),
        ({"name": "Shop", "warehouses": [CUBE]}, "'sales' is a cube; add a warehouse"),
        (
            {"name": "Shop", "warehouses": [CUBE, CRM], "primary_warehouse_id": "sales"},
            "set primary_warehouse_id to 'crm'",
        ),
        ([], "body"),
        ("text", "body"),
    ],
)
def test_a_project_that_cannot_be_is_refused_with_400(
    client: TestClient, store: StoreLike, body: Any, told: str
) -> None:
    before = dict(store.projects.kept)
    answer = client.post(PROJECTS, json=body)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert told in answer.json()["error"]
    assert store.projects.kept == before


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"nul"])
def test_a_body_that_is_not_json_is_refused_with_400(client: TestClient, content: bytes) -> None:
    answer = client.post(PROJECTS, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}


def test_projects_are_listed_newest_first_in_pages(client: TestClient) -> None:
    for name in ("a", "b", "c"):
        client.post(PROJECTS, json={"name": name, "warehouse": DUCKDB})

    def names(query: str) -> list[str]:
        return [project["name"] for project in client.get(PROJECTS + query).json()["data"]]

    assert names("") == ["c", "b", "a", "NYC flights"]
    assert names("?limit=2") == ["c", "b"]
    assert names("?limit=2&offset=1") == ["b", "a"]
    assert names("?offset=9") == []


def test_a_project_is_shown(client: TestClient, project: Project) -> None:
    answer = client.get(f"{PROJECTS}/p-1")
    assert answer.status_code == 200
    assert Project.model_validate(answer.json()["data"]) == project


# ---------------------------------------------------------------- discover


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        (None, (100, 60)),
        ({}, (100, 60)),
        ({"effort": "lower"}, (20, 12)),
        ({"effort": "low"}, (40, 24)),
        ({"effort": "medium"}, (60, 36)),
        ({"effort": "high"}, (80, 48)),
        ({"effort": "higher"}, (100, 60)),
        ({"effort": "high", "max_steps": 7}, (7, 4)),
        ({"max_steps": 1}, (1, 0)),
        ({"max_steps": 40, "min_steps": 0}, (40, 0)),
        ({"max_steps": 40, "min_steps": 40}, (40, 40)),
        ({"areas": ["trends", "trends"]}, (100, 60)),
    ],
)
def test_discover_starts_a_run_with_202(
    client: TestClient, store: StoreLike, starter: StarterLike, body: Any, steps: tuple[int, int]
) -> None:
    answer = client.post(f"{PROJECTS}/p-1/discover", json=body)
    data = answer.json()["data"]
    assert answer.status_code == 202
    assert data["status"] == "started"
    assert data["message"]
    run = store.runs.kept[data["run_id"]]
    assert (run.max_steps, run.min_steps) == steps
    assert run.status is RunStatus.PENDING
    assert run.areas == (["trends"] if body and body.get("areas") else [])
    assert [event.status for event in run.lifecycle] == [RunStatus.PENDING]
    assert starter.taken == [("p-1", run.id)]


def test_discover_needs_no_body(client: TestClient) -> None:
    assert client.post(f"{PROJECTS}/p-1/discover").status_code == 202


@pytest.mark.parametrize(
    "body",
    [
        {"max_steps": 0},
        {"max_steps": -1},
        {"max_steps": 10**30},
        {"max_steps": 10, "min_steps": 11},
        {"min_steps": -1},
        {"max_steps": "many"},
        {"max_steps": 2.5},
        {"effort": "heroic"},
        {"areas": ["nope"]},
        {"areas": ["off"]},
        {"areas": "trends"},
    ],
)
def test_discover_with_bad_steps_effort_or_areas_is_400(
    client: TestClient, store: StoreLike, body: Any
) -> None:
    answer = client.post(f"{PROJECTS}/p-1/discover", json=body)
    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert store.runs.kept == {}


def test_a_second_discover_is_409_with_the_active_run(client: TestClient) -> None:
    first = client.post(f"{PROJECTS}/p-1/discover").json()["data"]["run_id"]
    answer = client.post(f"{PROJECTS}/p-1/discover")
    body = answer.json()
    assert answer.status_code == 409
    assert body["status"] == "already_running"
    assert body["run_id"] == first
    assert body["message"] == body["error"]
    assert "data" not in body


@pytest.mark.parametrize("change", [{"state": "indexing"}, {"warehouses": []}])
def test_discover_in_a_project_that_is_not_ready_is_409(
    client: TestClient, store: StoreLike, project: Project, change: dict[str, Any]
) -> None:
    store.projects.kept["p-1"] = project.model_copy(update=change)
    answer = client.post(f"{PROJECTS}/p-1/discover")
    assert answer.status_code == 409
    assert answer.json().keys() == {"error"}


def test_a_run_that_nobody_takes_is_failed_and_does_not_block_the_project(
    client: TestClient, store: StoreLike, starter: StarterLike
) -> None:
    starter.refusal = "no cluster"
    answer = client.post(f"{PROJECTS}/p-1/discover")
    assert answer.status_code == 503
    assert "no cluster" in answer.json()["error"]
    (run,) = store.runs.kept.values()
    assert run.status is RunStatus.FAILED
    assert "no cluster" in run.error
    starter.refusal = ""
    assert client.post(f"{PROJECTS}/p-1/discover").status_code == 202


def test_runs_can_be_created_by_who_first_clears_dead_ones(store: Any, starter: Any) -> None:
    cleared: list[str] = []

    async def create(run: DiscoveryRun) -> None:
        cleared.append(run.project_id)
        await store.runs.create(run)

    deps = ApiDeps(store=store, start_run=starter, create_run=create)
    assert TestClient(create_app(deps)).post(f"{PROJECTS}/p-1/discover").status_code == 202
    assert cleared == ["p-1"]


# ---------------------------------------------------------------- runs and discoveries


def test_a_run_its_list_and_its_feed(
    client: TestClient, store: StoreLike, run: DiscoveryRun
) -> None:
    run = run.model_copy(update={"attempt": 2})
    store.runs.kept[run.id] = run
    rows = [
        RunStep(
            id=f"{number:03}",
            run_id=run.id,
            attempt=1 if number == 1 else 2,
            timestamp=run.started_at,
            type=RunStepType.QUERY,
        )
        for number in range(1, 6)
    ]
    store.run_steps.kept = rows

    def ids(query: str = "") -> list[str]:
        answer = client.get(f"/api/v1/runs/r-1/steps{query}")
        return [row["id"] for row in answer.json()["data"]]

    assert DiscoveryRun.model_validate(client.get("/api/v1/runs/r-1").json()["data"]) == run
    assert [r["id"] for r in client.get(f"{PROJECTS}/p-1/runs").json()["data"]] == ["r-1"]
    assert ids() == ["002", "003", "004", "005"], "only the current attempt"
    assert ids("?since_id=003") == ["004", "005"]
    assert ids("?since_id=003&limit=1") == ["004"]
    assert ids("?since_id=005") == []


def test_a_discovery_and_its_exploration_steps(
    client: TestClient, store: StoreLike, result: DiscoveryResult, steps: list[ExplorationStep]
) -> None:
    store.discoveries.kept["d-1"] = result
    store.exploration_steps.kept["d-1"] = steps
    shown = client.get("/api/v1/discoveries/d-1").json()["data"]
    assert DiscoveryResult.model_validate(shown) == result
    listed = client.get("/api/v1/discoveries/d-1/exploration-steps").json()["data"]
    assert [ExplorationStep.model_validate(step) for step in listed] == steps
    page = client.get("/api/v1/discoveries/d-1/exploration-steps?limit=2").json()["data"]
    assert [step["step"] for step in page] == [1, 2]


# ---------------------------------------------------------------- every way of failing


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/projects/nope", 404),
        ("GET", "/api/v1/projects/nope/runs", 404),
        ("POST", "/api/v1/projects/nope/discover", 404),
        ("GET", "/api/v1/runs/nope", 404),
        ("GET", "/api/v1/runs/nope/steps", 404),
        ("GET", "/api/v1/discoveries/nope", 404),
        ("GET", "/api/v1/discoveries/nope/insights/trends-1", 404),
        ("GET", "/api/v1/discoveries/nope/exploration-steps", 404),
        ("GET", "/api/v1/discoveries/nope/analysis-steps", 404),
        ("GET", "/api/v1/discoveries/nope/validation-results", 404),
        ("GET", "/api/v1/discoveries/nope/recommendation-log", 404),
        ("GET", "/", 404),
        ("GET", "/api/v1/nope", 404),
        ("GET", "/docs", 404),
        ("DELETE", "/api/v1/projects", 405),
        ("PUT", "/health", 405),
        ("GET", "/api/v1/projects?limit=0", 400),
        ("GET", "/api/v1/projects?limit=many", 400),
        ("GET", "/api/v1/projects?limit=201", 400),
        ("GET", "/api/v1/projects?offset=-1", 400),
        ("GET", "/api/v1/runs/r-1/steps?limit=0", 400),
        ("GET", "/api/v1/projects/unreachable", 503),
        ("GET", "/api/v1/projects/broken", 500),
    ],
)
def test_every_failure_has_the_error_envelope(
    client: TestClient, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    assert len(answer.json()["error"]) > 10


def test_an_unexpected_error_tells_no_secret(client: TestClient) -> None:
    assert "secret" not in client.get("/api/v1/projects/broken").text


# ---------------------------------------------------------------- coming up and going down


def test_a_factory_is_awaited_on_the_serving_loop_and_closed_at_the_end(
    store: Any, starter: Any
) -> None:
    events: list[str] = []

    async def close() -> None:
        events.append("closed")

    async def factory() -> ApiDeps:
        events.append("opened")
        return ApiDeps(store=store, start_run=starter, close=close)

    with TestClient(create_app(factory)) as client:
        assert client.get(f"{PROJECTS}/p-1").status_code == 200
        assert events == ["opened"]
    assert events == ["opened", "closed"]
