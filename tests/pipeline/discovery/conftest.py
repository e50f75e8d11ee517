"""A whole discovery in memory: a warehouse with three answers and a model that plays every role."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pipeline.discovery import DiscoveryDeps, RunCatalog
from pipeline.errors import QueryFailed
from pipeline.packs import load_pack, new_project
from pipeline.ports import ChatRequest, QueryResult, VectorHit, Warehouse, WarehouseInfo
from pipeline.prompting import read_json_block
from pipeline.records import (
    AnalysisStep,
    Column,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Feedback,
    Project,
    ProjectContext,
    RecommendationStep,
    RunPhase,
    RunStep,
    SchemaLookup,
    StandaloneDoc,
    Table,
    TableHit,
    ValidationResult,
    WarehouseConfig,
)
from pipeline.settings import Settings
from pipeline.sql.healing import Healer
from pipeline.step_index import StepIndexCore
from pipeline.testing import Scripted, ScriptedModel
from pipeline.validation.agents import LocalAgents
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "SELECT month, avg(delay) AS mean FROM flights GROUP BY 1": [
        {"month": n, "mean": 8.0 + n} for n in range(1, 13)
    ],
    "SELECT carrier, count(*) AS n FROM flights GROUP BY 1": [
        {"carrier": "UA", "n": 58665},
        {"carrier": "AA", "n": 32729},
    ],
    "SELECT count(*) AS n FROM flights WHERE delay IS NULL": [{"n": 8255}],
}
PURPOSES = ("Trend of delay by month", "Largest carriers by share", "Missing delay values")
FLIGHTS = Table(
    name="main.flights",
    columns=[Column(name="carrier", type="VARCHAR"), Column(name="delay", type="DOUBLE")],
    row_count=336_776,
)


class MemoryWarehouse:
    info = WarehouseInfo(id="default", dialect="duckdb", datasets=("main",))

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        if sql not in ANSWERS:
            raise QueryFailed(f"Catalog Error: {sql}", sql)
        table = pa.Table.from_pylist(ANSWERS[sql])
        return QueryResult(sql=sql, table=table, row_count=table.num_rows)

    async def tables(self) -> list[Table]:
        return [FLIGHTS]

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        return []


@dataclass
class MemoryCatalog:
    known: list[Table] = field(default_factory=lambda: [FLIGHTS])

    async def load(self) -> dict[str, str]:
        return {}

    async def tables(self) -> list[Table]:
        return self.known

    async def text(self, keywords: Sequence[str], budget_tokens: int) -> str:
        return "datasource default | dialect duckdb | 1 tables\nmain.flights | 2 columns"

    async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
        return SchemaLookup(tables=[t for t in self.known if t.name in tables])

    async def search(self, text: str, k: int) -> list[TableHit]:
        return []


class LetterEmbedder:
    """Counts letters: near enough for steps that share words."""

    id, dim = "letters", 26

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [
            [1.0 + text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
            for text in texts
        ]


@dataclass
class Desk:
    """``Journal``, ``Memory``, ``Archive`` and ``Findings``: everything that a run writes to."""

    phases: list[tuple[RunPhase, int]] = field(default_factory=list[tuple[RunPhase, int]])
    rows: list[RunStep] = field(default_factory=list[RunStep])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    saved: list[DiscoveryResult] = field(default_factory=list[DiscoveryResult])
    exploration: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    analysis: list[AnalysisStep] = field(default_factory=list[AnalysisStep])
    validation: list[ValidationResult] = field(default_factory=list[ValidationResult])
    recommendation: RecommendationStep | None = None
    standalone: list[StandaloneDoc] = field(default_factory=list[StandaloneDoc])
    known: ProjectContext | None = None
    order: list[str] = field(default_factory=list[str])
    publish_error: Exception | None = None
    lose_at: RunPhase | None = None
    lost: Exception | None = None

    async def phase(self, phase: RunPhase, progress: int, detail: str = "") -> None:
        if phase is self.lose_at and self.lost:
            raise self.lost
        self.phases.append((phase, progress))

    async def feed(self, row: RunStep) -> None:
        self.rows.append(row)

    async def step(self, step: ExplorationStep) -> None:
        return None

    async def count(self, **counters: int) -> None:
        self.counters |= counters

    async def recent_discoveries(
        self, project_id: str, limit: int, *, exclude_run: str
    ) -> list[DiscoveryResult]:
        return [d for d in self.saved if d.run_id != exclude_run][-limit:]

    async def feedback(self, project_id: str) -> list[Feedback]:
        return []

    async def context(self, project_id: str) -> ProjectContext | None:
        return self.known

    async def save_context(self, context: ProjectContext) -> None:
        self.order.append("context")
        self.known = context

    async def save_discovery(
        self,
        result: DiscoveryResult,
        *,
        exploration: Sequence[ExplorationStep],
        analysis: Sequence[AnalysisStep],
        validation: Sequence[ValidationResult],
        recommendation: RecommendationStep | None,
    ) -> None:
        self.order.append("save")
        self.saved = [d for d in self.saved if d.id != result.id] + [result.model_copy(deep=True)]
        self.exploration, self.analysis = list(exploration), list(analysis)
        self.validation, self.recommendation = list(validation), recommendation

    async def save_standalone(self, docs: Sequence[StandaloneDoc]) -> None:
        self.order.append("standalone")
        self.standalone = list(docs)

    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None:
        self.order.append("publish")
        if self.publish_error:
            raise self.publish_error

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]:
        return []


# ---------------------------------------------------------------- the model


def role_of(request: ChatRequest) -> str:
    text = "\n".join([request.system, *(m.content for m in request.messages if m.role == "user")])
    return re.findall(r"^# Veridical role: (\w+)", text, re.MULTILINE)[-1]


def explore(request: ChatRequest) -> dict[str, Any]:
    turn = sum(1 for m in request.messages if m.role == "assistant")
    queries = list(zip(ANSWERS, PURPOSES, strict=True))
    if turn < len(queries):
        sql, purpose = queries[turn]
        return {"rationale": "to learn", "query": sql, "query_purpose": purpose}
    return {"done": True, "summary": "all asked"}


def analyse(request: ChatRequest) -> Scripted:
    """One insight an area, citing the first step that is shown; its figure is that step's."""
    user = request.messages[0].content
    area, shown = read_json_block(user, "area"), read_json_block(user, "query_results")
    rows = shown[0]["query_result"]["all_rows"]
    name = f"{area['name']}: {json.dumps(rows[0])}"
    return {
        "insights": [
            {
                "name": name,
                "description": f"**{name}.** From {len(rows)} rows.",
                "severity": "high",
                "affected_count": len(rows),
                "source_steps": [shown[0]["step"]],
            }
        ]
    }


def recommend(request: ChatRequest) -> Scripted:
    insights = read_json_block(request.messages[0].content, "insights")
    cited = [[insight["id"]] for insight in insights] + [["made-up"]]
    return {
        "recommendations": [
            {"title": f"Act on {ids[0]}", "related_insight_ids": ids, "priority": 1}
            for ids in cited
        ]
    }


def judge(request: ChatRequest) -> Scripted:
    """Reads the first cited step, then supports the headline with its first row."""
    bundle = read_json_block(request.messages[0].content, "bundle")
    step = bundle["source_steps"][0]["step_id"]
    if not any(m.role == "assistant" for m in request.messages):
        return {"read_step_rows": {"step_id": step}}
    result = read_json_block(request.messages[-1].content, "tool_result")
    claim = bundle["doc"]["headline"]
    evidence = {"kind": "step_row", "step_id": step, "row": result["rows"][0]}
    verdict = {
        "claim_text": claim,
        "is_headline": True,
        "status": "supported",
        "evidence": evidence,
    }
    return {
        "submit_verdict": {
            "claims_considered": [claim],
            "claim_verdicts": [{**verdict, "evidence": evidence}],
            "overall": "supported",
        }
    }


Play = Callable[[ChatRequest], Scripted | Awaitable[Scripted]]
ROLES: dict[str, Play] = {
    "explorer": explore,
    "analyst": analyse,
    "recommender": recommend,
    "verifier": judge,
    "refuter": judge,
}


@dataclass
class World:
    """One project, and what is needed to run discoveries in it."""

    project: Project
    desk: Desk = field(default_factory=Desk)
    roles: dict[str, Play] = field(default_factory=lambda: dict(ROLES))
    model: ScriptedModel = field(init=False)
    deps: DiscoveryDeps = field(init=False)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(lambda request: self.roles[role_of(request)](request))
        self.renew()

    def renew(
        self,
        settings: Settings | None = None,
        warehouse: Warehouse | None = None,
        catalog: RunCatalog | None = None,
    ) -> DiscoveryDeps:
        """Fresh dependencies, as every run gets them; in memory unless given."""
        chosen, warehouse = settings or Settings(), warehouse or MemoryWarehouse()
        catalog = catalog or MemoryCatalog()
        self.deps = DiscoveryDeps(
            settings=chosen,
            model=self.model,
            warehouses={"default": warehouse},
            catalog=catalog,
            index=StepIndexCore(LetterEmbedder()),
            findings=self.desk,
            journal=self.desk,
            memory=self.desk,
            archive=self.desk,
            clock=lambda: NOW,
        )
        rows = StepSnapshot(self.deps.steps, self.deps.results)
        queries = {"default": Healer(self.model, warehouse, catalog)}
        tools = WarehouseTools(queries, rows, catalog, chosen.validation)
        self.deps.agents = LocalAgents(self.model, tools, chosen.validation)
        return self.deps

    def run(self, run_id: str = "run-1", **fields: Any) -> DiscoveryRun:
        values: dict[str, Any] = {"project_id": self.project.id, "started_at": NOW, "max_steps": 9}
        return DiscoveryRun(id=run_id, **(values | fields))

    def requests(self, role: str) -> list[ChatRequest]:
        return [request for request in self.model.requests if role_of(request) == role]


@pytest.fixture
def world() -> World:
    return World(new_project("Flights", load_pack("general"), WarehouseConfig()))
