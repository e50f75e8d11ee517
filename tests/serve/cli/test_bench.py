"""``bench claims`` over real DuckDB files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.prompting import read_json_block
from tests.serve.cli.shop import build_warehouse, veridical
from tests.servers.model_server import Answer, model_server

TWO = "CREATE TABLE things AS SELECT i AS id FROM range(2) r(i)"
CLAIMS = [
    {"claim": "Nobody was ever sad about it.", "label": "not_enough_info", "kind": "odd"},
    {"claim": "The moon is made of cheese.", "label": "not-enough-info", "kind": "odd"},
    {"claim": "It will all be better next year.", "label": "entailed"},
]


def write(path: Path, claims: Sequence[dict[str, Any] | str]) -> Path:
    lines = [claim if isinstance(claim, str) else json.dumps(claim) for claim in claims]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(autouse=True)
def _alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_PROVIDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return build_warehouse(tmp_path / "things.duckdb", TWO)


def bench(*words: object) -> dict[str, Any]:
    done = veridical("bench", "claims", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_scores_come_as_one_document(tmp_path: Path, warehouse: Path) -> None:
    claims = write(tmp_path / "claims.jsonl", CLAIMS)
    scored = bench("--claims", claims, "--warehouse", warehouse, "--concurrency", 2)
    assert (scored["claims"], scored["accuracy"], scored["resumed"]) == (3, 0.6667, 0)
    assert scored["model"] == {"provider": "offline", "model": "offline-analyst"}
    assert scored["confusion"]["entailed"]["not-enough-info"] == 1
    assert scored["statuses"]["not-enough-info"]["unverifiable"] == 2
    assert scored["kinds"] == {"odd": {"claims": 2, "right": 2}}
    assert {"macro_f1", "queries_per_claim", "tokens_per_claim"} <= scored.keys()


def test_people_get_tables_and_the_progress_on_stderr(tmp_path: Path, warehouse: Path) -> None:
    claims = write(tmp_path / "claims.jsonl", CLAIMS)
    done = veridical("bench", "claims", "--claims", claims, "--warehouse", warehouse)
    assert done.exit_code == 0, done.output
    assert "3 claims judged by offline-analyst (rules, no language model)" in done.stdout
    assert "accuracy 66.7%" in done.stdout
    assert all(title in done.stdout for title in ("Combined status by label", "By kind", "Wrong"))
    assert "3/3  unverifiable (WRONG, it is entailed)" in done.stderr


def test_a_bench_that_was_stopped_goes_on(tmp_path: Path, warehouse: Path) -> None:
    claims, results = write(tmp_path / "claims.jsonl", CLAIMS), tmp_path / "results.jsonl"
    words = ("--claims", claims, "--warehouse", warehouse, "--results", results)
    assert bench(*words, "--limit", 2)["claims"] == 2
    with results.open("a") as file:
        file.write('{"id": "3", "claim": "It wi')  # a kill in the middle of a line
    whole = bench(*words)
    assert (whole["claims"], whole["resumed"]) == (3, 2)
    assert bench(*words)["resumed"] == 3


def test_a_changed_claims_file_is_noticed(tmp_path: Path, warehouse: Path) -> None:
    claims, results = write(tmp_path / "claims.jsonl", CLAIMS), tmp_path / "results.jsonl"
    words = ("--claims", claims, "--warehouse", warehouse, "--results", results)
    bench(*words)
    write(claims, [CLAIMS[0], CLAIMS[1] | {"label": "entailed"}, CLAIMS[2]])
    done = veridical("bench", "claims", *words, "--json")
    assert "claims.jsonl has changed" in done.stderr
    assert json.loads(done.stdout)["resumed"] == 2
    assert "has changed" not in veridical("bench", "claims", *words).stderr


def test_results_of_another_warehouse_are_not_mixed_in(tmp_path: Path, warehouse: Path) -> None:
    claims, results = write(tmp_path / "claims.jsonl", CLAIMS), tmp_path / "results.jsonl"
    bench("--claims", claims, "--warehouse", warehouse, "--results", results)
    other = build_warehouse(tmp_path / "other.duckdb", TWO)
    done = veridical(
        "bench", "claims", "--claims", claims, "--warehouse", other, "--results", results
    )
    assert done.exit_code == 2
    assert "holds results of another warehouse" in done.stderr


def test_claims_the_model_failed_over_are_judged_again(
    tmp_path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, results = write(tmp_path / "claims.jsonl", CLAIMS[:1]), tmp_path / "results.jsonl"
    words = ("--claims", claims, "--warehouse", warehouse, "--results", results)
    monkeypatch.setenv("LLM_RETRY_MAX_ATTEMPTS", "1")
    with model_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        server.play(*[Answer(status=400, body={"error": {"message": "bad prompt"}})] * 2)
        first = bench(*words, "--model", "openai:test-model")
        assert (first["failed"], first["resumed"]) == (1, 0)
        asked = len(server.chats)
        second = bench(*words, "--model", "openai:test-model")
        assert (second["failed"], second["resumed"]) == (0, 0)
        assert len(server.chats) > asked
        shown = read_json_block(server.chats[0].body["messages"][1]["content"], "bundle")
    assert shown["warehouse"]["tables"] == ["main.things"]


@pytest.mark.parametrize("form", ["flat", "nested", "mapping"])
def test_a_claim_names_its_database(tmp_path: Path, form: str) -> None:
    names = {"flat": "a.duckdb", "nested": "a/a.duckdb", "mapping": "else/where.db"}
    build_warehouse(tmp_path / "dbs" / names[form], TWO)
    mapping = tmp_path / "dbs" / "paths.json"
    mapping.write_text(json.dumps({"a": names["mapping"]}))
    claims = write(tmp_path / "claims.jsonl", [CLAIMS[0] | {"database": "a"}])
    where = mapping if form == "mapping" else mapping.parent
    assert bench("--claims", claims, "--database-dir", where)["claims"] == 1


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        (["{"], "line 1: not valid JSON"),
        ([CLAIMS[0], "[]"], "line 2: expected a JSON object"),
        ([CLAIMS[0], "", {"claim": "x", "label": "maybe"}], "line 3: the label 'maybe'"),
        ([{"label": "entailed"}], "line 1: the field claim"),
        ([], "holds no claims"),
        (["", CLAIMS[0] | {"id": "q", "database": "b"}], "line 2: the database 'b' is not there"),
        ([CLAIMS[0] | {"database": "../things"}], "line 1: the database '../things'"),
    ],
)
def test_a_bad_line_is_named_before_anything_runs(
    tmp_path: Path, warehouse: Path, claims: list[dict[str, Any] | str], said: str
) -> None:
    file = write(tmp_path / "claims.jsonl", claims)
    done = veridical(
        "bench", "claims", "--claims", file, "--warehouse", warehouse, "--database-dir",
        tmp_path, "--results", tmp_path / "results.jsonl",
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{file}" in done.stderr
    assert said in done.stderr
    assert not (tmp_path / "results.jsonl").exists()


def test_what_is_missing_is_said(tmp_path: Path, warehouse: Path) -> None:
    claims = write(tmp_path / "claims.jsonl", CLAIMS)
    cases: list[tuple[tuple[object, ...], int, str]] = [
        (("--claims", claims), 2, "--warehouse, --database-dir or both"),
        (("--claims", claims, "--warehouse", tmp_path / "no.duckdb"), 2, "there is no file"),
        (("--claims", claims, "--database-dir", tmp_path / "no"), 2, "no folder or file"),
        (("--claims", claims, "--database-dir", tmp_path), 2, "names no database"),
        (("--claims", claims, "--database-dir", claims), 2, "neither a folder nor a JSON file"),
        (("--claims", tmp_path / "no.jsonl", "--warehouse", warehouse), 3, "No such file"),
        (("--claims", claims, "--warehouse", claims), 3, "claims.jsonl"),
    ]
    for words, status, said in cases:
        done = veridical("bench", "claims", *words)
        assert (done.exit_code, done.stdout) == (status, ""), done.output
        assert said in done.stderr
