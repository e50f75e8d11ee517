"""Whole discoveries by the offline analyst over real DuckDB files, and its agents on their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.embeddings.hashing import HashingEmbedder
from adapters.llm.offline import OfflineAnalyst
from adapters.warehouses import OpenWarehouse, open_warehouse
from adapters.warehouses.demo import build_demo
from pipeline.discovery import DiscoveryDeps, discover
from pipeline.packs import load_pack, new_project
from pipeline.ports import VectorHit, WarehouseInfo
from pipeline.records import (
    AgentMode,
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Feedback,
    Insight,
    Project,
    ProjectContext,
    RecommendationStep,
    RunPhase,
    RunStep,
    StandaloneDoc,
    StructuredVerdict,
    ValidationResult,
    WarehouseConfig,
)
from pipeline.schema.cache import CatalogCore
from pipeline.settings import Settings, WarehouseSettings
from pipeline.sql.healing import Healer
from pipeline.step_index import StepIndexCore
from pipeline.validation.agent import Agent
from pipeline.validation.agents import LocalAgents
from pipeline.validation.bundle import Bundle, BundleDiscovery, BundleSource
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class Desk:
    """``Journal``, ``Memory``, ``Archive`` and ``Findings`` in memory."""

    saved: list[DiscoveryResult] = field(default_factory=list[DiscoveryResult])
    exploration: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    known: ProjectContext | None = None

    async def phase(self, phase: RunPhase, progress: int, detail: str = "") -> None: ...

    async def feed(self, row: RunStep) -> None: ...

    async def step(self, step: ExplorationStep) -> None: ...

    async def count(self, **counters: int) -> None: ...

    async def recent_discoveries(
        self, project_id: str, limit: int, *, exclude_run: str
    ) -> list[DiscoveryResult]:
        return [d for d in self.saved if d.run_id != exclude_run][-limit:]

    async def feedback(self, project_id: str) -> list[Feedback]:
        return []

    async def context(self, project_id: str) -> ProjectContext | None:
        return self.known

    async def save_context(self, context: ProjectContext) -> None:
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
        self.saved = [d for d in self.saved if d.id != result.id] + [result.model_copy(deep=True)]
        self.exploration = list(exploration)

    async def save_standalone(self, docs: Sequence[StandaloneDoc]) -> None: ...

    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None: ...

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]:
        return []


@dataclass
class Case:
    """A finished discovery, free of open connections."""

    path: Path
    info: WarehouseInfo
    deps: DiscoveryDeps
    desk: Desk
    result: DiscoveryResult

    @property
    def queries(self) -> list[ExplorationStep]:
        return [s for s in self.deps.steps if s.succeeded]

    def bundle(self, insight: Insight) -> Bundle:
        source = BundleSource(
            self.deps.steps, self.deps.results, {self.info.id: self.info}, BundleDiscovery()
        )
        return source.for_insight(insight)


async def judged(bundle: Bundle, mode: AgentMode, tools: WarehouseTools) -> StructuredVerdict:
    """One agent's verdict through the real loop."""
    return await Agent(mode, OfflineAnalyst(), tools).run(bundle)


def tools_for(
    warehouse: OpenWarehouse, catalog: CatalogCore, deps: DiscoveryDeps | None = None
) -> WarehouseTools:
    """The real tools of the validation agents."""
    model = OfflineAnalyst()
    steps = StepSnapshot(deps.steps, deps.results) if deps else StepSnapshot([], {})
    return WarehouseTools({"default": Healer(model, warehouse, catalog)}, steps, catalog)


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[OpenWarehouse]:
    warehouse = open_warehouse(WarehouseConfig(config={"path": str(path)}), WarehouseSettings())
    try:
        yield warehouse
    finally:
        await warehouse.close()


def built(path: Path, *script: str) -> Path:
    """A DuckDB file made by a script."""
    with duckdb.connect(str(path)) as connection:
        for statement in script:
            connection.execute(statement)
    return path


async def run_discovery(
    path: Path,
    *,
    desk: Desk | None = None,
    project: Project | None = None,
    run_id: str = "run-1",
    **fields: Any,
) -> Case:
    """A whole discovery with the real loops; only storage is in memory."""
    async with opened(path) as warehouse:
        return await _discover(path, warehouse, desk, project, run_id, fields)


async def _discover(
    path: Path,
    warehouse: OpenWarehouse,
    desk: Desk | None,
    project: Project | None,
    run_id: str,
    fields: dict[str, Any],
) -> Case:
    desk = desk or Desk()
    project = project or new_project("Any", load_pack("general"), WarehouseConfig())
    model, settings = OfflineAnalyst(), Settings()
    catalog = CatalogCore({"default": warehouse}, HashingEmbedder())
    deps = DiscoveryDeps(
        settings=settings,
        model=model,
        warehouses={"default": warehouse},
        catalog=catalog,
        index=StepIndexCore(HashingEmbedder()),
        findings=desk,
        journal=desk,
        memory=desk,
        archive=desk,
        clock=lambda: NOW,
    )
    tools = tools_for(warehouse, catalog, deps)
    deps.agents = LocalAgents(model, tools, settings.validation)
    values: dict[str, Any] = {"started_at": NOW, "max_steps": 40} | fields
    run = DiscoveryRun(id=run_id, project_id=project.id, **values)
    result = await discover(run, project, deps)
    return Case(path, warehouse.info, deps, desk, result)


@asynccontextmanager
async def tools_over(path: Path, case: Case | None = None) -> AsyncGenerator[WarehouseTools]:
    """Tools on a warehouse of their own, over the steps of a finished discovery if there is one."""
    async with opened(path) as warehouse:
        catalog = CatalogCore({"default": warehouse}, HashingEmbedder())
        yield tools_for(warehouse, catalog, case.deps if case else None)


def finished(path: Path, **fields: Any) -> Case:
    """``run_discovery`` outside of a test's own loop."""
    cases: list[Case] = []

    async def run() -> None:  # returns nothing: asyncio.run writes out what it is given
        cases.append(await run_discovery(path, **fields))

    asyncio.run(run())
    return cases[0]


@pytest.fixture(scope="session")
def demo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real demo warehouse, built once."""
    return build_demo(tmp_path_factory.mktemp("demo") / "demo.duckdb")


@pytest.fixture(scope="session")
def demo(demo_file: Path) -> Case:
    """One whole discovery over the demo warehouse."""
    return finished(demo_file)
