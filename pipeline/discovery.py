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
from collections.abc import Awaitable, Callable, Mapping

from pipeline import publishing
from pipeline.analysing import AreaByArea
from pipeline.analysis.areas import Area, select_areas
from pipeline.analysis.budgets import estimated_tokens
from pipeline.analysis.digest import digest
from pipeline.analysis.phase import Analyst
from pipeline.anchoring import check_anchored, cube_reaching
from pipeline.checkpoint.port import Checkpoints, Kept
from pipeline.context import recall
from pipeline.correlations.known import KnownPairs, know_pairs
from pipeline.deadline import Deadline
from pipeline.discovery_deps import DiscoveryDeps, RunCatalog
from pipeline.errors import EmptyWarehouse, RunSuperseded, StoreUnavailable, VeridicalError
from pipeline.exploration.budget import Budget as ExplorationBudget
from pipeline.exploration.loop import Exploration, explore
from pipeline.exploration.prompts import system_prompt
from pipeline.exploration.skipping import take_over
from pipeline.feed import Feed
from pipeline.ports import (
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
    DiscoveryResult,
    DiscoveryRun,
    Insight,
    Project,
    Recommendation,
    RunPhase,
    Table,
)
from pipeline.summary import compact_schemas, errors_of, failure_of, run_type, summarise
from pipeline.validation.bundle import BundleDiscovery, BundleSource
from pipeline.validation.eligibility import eligible_insights
from pipeline.validation.phase import Budget as ValidationBudget
from pipeline.validation.phase import Validator, validate_recommendations
from pipeline.validation.scorecard import scorecard

log = logging.getLogger(__name__)

__all__ = ["DiscoveryDeps", "RunCatalog", "discover"]

CATALOG_TOKENS = 150_000


async def discover(run: DiscoveryRun, project: Project, deps: DiscoveryDeps) -> DiscoveryResult:
    """Run all phases and return the saved result.

    The run's terminal status is the caller's to write: failed with ``result.failure`` as the reason
    when that is set (every area failed, or the deadline passed; the result is saved all the same),
    else completed. After that the caller passes a result that is kept to ``context.remember``.

    Raises ``BadRequest`` for an unknown area or a primary that cannot anchor, ``RunSuperseded``
    when the attempt lost the run, and any other ``VeridicalError`` that leaves nothing to keep.
    """
    phases = _Phases(run, project, deps)
    catalog = await phases.get_ready()
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
        self.previous = ""
        self.base_context = ""
        self.left_out: list[str] = []
        self.tables: list[Table] = []
        self.keys = KnownPairs()
        self.warnings: list[str] = []
        self.insights: list[Insight] = []
        self.kept = Kept()
        self.explored_in = run.attempt
        """The attempt whose exploration this run rests on."""
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

    async def get_ready(self) -> str:
        """1 and 2. What ends the run here is told in the live feed too."""
        try:
            await self.load_context()
            return await self.load_schemas()
        except RunSuperseded:
            raise
        except VeridicalError as error:
            await self.feed.error(RunPhase.SCHEMA_DISCOVERY, str(error))
            raise

    async def load_context(self) -> None:
        """1: what earlier runs and people said becomes part of every prompt."""
        await self.feed.phase(RunPhase.INIT, 5, "Loading what earlier runs found")
        self.previous = await recall(self.deps.memory, self.project.id, run_id=self.run.id)

    async def load_schemas(self) -> str:
        """2: the catalog as text. Raises ``EmptyWarehouse`` when the primary has no table."""
        await self.feed.phase(RunPhase.SCHEMA_DISCOVERY, 8, "Reading the schemas")
        await self._leave_out(self.deps.left_out)
        await self._leave_out(await self.deps.catalog.load())
        self.tables = await self.deps.catalog.tables()
        primary = self.infos[0].id
        if not any(table.datasource_id == primary for table in self.tables):
            named = f" of the primary datasource {primary!r}" if len(self.infos) > 1 else ""
            raise EmptyWarehouse(
                f"the warehouse{named} has no table that can be read; check its datasets and "
                "permissions"
            )
        self.areas = select_areas(self.project, self.run.areas, self.left_out)
        self.base_context = base_context(self.project, self.previous, self.left_out)
        keywords = list(dict.fromkeys(word for area in self.areas for word in area.keywords))
        budget = min(CATALOG_TOKENS, self.deps.model.info.context_window // 2)
        text = await self.deps.catalog.text(keywords, budget)
        await self.feed.count(
            schema_table_count=len(self.tables), schema_tokens=estimated_tokens(text)
        )
        if len(self.warehouses) > 1:
            self.keys = await know_pairs(
                self.project.key_pairs,
                self.tables,
                self.warehouses,
                store=self.deps.pairs,
                anew=self.run.skip_cache,
                clock=self.deps.clock,
            )
        return text

    @property
    def infos(self) -> list[WarehouseInfo]:
        return [warehouse.info for warehouse in self.warehouses.values()]

    async def _leave_out(self, reasons: Mapping[str, str]) -> None:
        """Go on without some datasources; the live feed and the summary say so."""
        for source, reason in reasons.items():
            self.warehouses.pop(source, None)
            self.sources.pop(source, None)
            self.left_out.append(source)
            warning = f"datasource {source!r} is left out: {reason}"
            log.warning("run %s: %s", self.run.id, warning)
            self.warnings.append(warning)
            await self.feed.error(RunPhase.SCHEMA_DISCOVERY, warning)

    async def explore(self, catalog: str) -> None:
        """3: ask the warehouse until the model is done or the steps are used up. A resumed run
        goes on where it stopped; an exploration that had ended is not done again."""
        if self.deps.checkpoints is not None and self.run.attempt > 1:
            self.kept = await self.deps.checkpoints.load()
        if self.kept.summary is not None and self.kept.explored:
            exploration = await self._take_over(self.kept.summary.attempt)
        else:
            exploration = await self._explore(catalog)
        self.deps.steps[:] = exploration.steps
        self.deps.results.clear()
        self.deps.results.update(exploration.results)

    async def _take_over(self, explored_in: int) -> Exploration:
        self.explored_in = explored_in
        await self.feed.phase(RunPhase.EXPLORATION, 10, "Exploration had been finished before")
        await self._keep(lambda checkpoints: checkpoints.renew())
        return await take_over(
            self.kept,
            index=self.deps.index,
            journal=self.deps.journal,
            clock=self.deps.clock,
            max_steps=self.run.max_steps,
        )

    async def _explore(self, catalog: str) -> Exploration:
        await self.feed.phase(RunPhase.EXPLORATION, 10, "Exploring")
        started = time.monotonic()
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
            prefix=self.kept.prefix,
        )
        if exploration.completed:
            await self._keep(
                lambda checkpoints: checkpoints.explored(
                    message=exploration.message,
                    total_steps=len(exploration.steps),
                    duration_ms=round((time.monotonic() - started) * 1000),
                )
            )
        return exploration

    async def _keep(self, write: Callable[[Checkpoints], Awaitable[None]]) -> None:
        """A checkpoint that cannot be written costs the chance to resume from it, and no more."""
        if self.deps.checkpoints is not None:
            try:
                await write(self.deps.checkpoints)
            except StoreUnavailable as error:
                log.warning("run %s: a checkpoint was not written: %s", self.run.id, error)

    # ------------------------------------------------------------ 4 and 4.5

    async def analyse(self) -> None:
        """4: one area after the other; 4.5: its insights are validated right away."""
        settings = self.deps.settings
        analyst = Analyst(
            model=self.deps.model,
            settings=settings.analysis,
            base_context=self.base_context,
            clock=self.deps.clock,
            index=self.deps.index,
            variables=warehouse_variables(self.infos),
            own_variables={info.id: warehouse_variables([info]) for info in self.infos},
        )
        await AreaByArea(
            areas=self.areas,
            steps=self.deps.steps,
            analyst=analyst,
            validator=self.validator,
            budget=ValidationBudget(settings.validation.VALIDATION_MAX_INSIGHTS_PER_RUN),
            feed=self.feed,
            deadline=self.deadline,
            clock=self.deps.clock,
            logs=self.logs,
            insights=self.insights,
            checkpoints=self.deps.checkpoints,
            explored_in=self.explored_in,
            kept=self.kept.areas_of(self.explored_in) if self.kept.explored else {},
        ).run()

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
