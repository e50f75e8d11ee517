"""Indexing the schemas of a project in this process, without Ray: as a command, not as a run."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from adapters.embeddings import open_embedder
from adapters.store.store import Store
from adapters.warehouses import OpenWarehouse, fingerprints, open_warehouse
from pipeline.correlations.known import KnownPairs, know_pairs
from pipeline.errors import BadRequest, ForOperator
from pipeline.ports import SchemaStore
from pipeline.records import IndexPhase, IndexProgress, Project, SchemaIndexRun, WarehouseConfig
from pipeline.schema.describing import Describer, ModelDescriber
from pipeline.schema.indexing import Indexer, Listener
from pipeline.settings import Settings
from serve.judging import opened_model

REPORT_SECONDS = 1.0
"""How often other processes are told how far it is."""
KEYS_SECONDS = 300.0
"""What measuring all keys may take."""


@dataclass(slots=True)
class Indexed:
    """What the indexing of a project came to."""

    runs: list[SchemaIndexRun] = field(default_factory=list[SchemaIndexRun])
    reused: dict[str, int] = field(default_factory=dict[str, int])
    """By datasource, how many tables had not changed and were not read again."""
    postponed: dict[str, int] = field(default_factory=dict[str, int])
    """By datasource, how many tables the first searches will make searchable by meaning."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Datasources that could not be read, with the reason."""
    keys: KnownPairs = field(default_factory=KnownPairs)
    """Keys between the datasources that were indexed."""


async def project_schemas(store: Store, project: Project) -> SchemaStore:
    """What is kept of the project's datasources as they are now."""
    prints = await fingerprints(project.datasources())
    return store.schemas.of_project(project.id, prints)


async def index_project(
    store: Store,
    project: Project,
    settings: Settings,
    listener: Listener,
    *,
    skip_cache: bool = False,
    describe: bool = False,
) -> Indexed:
    """Index every datasource, the primary first, then measure which keys they share. ``describe``
    has the project's language model write what each table is about.

    One that cannot be read is left out. Raises the primary's error, ``BadRequest`` without any
    datasource or without a model to describe with.
    """
    configs = project.datasources()
    if not configs:
        raise BadRequest("the project has no warehouse; create it again with --warehouse")
    indexed = Indexed()
    schemas = await project_schemas(store, project)
    embedder = await asyncio.to_thread(open_embedder, project.embedding, settings.vectors)
    telling = _telling(store, project.id, listener)
    async with _describing(project, settings, describe) as describer:
        for config in configs:
            try:
                async with _opened(config, settings) as warehouse:
                    indexer = Indexer(
                        warehouse,
                        schemas,
                        embedder,
                        telling,
                        describer=describer,
                        skip_cache=skip_cache,
                    )
                    indexed.runs.append(await indexer.index())
                    indexed.reused[config.id] = indexer.reused
                    indexed.postponed[config.id] = indexer.postponed
            except ForOperator as error:
                if config is configs[0]:
                    raise
                indexed.left_out[config.id] = str(error)
    await _measure(store, project, settings, telling, indexed, anew=skip_cache)
    return indexed


async def _measure(
    store: Store,
    project: Project,
    settings: Settings,
    listener: Listener,
    indexed: Indexed,
    *,
    anew: bool,
) -> None:
    """Find and measure the keys between the datasources that were indexed."""
    read = [c for c in project.datasources() if c.id in {run.datasource for run in indexed.runs}]
    if len(read) < 2:
        return
    prints = await fingerprints(project.datasources())
    schemas = store.schemas.of_project(project.id, prints)
    tables = [table for config in read for table in await schemas.load(config.id) or ()]
    await listener(IndexProgress(phase=IndexPhase.KEYS, updated_at=datetime.now(UTC)))
    async with contextlib.AsyncExitStack() as opened:
        warehouses = {c.id: await opened.enter_async_context(_opened(c, settings)) for c in read}
        indexed.keys = await know_pairs(
            project.key_pairs,
            tables,
            warehouses,
            KEYS_SECONDS,
            store=store.key_pairs.of_project(project.id, prints),
            anew=anew,
        )
    done = IndexProgress(
        phase=IndexPhase.DONE, datasource=read[-1].id, updated_at=datetime.now(UTC)
    )
    await listener(done)


@contextlib.asynccontextmanager
async def _opened(config: WarehouseConfig, settings: Settings) -> AsyncGenerator[OpenWarehouse]:
    warehouse = open_warehouse(config, settings.warehouse)
    try:
        yield warehouse
    finally:
        await warehouse.close()


@contextlib.asynccontextmanager
async def _describing(
    project: Project, settings: Settings, wanted: bool
) -> AsyncGenerator[Callable[[int], Describer] | None]:
    if not wanted:
        yield None
        return
    async with opened_model(project.llm, settings) as model:
        if model.info.offline:
            raise BadRequest(
                "no language model is set up that could describe tables; set ANTHROPIC_API_KEY, "
                "OPENAI_API_KEY or OPENAI_BASE_URL, or leave --describe out"
            )
        yield lambda tables: ModelDescriber(model, tables)


def _telling(store: Store, project_id: str, listener: Listener) -> Listener:
    """Tells the listener everything, and the store now and then."""
    told_at, told_phase = 0.0, IndexPhase.DONE

    async def tell(progress: IndexProgress) -> None:
        nonlocal told_at, told_phase
        progress = progress.model_copy(update={"project_id": project_id})
        await listener(progress)
        now = time.monotonic()
        if progress.phase is not told_phase or now - told_at >= REPORT_SECONDS:
            told_at, told_phase = now, progress.phase
            await store.schemas.report(progress)

    return tell
