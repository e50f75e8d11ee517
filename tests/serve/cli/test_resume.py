"""``veridical resume``, and where the command line names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from pipeline.records import DiscoveryRun, RunStatus

Invoke = Callable[..., Result]
OK, RUN_FAILED, USAGE = 0, 1, 2


def only_document(result: Result) -> dict[str, Any]:
    """The one JSON document on stdout."""
    return json.loads(result.stdout)


@pytest.fixture
def stopped(world: Any, run: DiscoveryRun) -> DiscoveryRun:
    change = {"status": "failed", "last_checkpoint_step": 4, "error": "the disk is full"}
    failed = DiscoveryRun.model_validate(run.model_dump() | change | {"discovery_id": ""})
    world.store.runs.kept[run.id] = failed
    return failed


def test_a_failed_run_is_gone_on_with_as_a_discovery_goes(
    veridical: Invoke, world: Any, stopped: DiscoveryRun
) -> None:
    result = veridical("resume", stopped.id)
    assert result.exit_code == OK, result.stderr
    for told in ("No language model is involved", "How many flights?", "F9 is late", "Report:"):
        assert told in result.stdout
    assert [(run.id, run.attempt) for run in world.started] == [("r-1", 2)]
    assert world.open == 0


def test_resume_json_is_the_document_of_discover(veridical: Invoke, stopped: DiscoveryRun) -> None:
    document = only_document(veridical("resume", stopped.id, "--json"))
    assert document.keys() == {"project", "run", "discovery", "steps", "report"}
    assert (document["run"]["id"], document["run"]["attempt"]) == ("r-1", 2)
    assert document["run"]["status"] == "completed"


def test_a_failed_run_s_error_line_names_the_command_that_goes_on(
    veridical: Invoke, world: Any, stopped: DiscoveryRun
) -> None:
    world.failure = "the warehouse is gone"
    result = veridical("resume", stopped.id)
    assert result.exit_code == RUN_FAILED
    assert result.stderr.endswith(
        "the run failed: the warehouse is gone; to go on with it: veridical resume r-1\n"
    )
    fresh = veridical("discover", "p-1")
    assert "resume" not in fresh.stderr, "a run that kept no step cannot be resumed"


@pytest.mark.parametrize(
    ("run_id", "why"), [("nope", "no 'nope'"), ("r-1", "no checkpoint to resume from")]
)
def test_what_cannot_be_resumed_ends_with_2_before_anything_is_started(
    veridical: Invoke, world: Any, run: DiscoveryRun, run_id: str, why: str
) -> None:
    world.store.runs.kept[run.id] = run
    result = veridical("resume", run_id)
    assert result.exit_code == USAGE
    assert why in result.stderr
    assert "starting a local Ray" not in result.stdout
    assert world.started == []


def test_runs_says_which_can_be_resumed(
    veridical: Invoke, world: Any, stopped: DiscoveryRun, run: DiscoveryRun
) -> None:
    world.store.runs.kept["r-2"] = run.model_copy(update={"id": "r-2"})
    shown = veridical("runs", "p-1").stdout
    assert "To go on with r-1 after its 4 steps: veridical resume r-1" in shown
    assert "resume r-2" not in shown
    listed = only_document(veridical("runs", "p-1", "--json"))["runs"]
    assert {r["id"]: r["resumable"] for r in listed} == {"r-1": True, "r-2": False}


def test_a_run_whose_driver_has_died_is_listed_as_failed(
    veridical: Invoke, world: Any, run: DiscoveryRun
) -> None:
    world.store.runs.kept[run.id] = run.model_copy(update={"status": RunStatus.RUNNING})
    world.dead = [run.id]
    listed = only_document(veridical("runs", "p-1", "--json"))["runs"]
    assert [(r["status"], r["error"]) for r in listed] == [("failed", "its process ended")]
