"""The document store: one repository per collection, and the ports that phases call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from adapters.store import embedded
from adapters.store.checkpoints import AreaCheckpointRepository, CheckpointRepository
from adapters.store.client import Driver
from adapters.store.discoveries import DiscoveryLog, DiscoveryRepository, ExplorationLog
from adapters.store.indexes import indexes
from adapters.store.journal import RunJournal
from adapters.store.key_pairs import KeyPairRepository
from adapters.store.memory import FeedbackRepository, ProjectContextRepository
from adapters.store.model_windows import ModelWindowRepository
from adapters.store.projects import ProjectRepository
from adapters.store.resuming import Resumption, RunCheckpoints
from adapters.store.run_steps import RunStepRepository
from adapters.store.runs import RunRepository
from adapters.store.schema_cache import SchemaRepository
from adapters.store.standalone import (
    INSIGHT_FIELDS,
    RECOMMENDATION_FIELDS,
    StandaloneRepository,
)
from pipeline.errors import StoreUnavailable
from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Feedback,
    ProjectContext,
    RecommendationStep,
    StandaloneDoc,
    ValidationResult,
)
from pipeline.settings import CHECKPOINT_RETENTION, StoreSettings

log = logging.getLogger(__name__)
CONNECT_TRIES = 3


class Store:
    """Open it with ``adapters.store.connect``; close it, or use it as ``async with``.

    It belongs to the event loop that opened it. Every call may raise ``StoreUnavailable``.
    """

    def __init__(self, driver: Driver, uri: str, lease: embedded.Lease | None) -> None:
        self._driver, self._lease = driver, lease
        self.uri = uri
        """Where the server is. Other processes of this home connect the way this one did."""
        of = driver.collection
        self.projects = ProjectRepository(of("projects"))
        self.runs = RunRepository(of("discovery_runs"))
        self.run_steps = RunStepRepository(of("discovery_run_steps"))
        self.checkpoints = CheckpointRepository(of("discovery_checkpoints"))
        self.area_checkpoints = AreaCheckpointRepository(of("discovery_analysis_checkpoints"))
        self.resumption = Resumption(self.runs, self.checkpoints)
        self.discoveries = DiscoveryRepository(of("discoveries"))
        self.exploration_steps = ExplorationLog(of("discovery_exploration_steps"))
        self.analysis_steps = DiscoveryLog(of("discovery_analysis_steps"), AnalysisStep, "run_at")
        self.validation_results = DiscoveryLog(
            of("discovery_validation_results"), ValidationResult, "validated_at"
        )
        self.recommendation_log = DiscoveryLog(
            of("discovery_recommendation_log"), RecommendationStep, "run_at"
        )
        self.schemas = SchemaRepository(
            tables=of("project_schema_cache"),
            runs=of("project_schema_index_runs"),
            vectors=of("project_schema_vectors"),
            progress=of("project_schema_index_progress"),
        )
        self.key_pairs = KeyPairRepository(of("project_key_pairs"))
        self.model_windows = ModelWindowRepository(of("llm_model_windows"))
        self.ratings = FeedbackRepository(of("feedback"))
        self.project_context = ProjectContextRepository(of("project_context"))
        self.insights = StandaloneRepository(of("insights"), INSIGHT_FIELDS)
        self.recommendations = StandaloneRepository(of("recommendations"), RECOMMENDATION_FIELDS)

    # ------------------------------------------------------------ opening and closing

    @classmethod
    async def open(cls, settings: StoreSettings, home: Path) -> Self:
        """See ``adapters.store.connect``."""
        store = (
            await cls._remote(settings)
            if settings.MONGODB_URI.strip()
            else await cls._embedded(settings, home)
        )
        try:
            await store.ensure_indexes(timedelta(seconds=settings.DISCOVERY_CHECKPOINT_RETENTION))
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def _remote(cls, settings: StoreSettings) -> Self:
        uri = settings.MONGODB_URI.strip()
        where = uri.rpartition("@")[2].removeprefix("mongodb://").partition("/")[0]
        advice = f"no MongoDB answers at {where}; start it, or correct or unset MONGODB_URI"
        driver = Driver.open(uri, settings.MONGODB_DB, lambda: advice)
        try:
            await driver.ping()
        except BaseException:
            await _let_go(driver, None)
            raise
        return cls(driver, uri, None)

    @classmethod
    async def _embedded(cls, settings: StoreSettings, home: Path) -> Self:
        for tries_left in reversed(range(CONNECT_TRIES)):
            lease = await embedded.lease(home)
            driver: Driver | None = None
            try:
                driver = Driver.open(lease.uri, settings.MONGODB_DB, lambda: embedded.advice(home))
                if await driver.ping() == lease.server.pid:
                    return cls(driver, lease.uri, lease)
                # The address is a dead server's, and its port another home's by now.
                await _let_go(driver, lease)
            except StoreUnavailable:
                await _let_go(driver, lease)
                if not tries_left:
                    raise
            except BaseException:
                await _let_go(driver, lease)
                raise
        raise StoreUnavailable(embedded.advice(home))

    async def close(self) -> None:
        """Let go of the server. Safe to call twice."""
        await _let_go(self._driver, self._lease)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def ping(self) -> None:
        """Raises ``StoreUnavailable`` when the server does not answer."""
        await self._driver.ping()

    async def ensure_indexes(self, retention: timedelta = CHECKPOINT_RETENTION) -> None:
        """Create the indexes that are missing and renew those that changed."""
        for name, wanted in indexes(retention).items():
            await self._driver.collection(name).ensure_indexes(wanted)

    # ------------------------------------------------------------ runs

    def journal(self, run: DiscoveryRun) -> RunJournal:
        """What the run's present attempt writes while it works."""
        return RunJournal(run, self.runs, self.run_steps, self.checkpoints)

    def checkpoints_of(self, run: DiscoveryRun) -> RunCheckpoints:
        """What the run's present attempt leaves for the next one, and finds of those before."""
        return RunCheckpoints(run, self.runs, self.checkpoints, self.area_checkpoints)

    async def begin_resume(self, run_id: str) -> DiscoveryRun:
        """Make a failed run active under its next attempt. Raises ``NotFound`` or ``Conflict``."""
        return await self.resumption.begin(run_id)

    async def cancel_run(self, run_id: str) -> bool:
        """Cancel an active run and delete its checkpoints; False when it had ended."""
        cancelled = await self.runs.cancel(run_id)
        if cancelled:
            await self.delete_checkpoints(run_id)
        return cancelled

    async def delete_checkpoints(self, run_id: str) -> None:
        """Delete a run's checkpoints of steps and of areas, which go together."""
        await self.checkpoints.delete(run_id)
        await self.area_checkpoints.delete(run_id)

    # ------------------------------------------------------------ ports.Memory

    async def recent_discoveries(
        self, project_id: str, limit: int, *, exclude_run: str
    ) -> list[DiscoveryResult]:
        """Newest first, without those of ``exclude_run``."""
        return await self.discoveries.recent(project_id, limit, exclude_run=exclude_run)

    async def feedback(self, project_id: str) -> list[Feedback]:
        """Newest first."""
        return await self.ratings.of_project(project_id)

    async def context(self, project_id: str) -> ProjectContext | None:
        return await self.project_context.find(project_id)

    async def save_context(self, context: ProjectContext) -> None:
        await self.project_context.save(context)

    # ------------------------------------------------------------ ports.Archive

    async def save_discovery(
        self,
        result: DiscoveryResult,
        *,
        exploration: Sequence[ExplorationStep],
        analysis: Sequence[AnalysisStep],
        validation: Sequence[ValidationResult],
        recommendation: RecommendationStep | None,
    ) -> None:
        """Store the discovery, then its logs. A log that fails is a warning in the log."""
        await self.discoveries.save(result)
        advice = [] if recommendation is None else [recommendation]
        await _best_effort("exploration", self.exploration_steps.save(result, exploration))
        await _best_effort("analysis", self.analysis_steps.save(result, analysis))
        await _best_effort("validation", self.validation_results.save(result, validation))
        await _best_effort("recommendation", self.recommendation_log.save(result, advice))

    async def discoveries_of(self, run_id: str) -> Mapping[str, int]:
        """Ids of a run's discoveries, each with the attempt that made it."""
        return {found.id: found.attempt for found in await self.discoveries.by_run(run_id)}

    async def delete_discovery(self, discovery_id: str) -> None:
        """Delete a discovery and all that was derived from it in the store, itself last: what an
        interruption leaves stays visible, and can be deleted again."""
        for docs in (self.insights, self.recommendations):
            await docs.delete_of_discovery(discovery_id)
        for rows in (
            self.exploration_steps,
            self.analysis_steps,
            self.validation_results,
            self.recommendation_log,
        ):
            await rows.delete(discovery_id)
        await self.discoveries.delete(discovery_id)

    async def save_standalone(self, docs: Sequence[StandaloneDoc]) -> None:
        """Store documents by kind; saving an id again replaces it."""
        for doc in docs:
            home = self.recommendations if doc.kind == "recommendation" else self.insights
            await home.save(doc)


async def _let_go(driver: Driver | None, lease: embedded.Lease | None) -> None:
    """Ends even when it is interrupted. The driver says goodbye to its server, which blocks."""
    try:
        if driver is not None:
            await asyncio.shield(asyncio.to_thread(driver.close))
    finally:
        if lease is not None:
            lease.release()


async def _best_effort(name: str, writing: Awaitable[None]) -> None:
    try:
        await writing
    except Exception as error:  # noqa: BLE001 - whatever it is, a log is not worth the discovery
        log.warning("the %s log of this discovery was not saved: %s", name, error)
