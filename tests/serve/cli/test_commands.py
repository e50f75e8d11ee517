"""Every command: what it prints, what it leaves, and the status it ends with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from pipeline.errors import (
    BadRequest,
    ClusterUnavailable,
    Conflict,
    EmptyWarehouse,
    ModelAuthError,
    NotFound,
    RunFailed,
    StoreUnavailable,
    VectorsUnavailable,
    WarehouseUnavailable,
)
from pipeline.ports import VectorHit
from pipeline.records import DiscoveryResult, DiscoveryRun, ExplorationStep, Project, RunStatus
from serve.cli import demo

Invoke = Callable[..., Result]
OK, RUN_FAILED, USAGE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130


def only_document(result: Result) -> dict[str, Any]:
    """The one JSON document on stdout."""
    return json.loads(result.stdout)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    path.write_bytes(b"data")
    return path


# ---------------------------------------------------------------- demo


def test_demo_json_is_exactly_one_document(veridical: Invoke, home: Path) -> None:
    result = veridical("demo", "--exit", "--json")
    document = only_document(result)
    assert result.exit_code == OK
    assert list(document) == ["project", "run", "discovery", "steps", "report"]
    assert Project.model_validate(document["project"]).name == "NYC flights demo"
    assert DiscoveryRun.model_validate(document["run"]).status is RunStatus.COMPLETED
    discovery = DiscoveryResult.model_validate(document["discovery"])
    assert len([ExplorationStep.model_validate(step) for step in document["steps"]]) == 4
    folder = home / "reports" / discovery.id
    assert document["report"] == {
        "markdown": str(folder / "report.md"),
        "html": str(folder / "report.html"),
    }
    assert all(Path(path).is_file() for path in document["report"].values())
    assert result.stderr == ""


def test_demo_says_first_that_no_language_model_is_involved(veridical: Invoke) -> None:
    first, *rest = veridical("demo", "--exit").stdout.splitlines()
    assert "No language model is involved" in first
    assert "rules" in first
    assert rest


def test_demo_says_first_which_model_is_used(
    veridical: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    first = veridical("demo", "--exit").stdout.splitlines()[0]
    assert "Anthropic" in first
    assert "ANTHROPIC_API_KEY is set" in first


def test_demo_shows_questions_sql_rows_and_insights_then_the_summary(veridical: Invoke) -> None:
    text = veridical("demo", "--exit").stdout
    order = [
        "No language model",
        "demo warehouse",
        "local Ray",
        "1/40  How many flights?",
        "SELECT COUNT(*) FROM flights",
        "1 row in 8 ms",
        "high  F9 is late",
        "Confirmed",
        "Insights",
        "segments-1",
        "Recommendations",
        "Look into F9",
        "1 of 2 findings held",
        "report.html",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_demo_takes_40_steps_unless_told(veridical: Invoke, world: Any) -> None:
    veridical("demo", "--exit", "--json")
    veridical("demo", "--exit", "--json", "--max-steps", "10")
    assert [(run.max_steps, run.min_steps) for run in world.started] == [(40, 24), (10, 6)]


def test_a_second_demo_uses_the_same_project(veridical: Invoke, world: Any) -> None:
    first = only_document(veridical("demo", "--exit", "--json"))
    second = only_document(veridical("demo", "--exit", "--json"))
    assert first["project"]["id"] == second["project"]["id"]
    assert first["run"]["id"] != second["run"]["id"]


def test_a_demo_in_another_home_points_its_project_there(
    veridical: Invoke, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    veridical("demo", "--exit", "--json")
    monkeypatch.setenv("VERIDICAL_HOME", "restored at the end")
    moved = only_document(veridical("demo", "--exit", "--json", "--home", tmp_path / "other"))
    (warehouse,) = moved["project"]["warehouses"]
    assert warehouse["config"]["path"] == str(tmp_path / "other" / "demo" / "nycflights.duckdb")
    assert len(world.store.projects.kept) == 2


def test_a_demo_that_fails_ends_with_1_and_the_reason(veridical: Invoke, world: Any) -> None:
    world.failure = "the model refused the key; set another ANTHROPIC_API_KEY"
    result = veridical("demo", "--exit")
    assert result.exit_code == RUN_FAILED
    assert world.failure in result.stderr
    document = only_document(failed := veridical("demo", "--exit", "--json"))
    assert failed.exit_code == RUN_FAILED
    assert document["run"]["status"] == "failed"
    assert document["run"]["error"] == world.failure
    assert (document["discovery"], document["report"]) == (None, None)


def test_on_a_terminal_the_api_stays_up_until_ctrl_c(
    veridical: Invoke, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "on_terminal", lambda: True)
    world.interrupt = "serving"
    result = veridical("demo", "--port", "8123")
    assert result.exit_code == OK
    assert "http://127.0.0.1:8123" in result.stdout
    assert "http://127.0.0.1:8265" in result.stdout
    assert "Ctrl-C" in result.stdout
    assert world.ports == [8123]
    assert world.open == 0, "nothing is left open"


@pytest.mark.parametrize("flag", ["--exit", "--json"])
def test_exit_and_json_keep_nothing_up(
    veridical: Invoke, world: Any, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.setattr(demo, "on_terminal", lambda: True)
    assert veridical("demo", flag).exit_code == OK
    assert world.ports == []


def test_ctrl_c_in_the_middle_of_a_run(veridical: Invoke, world: Any) -> None:
    world.interrupt = "run"
    result = veridical("demo", "--exit")
    assert result.exit_code == INTERRUPTED
    assert result.stderr == "veridical: stopped\n"
    assert world.open == 0


# ---------------------------------------------------------------- discover


@pytest.mark.parametrize("name", ["p-1", "NYC flights"])
def test_discover_takes_an_id_or_a_name(veridical: Invoke, world: Any, name: str) -> None:
    result = veridical("discover", name, "--json")
    assert result.exit_code == OK
    assert only_document(result)["project"]["id"] == "p-1"
    assert [(run.max_steps, run.min_steps) for run in world.started] == [(100, 0)]


def test_discover_passes_the_plan_on(veridical: Invoke, world: Any) -> None:
    veridical("discover", "p-1", "--effort", "low", "--areas", "trends, segments", "--json")
    (run,) = world.started
    assert (run.max_steps, run.min_steps, run.effort) == (40, 0, "low")
    assert run.areas == ["trends", "segments"]
    assert not run.skip_cache
    veridical("discover", "p-1", "--skip-cache", "--json")
    assert world.started[-1].skip_cache


@pytest.mark.parametrize(
    "words",
    [
        ("discover", "nope"),
        ("discover", "p-1", "--max-steps", "0"),
        ("discover", "p-1", "--max-steps", "5", "--min-steps", "6"),
        ("discover", "p-1", "--effort", "heroic"),
        ("discover", "p-1", "--areas", "nope"),
        ("discover", "p-1", "--max-steps", "many"),
        ("discover",),
        ("discover", "p-1", "--nope"),
        ("nope",),
        ("project", "nope"),
        ("project", "create", "Shop"),
        ("project", "show", "nope"),
        ("runs", "nope"),
        ("report", "nope"),
        ("report", "latest"),
        ("report", "--project", "nope"),
        ("search", "nope", "late"),
        ("search", "p-1", "  "),
        ("search", "p-1", "late", "--kind", "nope"),
        ("demo", "--max-steps", "0"),
        ("demo", "--port", "70000"),
        ("up", "--port", "x"),
    ],
)
def test_a_request_that_cannot_be_served_ends_with_2(
    veridical: Invoke, world: Any, words: tuple[str, ...]
) -> None:
    result = veridical(*words)
    assert result.exit_code == USAGE
    assert result.stderr.startswith("veridical: ")
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert world.started == []
    as_json = veridical(*words, "--json")
    assert as_json.exit_code == USAGE
    assert list(only_document(as_json)) == ["error"]


def test_a_name_that_two_projects_have_is_refused_with_their_ids(
    veridical: Invoke, world: Any, project: Project
) -> None:
    world.store.projects.kept["p-2"] = project.model_copy(update={"id": "p-2"})
    result = veridical("discover", "NYC flights")
    assert result.exit_code == USAGE
    assert "p-1" in result.stderr
    assert "p-2" in result.stderr


def test_a_second_discover_is_refused_while_one_is_active(
    veridical: Invoke, world: Any, run: DiscoveryRun
) -> None:
    world.store.runs.kept["busy"] = run.model_copy(
        update={"id": "busy", "status": RunStatus.RUNNING}
    )
    result = veridical("discover", "p-1")
    assert result.exit_code == USAGE
    assert "active" in result.stderr


def test_a_project_that_is_not_ready_is_refused(
    veridical: Invoke, world: Any, project: Project
) -> None:
    world.store.projects.kept["p-1"] = project.model_copy(update={"state": "indexing"})
    assert veridical("discover", "p-1").exit_code == USAGE


# ---------------------------------------------------------------- projects


def test_a_project_is_created_over_a_warehouse(
    veridical: Invoke, world: Any, warehouse: Path
) -> None:
    result = veridical("project", "create", "Shop", "--warehouse", warehouse, "--dataset", "main",
                       "--filter-field", "tenant", "--filter-value", "7", "--language", "Turkish",
                       "--json")  # fmt: skip
    made = Project.model_validate(only_document(result)["project"])
    assert result.exit_code == OK
    assert world.store.projects.kept[made.id] == made
    (config,) = made.warehouses
    assert config.config == {"path": str(warehouse)}
    assert (config.datasets, config.filter_field, config.filter_value) == (["main"], "tenant", "7")
    assert made.language == "Turkish"
    assert made.prompts.analysis_areas


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_empty_warehouse_creates_nothing(
    veridical: Invoke, world: Any, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "none.duckdb"
    if content is not None:
        path.write_bytes(content)
    before = dict(world.store.projects.kept)
    result = veridical("project", "create", "Shop", "--warehouse", path)
    assert result.exit_code == ENVIRONMENT
    assert str(path) in result.stderr
    assert world.store.projects.kept == before


@pytest.mark.parametrize(
    "more",
    [("--filter-field", "t"), ("--filter-value", "7"), ("--pack", "nope"), ("--pack", "../x")],
)
def test_a_project_that_makes_no_sense_is_refused(
    veridical: Invoke, world: Any, warehouse: Path, more: tuple[str, str]
) -> None:
    before = dict(world.store.projects.kept)
    result = veridical("project", "create", "Shop", "--warehouse", warehouse, *more)
    assert result.exit_code == USAGE
    assert world.store.projects.kept == before


def test_a_taken_name_is_refused(veridical: Invoke, warehouse: Path) -> None:
    result = veridical("project", "create", "NYC flights", "--warehouse", warehouse)
    assert result.exit_code == USAGE
    assert "already" in result.stderr


def test_projects_are_listed_and_shown(veridical: Invoke, world: Any, run: DiscoveryRun) -> None:
    world.store.runs.kept[run.id] = run
    assert "NYC flights" in veridical("project", "list").stdout
    listed = only_document(veridical("project", "list", "--json"))
    assert [project["id"] for project in listed["projects"]] == ["p-1"]
    assert "flights.duckdb" in veridical("project", "show", "NYC flights").stdout
    shown = only_document(veridical("project", "show", "p-1", "--json"))
    assert shown["project"]["id"] == "p-1"
    assert [r["id"] for r in shown["runs"]] == ["r-1"]


def test_an_empty_home_says_how_to_begin(veridical: Invoke, world: Any) -> None:
    world.store.projects.kept.clear()
    assert "veridical demo" in veridical("project", "list").stdout
    assert only_document(veridical("project", "list", "--json")) == {"projects": []}


# ---------------------------------------------------------------- runs, report, search


def test_runs_are_listed_with_their_reasons(
    veridical: Invoke, world: Any, run: DiscoveryRun
) -> None:
    change = {"status": RunStatus.FAILED, "error": "the disk is full"}
    world.store.runs.kept["r-1"] = run.model_copy(update=change)
    assert "the disk is full" in veridical("runs", "p-1").stdout
    listed = only_document(veridical("runs", "p-1", "--json"))
    assert [r["error"] for r in listed["runs"]] == ["the disk is full"]


def test_a_project_without_runs_says_so(veridical: Invoke) -> None:
    assert "no run yet" in veridical("runs", "p-1").stdout


@pytest.mark.parametrize(
    "words", [(), ("latest",), ("d-1",), ("NYC flights",), ("--project", "NYC flights")], ids=str
)
def test_a_report_is_written_again(
    veridical: Invoke, world: Any, run: DiscoveryRun, home: Path, words: tuple[str, ...]
) -> None:
    world.store.runs.kept["r-1"] = run
    world.store.discoveries.kept["d-1"] = world.result
    world.store.exploration_steps.kept["d-1"] = world.steps
    result = veridical("report", *words, "--json")
    assert result.exit_code == OK
    assert only_document(result)["report"]["html"] == str(home / "reports/d-1/report.html")
    assert (home / "reports/d-1/report.html").is_file()
    assert "report.html" in veridical("report", *words).stdout


def test_search_lists_what_is_near(veridical: Invoke, world: Any) -> None:
    named = {"name": "F9 is late", "severity": "high", "discovery_id": "d-1"}
    world.hits = [
        VectorHit("i", 0.91, {"type": "insight", **named}),
        VectorHit("r", 0.72, {"type": "recommendation", **named, "name": "Call F9"}),
    ]
    text = veridical("search", "p-1", "late planes").stdout
    assert text.index("F9 is late") < text.index("Call F9")
    assert "0.91" in text
    found = only_document(veridical("search", "p-1", "late", "--kind", "recommendation", "--json"))
    assert [(hit["id"], hit["score"], hit["name"]) for hit in found["hits"]] == [
        ("r", 0.72, "Call F9")
    ]
    world.hits = []
    assert "Nothing is indexed" in veridical("search", "p-1", "late").stdout


# ---------------------------------------------------------------- host and doctor


def test_up_status_and_down(veridical: Invoke) -> None:
    assert only_document(veridical("status", "--json")) == {"running": False}
    assert "veridical up" in veridical("status").stdout
    assert "http://127.0.0.1:9000" in veridical("up", "--port", "9000").stdout
    again = veridical("up")
    assert again.exit_code == USAGE
    assert "already" in again.stderr
    found = only_document(veridical("status", "--json"))
    assert found["running"] is True
    assert found["api_url"] == "http://127.0.0.1:9000"
    assert only_document(veridical("down", "--json")) == {"ended": True}
    assert only_document(veridical("down", "--json")) == {"ended": False}


def test_doctor_tries_every_part(veridical: Invoke) -> None:
    result = veridical("doctor", "--json")
    document = only_document(result)
    assert result.exit_code == OK
    assert document["ok"] is True
    assert [c["name"] for c in document["checks"]] == ["home", "store", "vectors", "model", "ray"]
    assert "Everything" in veridical("doctor").stdout


def test_doctor_says_what_to_do_and_goes_on(veridical: Invoke, world: Any) -> None:
    world.broken = {
        "vectors": VectorsUnavailable("no Qdrant answers at qdrant:6333"),
        "ray": RuntimeError("boom\nand more"),
    }
    result = veridical("doctor")
    assert result.exit_code == ENVIRONMENT
    assert "FAIL  vectors    no Qdrant answers at qdrant:6333" in result.stdout
    assert "check QDRANT_URL" in result.stdout
    assert "RuntimeError: boom" in result.stdout
    assert "ok    model" in result.stdout
    assert "Traceback" not in result.output


def test_doctor_opens_the_warehouse_of_a_project(
    veridical: Invoke, world: Any, project: Project, warehouse: Path
) -> None:
    assert veridical("doctor", "--project", "p-1").exit_code == ENVIRONMENT
    (config,) = project.warehouses
    config.config["path"] = str(warehouse)
    result = veridical("doctor", "--project", "p-1", "--json")
    assert result.exit_code == OK
    details = {c["name"]: c["detail"] for c in only_document(result)["checks"]}
    assert details["warehouse"] == "default (duckdb): 5 tables"


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("gone"), USAGE),
        (Conflict("busy"), USAGE),
        (BadRequest("odd"), USAGE),
        (RunFailed("failed"), RUN_FAILED),
        (StoreUnavailable("the disk is full; make room"), ENVIRONMENT),
        (WarehouseUnavailable("no file"), ENVIRONMENT),
        (EmptyWarehouse("no table"), ENVIRONMENT),
        (VectorsUnavailable("held"), ENVIRONMENT),
        (ClusterUnavailable("port 8080 is in use"), ENVIRONMENT),
        (ModelAuthError("wrong key"), ENVIRONMENT),
        (PermissionError(13, "Permission denied", "/data"), ENVIRONMENT),
        (ZeroDivisionError("division by zero"), ENVIRONMENT),
        (KeyboardInterrupt(), INTERRUPTED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_is_a_sentence_and_a_status(
    veridical: Invoke, world: Any, error: Any, status: int
) -> None:
    world.store_error = error
    result = veridical("project", "list", "--json")
    assert result.exit_code == status
    assert result.stderr.startswith("veridical: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    assert list(only_document(result)) == ["error"]


@pytest.mark.parametrize("words", [("demo", "--exit"), ("discover", "p-1"), ("runs", "p-1")])
def test_commands_fail_alike(veridical: Invoke, world: Any, words: tuple[str, ...]) -> None:
    world.store_error = StoreUnavailable("the disk is full; make room")
    result = veridical(*words)
    assert result.exit_code == ENVIRONMENT
    assert result.stderr == "veridical: the disk is full; make room\n"


def test_an_unexpected_error_is_kept_in_a_log(veridical: Invoke, world: Any, home: Path) -> None:
    world.store_error = ZeroDivisionError("division by zero")
    result = veridical("project", "list")
    assert "division by zero" in result.stderr
    log = home / "logs" / "cli.log"
    assert str(log) in result.stderr
    assert "Traceback" in log.read_text()


def test_a_setting_that_makes_no_sense_is_refused(
    veridical: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALIDATION_CONCURRENCY", "-1")
    result = veridical("project", "list")
    assert result.exit_code == USAGE
    assert "VALIDATION_CONCURRENCY" in result.stderr
