"""A small finished discovery, as the system would leave it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from pipeline.errors import Conflict, NotFound, StoreUnavailable
from pipeline.records import (
    AnalysisStep,
    AreaConfig,
    ClaimEvidence,
    ClaimVerdict,
    DiscoveryResult,
    DiscoveryRun,
    ExpectedImpact,
    ExplorationStep,
    Insight,
    InsightValidation,
    Project,
    ProjectPrompts,
    Provenance,
    Quality,
    QualityKind,
    Recommendation,
    RecommendationStep,
    RunPhase,
    RunStatus,
    RunStep,
    Severity,
    Status,
    StepAction,
    StructuredVerdict,
    Summary,
    ValidationResult,
    VerdictStats,
    WarehouseConfig,
)

AT = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def query_step(number: int, sql: str, rows: list[dict[str, Any]], **more: Any) -> ExplorationStep:
    return ExplorationStep(
        step=number,
        timestamp=AT,
        action=StepAction.QUERY_DATA,
        query=sql,
        query_result=rows,
        result_columns=list(rows[0]) if rows else [],
        row_count=more.pop("row_count", len(rows)),
        execution_time_ms=8,
        **more,
    )


def verdict(mode: str, status: Status, claims: list[ClaimVerdict]) -> StructuredVerdict:
    return StructuredVerdict(
        doc_kind="insight",
        mode=mode,
        claims_considered=[claim.claim_text for claim in claims],
        claim_verdicts=claims,
        overall=status,
        overall_reason=f"The {mode} asked the warehouse again.",
        stats=VerdictStats(queries_issued=1, step_reads_used=1, rounds=2),
    )


def claim(
    text: str, status: Status, row: dict[str, Any] | None, *, headline: bool = False, sql: str = ""
) -> ClaimVerdict:
    return ClaimVerdict(
        claim_text=text,
        is_headline=headline,
        status=status,
        reasoning=f"Looked for: {text}",
        evidence=ClaimEvidence(
            kind="warehouse_query" if sql else "step_row",
            step_id=None if sql else 2,
            query_sql=sql,
            row=row,
            provenance=Provenance(attested=True, source="query_warehouse #1"),
        ),
    )


CARRIERS = [
    {"carrier": name, "flights": flights, "avg_dep_delay": delay}
    for name, flights, delay in [
        ("F9", 685, 20.2155425219941),
        ("EV", 54173, 19.9553896710789),
        ("YV", 601, 18.9963302752294),
        ("FL", 3260, 18.7260752688172),
        ("WN", 12275, 17.7117439384519),
        ("9E", 18460, 16.7257690014903),
        ("B6", 54635, 13.0225215738064),
    ]
]
MONTHS = [
    {"month": month, "flights": flights}
    for month, flights in enumerate([27004, 24951, 28834, 28330, 28796, 28243, 29425, 29327], 1)
]


@pytest.fixture
def project() -> Project:
    return Project(
        id="p-1",
        name="NYC flights",
        warehouses=[WarehouseConfig(config={"path": "/data/flights.duckdb"})],
        prompts=ProjectPrompts(
            analysis_areas={
                "segments": AreaConfig(name="Segments", description="How groups differ."),
                "trends": AreaConfig(name="Trends", description="What changes.", priority=2),
                "off": AreaConfig(name="Off", enabled=False),
            }
        ),
        created_at=AT,
    )


@pytest.fixture
def run() -> DiscoveryRun:
    return DiscoveryRun(
        id="r-1",
        project_id="p-1",
        status=RunStatus.COMPLETED,
        phase=RunPhase.COMPLETE,
        started_at=AT,
        completed_at=AT,
        discovery_id="d-1",
        max_steps=40,
        schema_table_count=5,
        insights_found=2,
    )


@pytest.fixture
def steps() -> list[ExplorationStep]:
    return [
        ExplorationStep(
            step=1,
            timestamp=AT,
            action=StepAction.LOOKUP_SCHEMA,
            lookup_tables=["main.flights"],
        ),
        query_step(
            2,
            "SELECT carrier, COUNT(*) AS flights, AVG(dep_delay) AS avg_dep_delay "
            "FROM main.flights GROUP BY carrier ORDER BY avg_dep_delay DESC LIMIT 7",
            CARRIERS,
            query_purpose="Which carriers leave latest?",
            quality=[Quality(kind=QualityKind.TRUNCATED, detail="the query keeps 7 rows")],
        ),
        query_step(
            3,
            "SELECT month, COUNT(*) AS flights FROM main.flights GROUP BY month ORDER BY month",
            MONTHS,
            query_purpose="How do flights move through the year?",
        ),
        query_step(4, "SELECT nope FROM main.flights", [], error="column nope does not exist"),
    ]


@pytest.fixture
def result() -> DiscoveryResult:
    headline = "F9 has the longest average departure delay"
    proof = "SELECT carrier, AVG(dep_delay) AS d FROM main.flights GROUP BY 1 ORDER BY 2 DESC"
    late = Insight(
        id="0f8fad5b-d9cb-469f-a165-70867728950e",
        ref="segments-1",
        analysis_area="segments",
        name=headline,
        description="F9 leaves 20.2 minutes late on average over 685 flights.",
        description_md="**F9 leaves 20.2 minutes late** on average.\n\n- 685 flights\n- EV: 19.96",
        severity=Severity.HIGH,
        affected_count=685,
        metrics={"avg_dep_delay": 20.2155425219941, "flights": 685},
        indicators=["EV follows at 19.96 minutes"],
        target_segment="carrier F9",
        source_steps=[2],
        validation=InsightValidation(
            combined=Status.CONFIRMED,
            verifier=verdict(
                "verifier",
                Status.CONFIRMED,
                [
                    claim("685 flights", Status.CONFIRMED, {"flights": 685}),
                    claim(
                        headline,
                        Status.CONFIRMED,
                        {"carrier": "F9", "d": 20.2155425219941},
                        headline=True,
                        sql=proof,
                    ),
                ],
            ),
            refuter=verdict(
                "refuter",
                Status.CONFIRMED,
                [claim(headline, Status.SUPPORTED, {"carrier": "F9"}, headline=True, sql=proof)],
            ),
        ),
    )
    trend = Insight(
        id="7c9e6679-7425-40de-944b-e07fc1f90ae7",
        ref="trends-1",
        analysis_area="trends",
        name="Flights rise from February to July",
        description="From 24,951 flights in month 2 to 29,425 in month 7.",
        severity=Severity.LOW,
        affected_count=224910,
        source_steps=[3],
        validation=InsightValidation(
            combined=Status.REJECTED,
            verifier=verdict(
                "verifier", Status.REJECTED, [claim("It rises", Status.REJECTED, {"month": 2})]
            ),
        ),
    )
    return DiscoveryResult(
        id="d-1",
        project_id="p-1",
        run_id="r-1",
        domain="general",
        llm_provider="offline",
        llm_model="offline-analyst",
        discovery_date=AT,
        total_steps=4,
        duration=62_000,
        schemas={"main.flights": {}, "main.airlines": {}},
        insights=[trend, late],
        recommendations=[
            Recommendation(
                id="b1",
                title="Look into F9's turn-round",
                description="F9 leaves late.",
                priority=1,
                actions=["Ask F9 for its ground times"],
                related_insight_ids=[late.id],
                expected_impact=ExpectedImpact(metric="avg_dep_delay", reasoning="largest delay"),
                validation=InsightValidation(combined=Status.SUPPORTED),
            )
        ],
        summary=Summary(text="Two findings.", total_insights=2, total_recommendations=1),
        created_at=AT,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own; drawing keeps its font cache between tests."""
    monkeypatch.setenv("VERIDICAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# ---------------------------------------------------------------- a store in memory

T = TypeVar("T")


def found(table: dict[str, T], key: str) -> T:
    if key not in table:
        raise NotFound(f"there is no {key!r}")
    return table[key]


class MemoryProjects:
    def __init__(self) -> None:
        self.kept: dict[str, Project] = {}

    async def create(self, project: Project) -> Project:
        self.kept[project.id] = project
        return project

    async def get(self, project_id: str) -> Project:
        if project_id == "unreachable":
            raise StoreUnavailable("the store does not answer; start it again")
        if project_id == "broken":
            raise RuntimeError("a secret detail")
        return found(self.kept, project_id)

    async def find(self, project_id: str) -> Project | None:
        return self.kept.get(project_id)

    async def by_name(self, name: str) -> list[Project]:
        return [p for p in await self.newest_first() if p.name == name]

    async def replace(self, project: Project) -> Project:
        self.kept[project.id] = project
        return project

    async def newest_first(self, limit: int = 0) -> Sequence[Project]:
        return list(reversed(self.kept.values()))[: limit or None]


class MemoryRuns:
    def __init__(self) -> None:
        self.kept: dict[str, DiscoveryRun] = {}

    async def create(self, run: DiscoveryRun) -> DiscoveryRun:
        if await self.active(run.project_id):
            raise Conflict("another run is active already")
        self.kept[run.id] = run
        return run

    async def get(self, run_id: str) -> DiscoveryRun:
        return found(self.kept, run_id)

    async def active(self, project_id: str) -> DiscoveryRun | None:
        mine = (r for r in self.kept.values() if r.project_id == project_id)
        return next((r for r in mine if not r.status.terminal), None)

    async def recent(self, project_id: str = "", limit: int = 50) -> Sequence[DiscoveryRun]:
        mine = [r for r in self.kept.values() if r.project_id == project_id]
        return list(reversed(mine))[:limit]

    async def fail(self, run_id: str, attempt: int, reason: str) -> bool:
        change: dict[str, Any] = {"status": RunStatus.FAILED, "error": reason}
        self.kept[run_id] = self.kept[run_id].model_copy(update=change)
        return True


class MemoryRunSteps:
    def __init__(self) -> None:
        self.kept: list[RunStep] = []

    async def since(
        self, run_id: str, *, attempt: int = 0, since_id: str = "", limit: int = 500
    ) -> Sequence[RunStep]:
        mine = [row for row in self.kept if row.run_id == run_id and row.attempt == attempt]
        return [row for row in mine if row.id > since_id][:limit]


class MemoryDiscoveries:
    def __init__(self) -> None:
        self.kept: dict[str, DiscoveryResult] = {}

    async def get(self, discovery_id: str) -> DiscoveryResult:
        return found(self.kept, discovery_id)

    async def starting_with(self, prefix: str, limit: int) -> list[DiscoveryResult]:
        return [r for r in self.kept.values() if r.id.startswith(prefix)][:limit]

    async def recent(self, project_id: str, limit: int) -> list[DiscoveryResult]:
        mine = [r for r in self.kept.values() if r.project_id == project_id]
        return sorted(mine, key=lambda r: r.discovery_date, reverse=True)[:limit]


class MemoryLog(Generic[T]):
    def __init__(self) -> None:
        self.kept: dict[str, list[T]] = {}

    async def of(self, discovery_id: str) -> Sequence[T]:
        return self.kept.get(discovery_id, [])


class MemoryStore:
    """What the API and the command line need of a store."""

    def __init__(self) -> None:
        self.projects = MemoryProjects()
        self.runs = MemoryRuns()
        self.run_steps = MemoryRunSteps()
        self.discoveries = MemoryDiscoveries()
        self.exploration_steps = MemoryLog[ExplorationStep]()
        self.analysis_steps = MemoryLog[AnalysisStep]()
        self.validation_results = MemoryLog[ValidationResult]()
        self.recommendation_log = MemoryLog[RecommendationStep]()

    async def ping(self) -> None:
        return None

    async def begin_resume(self, run_id: str) -> DiscoveryRun:
        run = await self.runs.get(run_id)
        if not run.resumable:
            raise Conflict(f"only a failed run can be resumed: run {run_id} is {run.status.value}")
        change = {"status": RunStatus.RUNNING, "attempt": run.attempt + 1, "error": ""}
        self.runs.kept[run_id] = run.model_copy(update=change)
        return self.runs.kept[run_id]


@pytest.fixture
def store(project: Project) -> MemoryStore:
    """A store with one project."""
    store = MemoryStore()
    store.projects.kept[project.id] = project
    return store
