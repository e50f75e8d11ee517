"""The doors from the command line to the rest of the system, opened only when a command needs one.

Tests put doubles here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.store import Store
    from pipeline.ports import VectorHit
    from pipeline.records import DiscoveryRun, LlmConfig, Project, WarehouseConfig
    from pipeline.schema.indexing import Listener
    from pipeline.settings import Settings
    from serve.host import HostStatus
    from serve.indexing import Indexed
    from serve.runtime import Runtime


def open_store(settings: Settings) -> AbstractAsyncContextManager[Store]:
    """The document store alone."""
    from serve import runtime

    return runtime.open_store(settings)


def open_runtime(
    settings: Settings,
    *,
    progress: Callable[[str], None],
    beside: Callable[[], object] | None = None,
) -> AbstractAsyncContextManager[Runtime]:
    """Store and cluster; ``beside`` is done while they open."""
    from serve import runtime

    return runtime.open_runtime(settings, progress=progress, beside=beside)


async def check_resumable(store: Store, run_id: str) -> DiscoveryRun:
    """The failed run, if it can be resumed; nothing needs to be started to find that out.

    Raises ``NotFound``, or ``Conflict`` with the reason.
    """
    from actors import runs

    return await runs.check_resumable(store, run_id)


async def note_deaths(store: Store) -> None:
    """Mark the runs whose driver has died as failed, so that nobody waits for them."""
    from actors import runs

    await runs.reap(store)


def host_up(settings: Settings, port: int) -> HostStatus:
    from serve import host

    return host.up(settings, port)


def host_down(settings: Settings) -> bool:
    from serve import host

    return host.down(settings)


def host_status(settings: Settings) -> HostStatus | None:
    from serve import host

    return host.status(settings)


def client_variables(settings: Settings, host: HostStatus) -> dict[str, str]:
    """What the environment of a Ray client must hold to use the host's cluster."""
    from serve import host as hosts

    return hosts.client_variables(settings, host)


def build_demo_warehouse(path: Path) -> None:
    """Blocking. Does nothing when the file is there already."""
    from adapters.warehouses.demo import build_demo

    build_demo(path)


async def count_tables(config: WarehouseConfig, settings: Settings) -> int:
    """Open a warehouse and count its tables.

    Raises ``WarehouseUnavailable``, or ``EmptyWarehouse`` when there is none to read.
    """
    from adapters.warehouses import open_warehouse
    from pipeline.errors import EmptyWarehouse

    warehouse = open_warehouse(config, settings.warehouse)
    try:
        tables = await warehouse.tables()
    finally:
        await warehouse.close()
    if not tables:
        raise EmptyWarehouse(
            f"the warehouse {config.config.get('path') or config.id} has no table that can be "
            "read; load data into it, or name another dataset"
        )
    return len(tables)


async def index_schema(
    store: Store,
    project: Project,
    settings: Settings,
    listener: Listener,
    *,
    skip_cache: bool,
    describe: bool,
) -> Indexed:
    """Read the tables of a project's datasources and keep them. Needs no cluster.

    Raises the primary's error.
    """
    from serve.indexing import index_project

    return await index_project(
        store, project, settings, listener, skip_cache=skip_cache, describe=describe
    )


async def search_findings(
    settings: Settings, project: Project, text: str, limit: int, kind: str
) -> list[VectorHit]:
    """The published findings nearest in meaning, best first. Needs no cluster.

    Raises ``VectorsUnavailable``.
    """
    from adapters.embeddings import open_embedder
    from adapters.vectors import borrowed_vectors
    from adapters.vectors.findings import FindingsIndex

    embedder = await asyncio.to_thread(open_embedder, project.embedding, settings.vectors)
    async with borrowed_vectors(settings.vectors, settings.home.path) as vectors:
        findings = FindingsIndex(embedder, vectors)
        return await findings.search(text, project_id=project.id, limit=limit, kind=kind)


async def probe_vectors(settings: Settings, embedding: LlmConfig) -> str:
    """Embed a word and ask the vector index. Raises ``VectorsUnavailable``."""
    from adapters.embeddings import open_embedder
    from adapters.vectors import borrowed_vectors

    embedder = await asyncio.to_thread(open_embedder, embedding, settings.vectors)
    await embedder.embed(["ready"])
    async with borrowed_vectors(settings.vectors, settings.home.path) as vectors:
        await vectors.ping()
    kind = "Qdrant server" if settings.vectors.QDRANT_URL else "Qdrant in process"
    return f"{kind}, embedder {embedder.id} with {embedder.dim} dimensions"


async def probe_model(settings: Settings, llm: LlmConfig) -> str:
    """Open the model and ask whether it is there. Raises ``ModelError``."""
    from adapters.llm import choose, open_model

    sentence = choose(llm, settings.model).sentence
    model = await asyncio.to_thread(open_model, llm, settings.model)
    try:
        await model.ping()
    finally:
        await model.close()
    return sentence


async def probe_ray(address: str) -> str:
    """Connect to the cluster, or start and end a local one. Raises ``ClusterUnavailable``."""
    from pipeline.errors import ClusterUnavailable

    probe = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "serve.cli.ray_probe", address,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, complaint = await probe.communicate()
    except asyncio.CancelledError:
        probe.terminate()
        await probe.wait()
        raise
    if probe.returncode:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise ClusterUnavailable(lines[-1] if lines else "Ray could not be started")
    return out.decode(errors="replace").strip()
