"""``POST /api/v1/runs/{id}/resume`` (reference C and K.4)."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from starlette.testclient import TestClient

from pipeline.records import DiscoveryRun
from serve.api import ApiDeps, create_app


class RunsLike(Protocol):
    kept: dict[str, DiscoveryRun]


class StoreLike(Protocol):
    runs: RunsLike


class StarterLike(Protocol):
    taken: list[tuple[str, str]]
    refusal: str


STOPPED: dict[str, Any] = {"status": "failed", "last_checkpoint_step": 4, "error": "it broke"}


def test_a_failed_run_is_resumed_with_202(
    client: TestClient, store: StoreLike, starter: StarterLike, run: DiscoveryRun
) -> None:
    store.runs.kept[run.id] = DiscoveryRun.model_validate(run.model_dump() | STOPPED)
    answer = client.post(f"/api/v1/runs/{run.id}/resume")
    data = answer.json()["data"]
    assert answer.status_code == 202
    assert (data["status"], data["run_id"], data["attempt"]) == ("resumed", run.id, 2)
    assert starter.taken == [("p-1", run.id)]
    assert client.post(f"/api/v1/runs/{run.id}/resume").status_code == 409


@pytest.mark.parametrize(
    ("run_id", "change", "code", "told"),
    [
        ("nope", {}, 404, "nope"),
        ("r-1", {}, 409, "is completed"),
        ("r-1", {"status": "failed"}, 409, "is failed"),
    ],
)
def test_a_run_that_cannot_be_resumed_is_404_or_409(
    client: TestClient,
    store: StoreLike,
    run: DiscoveryRun,
    run_id: str,
    change: Any,
    code: int,
    told: str,
) -> None:
    store.runs.kept[run.id] = DiscoveryRun.model_validate(run.model_dump() | change)
    answer = client.post(f"/api/v1/runs/{run_id}/resume")
    assert answer.status_code == code
    assert answer.json().keys() == {"error"}
    assert told in answer.json()["error"]


def test_a_resumed_run_that_nobody_takes_is_failed_again(
    client: TestClient, store: StoreLike, starter: StarterLike, run: DiscoveryRun
) -> None:
    store.runs.kept[run.id] = DiscoveryRun.model_validate(run.model_dump() | STOPPED)
    starter.refusal = "no cluster"
    assert client.post(f"/api/v1/runs/{run.id}/resume").status_code == 503
    assert (store.runs.kept[run.id].status, store.runs.kept[run.id].resumable) == ("failed", True)


def test_runs_can_be_resumed_by_who_first_clears_dead_ones(
    store: Any, starter: Any, run: DiscoveryRun
) -> None:
    store.runs.kept[run.id] = DiscoveryRun.model_validate(run.model_dump() | STOPPED)
    asked: list[str] = []

    async def resume(run_id: str) -> DiscoveryRun:
        asked.append(run_id)
        return await store.begin_resume(run_id)

    deps = ApiDeps(store=store, start_run=starter, resume_run=resume)
    answer = TestClient(create_app(deps)).post(f"/api/v1/runs/{run.id}/resume")
    assert (answer.status_code, asked) == (202, [run.id])
