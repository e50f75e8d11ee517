"""A discovery run, phase by phase, as the specification's table lists them.

==== ================================= =======================================================
1    load project context              ``context.recall``
2    load schemas                      the catalog of all datasources
3    exploration                       ``exploration.loop``
4    analysis, area by area            ``analysis.phase``
4.5  insight validation                ``validation.phase``, right after each area
5    recommendations                   ``recommendation.phase``
5.5  recommendation validation         ``validation.phase``
7    save                              ``publishing.save``
9    embed and index                   ``publishing.publish``, never fatal
6    update project context            ``context.remember``, called by whoever writes the run's
                                       terminal status, once the result is known to be kept
==== ================================= =======================================================
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from pipeline import publishing
from pipeline.analysis.areas import Area, select_areas
from pipeline.analysis.budgets import estimated_tokens
from pipeline.analysis.digest import digest
from pipeline.analysis.phase import Analyst
from pipeline.anchoring import check_anchored, cube_reaching
from pipeline.context import recall
from pipeline.correlations.known import KnownPairs, know_pairs
from pipeline.deadline import Deadline
from pipeline.errors import EmptyWarehouse
from pipeline.exploration.budget import Budget as ExplorationBudget
from pipeline.exploration.loop import explore
from pipeline.exploration.prompts import system_prompt
from pipeline.feed import Feed
from pipeline.ports import (
    Archive,
    Findings,
    Journal,
    LanguageModel,
    Memory,
    QueryResult,
    SchemaCatalog,
    StepIndex,
    Warehouse,
    WarehouseInfo,
)
from pipeline.project_prompts import (
    DEFAULT_LANGUAGE,
    base_context,
    exploration_text,
    warehouse_variables,
)
from pipeline.recommendation.phase import Recommender
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Insight,
    Project,
    Recommendation,
    RunPhase,
    Table,
)
from pipeline.settings import Settings
from pipeline.summary import compact_schemas, errors_of, failure_of, run_type, summarise
from pipeline.validation.agents import ValidationAgents
from pipeline.validation.bundle import BundleDiscovery, BundleSource
from pipeline.validation.eligibility import eligible_insights
from pipeline.validation.phase import Budget as ValidationBudget
from pipeline.validation.phase import Validator, validate_insights, validate_recommendations
from pipeline.validation.policy import SequentialValidation, ValidationPolicy
from pipeline.validation.scorecard import scorecard

log = logging.getLogger(__name__)

CATALOG_TOKENS = 150_000
FIRST_ANALYSIS_PROGRESS, LAST_ANALYSIS_PROGRESS = 65, 85


class RunCatalog(SchemaCatalog, Protocol):
    async def load(self) -> Mapping[str, str]:
        """Read the schemas of all datasources; gives those that were left out, with the reason.

        Raises ``EmptyWarehouse``, or the error of the primary.
        """
        ...

    async def text(self, keywords: Sequence[str], budget_tokens: int) -> str:
        """The catalog lines for a prompt."""
        ...


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class DiscoveryDeps:
    """Everything outside of the pipeline that one run works with."""

    settings: Settings
    model: LanguageModel
    warehouses: Mapping[str, Warehouse]
    """By datasource id, the primary first."""
    catalog: RunCatalog
    findings: Findings
    journal: Journal
    memory: Memory
    archive: Archive
    index: StepIndex | None = None
    """None: keywords alone pick the steps of an area."""
    agents: ValidationAgents | None = None
    """None: nothing is validated."""
    policy: ValidationPolicy = field(default_factory=SequentialValidation)
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Datasources of the project that could not be opened, with the reason."""
    clock: Callable[[], datetime] = _now
    steps: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    """Filled by the run when exploration ends; what reads step rows may hold on to it before."""
    results: dict[int, QueryResult] = field(default_factory=dict[int, QueryResult])
    """Filled along with ``steps``: whole results by step number."""


async def discover(run: DiscoveryRun, project: Project, deps: DiscoveryDeps) -> DiscoveryResult:
    """Run all phases and return the saved result.

    The run's terminal status is the caller's to write: failed with ``result.failure`` as the reason
    when that is set (every area failed, or the deadline passed; the result is saved all the same),
    else completed. After that the caller passes a result that is kept to ``context.remember``.

    Raises ``BadRequest`` for an unknown area or a primary that cannot anchor, ``RunSuperseded``
    when the attempt lost the run, and any other ``VeridicalError`` that leaves nothing to keep.
    """
    phases = _Phases(run, project, deps)
    await phases.load_context()
    catalog = await phases.load_schemas()
    await phases.explore(catalog)
    await phases.analyse()
    await phases.recommend()
    await phases.validate_recommendations()
    result = await phases.save()
    await phases.embed_and_index(result)
    return result


class _Phases:
    """The phases of one run and what they hand on to each other."""

    def __init__(self, run: DiscoveryRun, project: Project, deps: DiscoveryDeps) -> None:
        self.run, self.project, self.deps = run, project, deps
        self.areas: list[Area] = select_areas(project, run.areas)
        self.warehouses = dict(deps.warehouses)
        """Those that can be read, the primary first."""
        check_anchored(self.infos)
        self.sources = {info.id: info for info in self.infos}
        self.feed = Feed(deps.journal, deps.clock)
        self.deadline = Deadline(deps.settings.exploration.DISCOVERY_MAX_DURATION, deps.clock)
        self.started = time.monotonic()
        self.base_context = ""
        self.tables: list[Table] = []
        self.keys = KnownPairs()
        self.warnings: list[str] = []
        self.insights: list[Insight] = []
        self.recommendations: list[Recommendation] = []
        self.logs = publishing.Logs(exploration=deps.steps)
        self.validator = Validator(
            source=BundleSource(
                steps=deps.steps,
                results=deps.results,
                warehouses=self.sources,
                discovery=BundleDiscovery(
                    project_id=project.id,
                    run_id=run.id,
                    domain=project.domain,
                    language=project.language or DEFAULT_LANGUAGE,
                ),
                settings=deps.settings.validation,
            ),
            agents=deps.agents if project.validation_enabled else None,
            settings=deps.settings.validation,
            policy=deps.policy,
            clock=deps.clock,
            listener=self.feed.verdict,
        )

    # ------------------------------------------------------------ 1, 2 and 3

    async def load_context(self) -> None:
        """1: what earlier runs and people said becomes part of every prompt."""
        await self.feed.phase(RunPhase.INIT, 5, "Loading what earlier runs found")
        previous = await recall(self.deps.memory, self.project.id, run_id=self.run.id)
        self.base_context = base_context(self.project, previous)

    async def load_schemas(self) -> str:
        """2: the catalog as text. Raises ``EmptyWarehouse``."""
        await self.feed.phase(RunPhase.SCHEMA_DISCOVERY, 8, "Reading the schemas")
        await self._leave_out(self.deps.left_out)
        await self._leave_out(await self.deps.catalog.load())
        self.tables = await self.deps.catalog.tables()
        if not self.tables:
            raise EmptyWarehouse(
                "the warehouse has no table that can be read; check its datasets and permissions"
            )
        keywords = list(dict.fromkeys(word for area in self.areas for word in area.keywords))
        budget = min(CATALOG_TOKENS, self.deps.model.info.context_window // 2)
        text = await self.deps.catalog.text(keywords, budget)
        await self.feed.count(
            schema_table_count=len(self.tables), schema_tokens=estimated_tokens(text)
        )
        if len(self.warehouses) > 1:
            self.keys = await know_pairs(self.project.key_pairs, self.tables, self.warehouses)
        return text

    @property
    def infos(self) -> list[WarehouseInfo]:
        return [warehouse.info for warehouse in self.warehouses.values()]

    async def _leave_out(self, reasons: Mapping[str, str]) -> None:
        """Go on without some datasources; the live feed and the summary say so."""
        for source, reason in reasons.items():
            self.warehouses.pop(source, None)
            self.sources.pop(source, None)
            warning = f"datasource {source!r} is left out: {reason}"
            log.warning("run %s: %s", self.run.id, warning)
            self.warnings.append(warning)
            await self.feed.error(RunPhase.SCHEMA_DISCOVERY, warning)

    async def explore(self, catalog: str) -> None:
        """3: ask the warehouse until the model is done or the steps are used up."""
        await self.feed.phase(RunPhase.EXPLORATION, 10, "Exploring")
        exploration = await explore(
            model=self.deps.model,
            warehouses=self.warehouses,
            catalog=self.deps.catalog,
            index=self.deps.index,
            journal=self.deps.journal,
            system=system_prompt(
                self.base_context,
                exploration_text(self.project, self.areas, catalog, self.infos),
            ),
            budget=ExplorationBudget(max_steps=self.run.max_steps, min_steps=self.run.min_steps),
            settings=self.deps.settings.exploration,
            clock=self.deps.clock,
            cube_reaching=cube_reaching(self.infos),
            deadline=self.deadline.at,
            digest=lambda table: digest(table).as_json(),
            correlations=self.keys if len(self.warehouses) > 1 else None,
            prohibited=self.keys.prohibitions(),
        )
        self.deps.steps[:] = exploration.steps
        self.deps.results.clear()
        self.deps.results.update(exploration.results)

    # ------------------------------------------------------------ 4 and 4.5

    async def analyse(self) -> None:
        """4: one area after the other; 4.5: its insights are validated right away."""
        analyst = Analyst(
            model=self.deps.model,
            settings=self.deps.settings.analysis,
            base_context=self.base_context,
            clock=self.deps.clock,
            index=self.deps.index,
            variables=warehouse_variables(self.infos),
        )
        budget = ValidationBudget(self.deps.settings.validation.VALIDATION_MAX_INSIGHTS_PER_RUN)
        for number, area in enumerate(self.areas):
            await self._enter(RunPhase.ANALYSIS, number, f"Analysing {area.name}")
            step = await self._analyse(analyst, area)
            self.logs.analysis.append(step)
            self.insights += step.insights
            await self.feed.area(step)
            for insight in step.insights:
                await self.feed.insight(insight)
            await self._count_analysis()
            if step.insights:
                await self._enter(RunPhase.VALIDATION, number, f"Validating {area.name}")
                await self._validate(step, budget)

    async def _enter(self, phase: RunPhase, areas_done: int, message: str) -> None:
        span = LAST_ANALYSIS_PROGRESS - FIRST_ANALYSIS_PROGRESS
        progress = FIRST_ANALYSIS_PROGRESS + span * areas_done // len(self.areas)
        detail = f"{message} ({areas_done + 1} of {len(self.areas)})"
        await self.feed.phase(phase, progress, detail)

    async def _analyse(self, analyst: Analyst, area: Area) -> AnalysisStep:
        """The area's step; beyond the deadline one that says so."""
        if not self.deadline.over():
            async with self.deadline.window():
                return await analyst.analyse(area, self.deps.steps)
        now, reason = self.deps.clock(), self.deadline.reason
        return AnalysisStep(area_id=area.id, area_name=area.name, run_at=now, error=reason)

    async def _validate(self, step: AnalysisStep, budget: ValidationBudget) -> None:
        async with self.deadline.window():
            step.validation_results = await validate_insights(step.insights, self.validator, budget)
        self.logs.validation += step.validation_results

    async def _count_analysis(self) -> None:
        analysed = self.logs.analysis
        await self.feed.count(
            insights_found=len(self.insights),
            analysis_steps_dropped=sum(len(step.dropped_steps) for step in analysed),
            analysis_step_index_search_calls=len(analysed) if self.deps.index else 0,
        )

    # ------------------------------------------------------------ 5 and 5.5

    async def recommend(self) -> None:
        """5: recommendations from the eligible insights; none is a result too."""
        if self.deadline.over():
            return
        await self.feed.phase(RunPhase.RECOMMENDATIONS, 85, "Writing recommendations")
        recommender = Recommender(
            model=self.deps.model,
            settings=self.deps.settings.analysis,
            base_context=self.base_context,
            pack_text=self.project.prompts.recommendations,
            clock=self.deps.clock,
        )
        eligible = eligible_insights(self.insights, self.project.recommendation_verdicts)
        async with self.deadline.window():
            step = await recommender.recommend(eligible)
            self.logs.recommendation = step
            self.recommendations = step.recommendations
            await self.feed.recommendations(step)

    async def validate_recommendations(self) -> None:
        """5.5: the same verifier and refuter judge the recommendations."""
        if not self.recommendations or self.deadline.over():
            return
        await self.feed.phase(RunPhase.VALIDATION, 90, "Validating recommendations")
        limit = self.deps.settings.validation.VALIDATION_MAX_RECOMMENDATIONS_PER_RUN
        async with self.deadline.window():
            self.logs.validation += await validate_recommendations(
                self.recommendations, self.insights, self.validator, ValidationBudget(limit)
            )

    # ------------------------------------------------------------ 7 and 9

    async def save(self) -> DiscoveryResult:
        """7: the discovery and its logs become durable, whatever time it is."""
        await self.feed.phase(RunPhase.SAVING, 95, "Saving")
        result = self._result()
        await publishing.save(self.deps.archive, result, self.logs)
        return result

    async def embed_and_index(self, result: DiscoveryResult) -> None:
        """9: findings become searchable; a problem is recorded and nothing more. A run that was cut
        off is not indexed."""
        if self.deadline.cut_off:
            return
        await self.feed.phase(RunPhase.EMBED_INDEX, 97, "Making the findings searchable")
        problem = await publishing.publish(self.deps.findings, self.deps.archive, result)
        if problem:
            result.summary.errors.append(problem)
            await self.feed.error(RunPhase.EMBED_INDEX, problem)
            await publishing.save(self.deps.archive, result, self.logs)

    def _result(self) -> DiscoveryResult:
        now = self.deps.clock()
        info = self.deps.model.info
        kind = run_type(self.logs.analysis, enabled_areas=len(select_areas(self.project, ())))
        cut_off = self.deadline.reason if self.deadline.cut_off else ""
        return DiscoveryResult(
            id=str(uuid.uuid4()),
            project_id=self.project.id,
            run_id=self.run.id,
            attempt=self.run.attempt,
            warehouse_id=self.infos[0].id,
            domain=self.project.domain,
            category=self.project.category,
            llm_provider=info.provider,
            llm_model=info.model,
            discovery_date=now,
            run_type=kind,
            areas_requested=self.run.areas,
            total_steps=len(self.deps.steps),
            duration=int((time.monotonic() - self.started) * 1000),
            schemas=compact_schemas(self.tables),
            insights=self.insights,
            recommendations=self.recommendations,
            summary=summarise(
                steps=self.deps.steps,
                insights=self.insights,
                recommendations=self.recommendations,
                table_count=len(self.tables),
                errors=[
                    *self.warnings,
                    *errors_of(self.logs.analysis, self.logs.recommendation, cut_off),
                ],
                scorecard=scorecard([*self.insights, *self.recommendations]),
                now=now,
            ),
            failure=cut_off or failure_of(kind, self.logs.analysis),
        )
