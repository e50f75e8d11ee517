"""`veridical demo` as a newcomer runs it: a whole discovery over the real flights tables."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from actors.janitor import members
from pipeline.sql.rows import rows_of
from pipeline.validation.evidence import attested

STEPS = 40
Document = dict[str, Any]


def demo(home: Path, *arguments: str) -> Document:
    """Run the demo command to its end and return its JSON document."""
    ran = subprocess.run(
        [Path(sys.executable).with_name("veridical"), "demo", "--exit", "--json", *arguments],
        env={**os.environ, "VERIDICAL_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(home: Path) -> Document:
    return demo(home, "--max-steps", str(STEPS))


@pytest.fixture(scope="module")
def flights(home: Path, shown: Document) -> duckdb.DuckDBPyConnection:
    path = shown["project"]["warehouses"][0]["config"]["path"]
    return duckdb.connect(path, read_only=True)


def reran(db: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    return rows_of(db.sql(sql).to_arrow_table())


def claims(shown: Document) -> list[tuple[str, Document]]:
    """Every claim of every verdict, beside its document's name."""
    documents = [*shown["discovery"]["insights"], *shown["discovery"]["recommendations"]]
    return [
        (doc.get("name") or doc["title"], claim)
        for doc in documents
        for agent in ("verifier", "refuter")
        for claim in doc["validation"][agent]["claim_verdicts"]
    ]


pytestmark = pytest.mark.timeout(320)


def test_the_document_has_the_parts_that_are_promised(shown: Document) -> None:
    assert list(shown) == ["project", "run", "discovery", "steps", "report"]
    assert shown["run"]["status"] == "completed"
    assert shown["run"]["discovery_id"] == shown["discovery"]["id"]


def test_there_are_insights_over_the_areas_each_judged_by_both_agents(shown: Document) -> None:
    insights = shown["discovery"]["insights"]
    assert len(insights) >= 8
    assert len({insight["analysis_area"] for insight in insights}) >= 3
    for insight in insights:
        judged = insight["validation"]
        assert judged["verifier"]["claim_verdicts"]
        assert judged["refuter"]["claim_verdicts"]
        assert judged["combined"] in {"confirmed", "supported"}, insight["name"]


def test_recommendations_rest_on_insights_that_exist(shown: Document) -> None:
    ids = {insight["id"] for insight in shown["discovery"]["insights"]}
    recommendations = shown["discovery"]["recommendations"]
    assert len(recommendations) >= 2
    for recommendation in recommendations:
        assert recommendation["related_insight_ids"]
        assert set(recommendation["related_insight_ids"]) <= ids


def test_every_query_step_reruns_to_the_same_rows(
    shown: Document, flights: duckdb.DuckDBPyConnection
) -> None:
    queries = [s for s in shown["steps"] if s["action"] == "query_data" and not s["error"]]
    assert len(queries) >= 20
    for step in queries:
        rows = reran(flights, step["query"])
        assert len(rows) == step["row_count"]
        assert rows[: len(step["query_result"])] == step["query_result"]


def test_every_evidence_row_can_be_reproduced(
    shown: Document, flights: duckdb.DuckDBPyConnection
) -> None:
    steps = {step["step"]: step for step in shown["steps"]}
    for name, claim in claims(shown):
        evidence = claim["evidence"]
        if evidence["kind"] == "none":
            continue
        step_row = evidence["kind"] == "step_row"
        sql = steps[evidence["step_id"]]["query"] if step_row else evidence["query_sql"]
        assert attested(evidence["row"], reran(flights, sql)), f"{name}: {claim['claim_text']}"


def test_a_claim_that_holds_has_evidence_that_a_tool_returned(shown: Document) -> None:
    for _, claim in claims(shown):
        if claim["status"] in {"confirmed", "supported", "rejected"}:
            assert claim["evidence"]["row"]
            assert claim["evidence"]["provenance"]["attested"]


def test_the_report_holds_every_insight_and_stands_alone(shown: Document) -> None:
    html = Path(shown["report"]["html"]).read_text()
    markdown = Path(shown["report"]["markdown"]).read_text()
    for insight in shown["discovery"]["insights"]:
        assert f"insight-{insight['ref'].replace('_', '-')}" in markdown
    assert "<svg" in html
    assert not re.search(r"""(?:src|href)\\s*=\\s*["']?(?:https?:)?//""", html)


def test_it_says_that_no_language_model_is_involved(shown: Document) -> None:
    assert shown["discovery"]["llm_provider"] == "offline"
    assert "no language model" in Path(shown["report"]["html"]).read_text().lower()


def test_two_fresh_demos_find_the_same(shown: Document, tmp_path: Path) -> None:
    def findings(document: Document) -> list[Document]:
        told = ("ref", "name", "description", "severity", "affected_count", "source_steps")
        return [
            {**{key: insight[key] for key in told}, "combined": insight["validation"]["combined"]}
            for insight in document["discovery"]["insights"]
        ]

    assert findings(demo(tmp_path, "--max-steps", str(STEPS))) == findings(shown)


def test_a_second_discovery_knows_what_the_first_one_found(shown: Document, home: Path) -> None:
    second = demo(home, "--max-steps", "12")
    assert second["project"]["id"] == shown["project"]["id"]
    assert second["discovery"]["id"] != shown["discovery"]["id"]
    first_request = next(s["llm_request"] for s in second["steps"] if s["llm_request"])
    assert shown["discovery"]["insights"][0]["name"] in first_request


def test_nothing_is_left_behind(home: Path, shown: Document) -> None:
    assert shown
    assert members(home, "", os.getpid()) == []
