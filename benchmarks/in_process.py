"""A discovery in this process, without Ray, a store or a network: for measurements and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from adapters.embeddings.hashing import HashingEmbedder
from adapters.llm.offline import OfflineAnalyst
from pipeline.discovery import DiscoveryDeps, discover
from pipeline.packs import load_pack, new_project
from pipeline.ports import LanguageModel, VectorHit, Warehouse
from pipeline.project_prompts import DEFAULT_LANGUAGE
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Feedback,
    ProjectContext,
    RecommendationStep,
    RunPhase,
    RunStep,
    StandaloneDoc,
    ValidationResult,
    WarehouseConfig,
)
from pipeline.schema.cache import CatalogCore
from pipeline.settings import Settings
from pipeline.sql.healing import Healer
from pipeline.step_index import StepIndexCore
from pipeline.validation.agents import LocalAgents
from pipeline.validation.bundle import BundleDiscovery, BundleSource
from pipeline.validation.phase import Validator
from pipeline.validation.policy import SequentialValidation, ValidationPolicy
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools


@dataclass
class NoOffice:
    """``Journal``, ``Memory``, ``Archive`` and ``Findings`` of somebody who keeps nothing."""

    async def phase(self, phase: RunPhase, progress: int, detail: str = "") -> None: ...
    async def feed(self, row: RunStep) -> None: ...
    async def step(self, step: ExplorationStep) -> None: ...
    async def count(self, **counters: int) -> None: ...
    async def save_context(self, context: ProjectContext) -> None: ...
    async def save_standalone(self, docs: Sequence[StandaloneDoc]) -> None: ...
    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None: ...

    async def recent_discoveries(
        self, project_id: str, limit: int, *, exclude_run: str
    ) -> list[DiscoveryResult]:
        return []

    async def feedback(self, project_id: str) -> list[Feedback]:
        return []

    async def context(self, project_id: str) -> ProjectContext | None:
        return None

    async def save_discovery(
        self,
        result: DiscoveryResult,
        *,
        exploration: Sequence[ExplorationStep],
        analysis: Sequence[AnalysisStep],
        validation: Sequence[ValidationResult],
        recommendation: RecommendationStep | None,
    ) -> None: ...

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]:
        return []


@dataclass
class InProcess:
    """A warehouse, a model, and what a discovery over them left. ``explore`` comes first."""

    warehouse: Warehouse
    model: LanguageModel = field(default_factory=OfflineAnalyst)
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self._warehouses: Mapping[str, Warehouse] = {self.warehouse.info.id: self.warehouse}
        self._catalog = CatalogCore(self._warehouses, HashingEmbedder())
        office = NoOffice()
        self.deps = DiscoveryDeps(
            settings=self.settings,
            model=self.model,
            warehouses=self._warehouses,
            catalog=self._catalog,
            index=StepIndexCore(HashingEmbedder()),
            findings=office,
            journal=office,
            memory=office,
            archive=office,
        )

    async def explore(self, max_steps: int) -> DiscoveryResult:
        """A discovery of so many steps whose insights nobody has judged."""
        project = new_project("in process", load_pack("general"), WarehouseConfig())
        run = DiscoveryRun(
            id="run", project_id=project.id, started_at=datetime.now(UTC), max_steps=max_steps
        )
        return await discover(run, project, self.deps)

    def validator(self, policy: ValidationPolicy | None = None) -> Validator:
        """Judges documents by the steps of that discovery."""
        rows = StepSnapshot(self.deps.steps, self.deps.results)
        queries = {
            name: Healer(self.model, each, self._catalog) for name, each in self._warehouses.items()
        }
        tools = WarehouseTools(queries, rows, self._catalog, self.settings.validation)
        source = BundleSource(
            steps=self.deps.steps,
            results=self.deps.results,
            warehouses={name: each.info for name, each in self._warehouses.items()},
            discovery=BundleDiscovery(project_id="in process", language=DEFAULT_LANGUAGE),
            settings=self.settings.validation,
        )
        agents = LocalAgents(self.model, tools, self.settings.validation)
        return Validator(source, agents, self.settings.validation, policy or SequentialValidation())
