"""What ``doctor`` tries: the real part each time, within a limit, ending in a sentence."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import ForOperator, NotFound, VeridicalError
from pipeline.records import LlmConfig, Project
from pipeline.settings import Settings
from serve.cli import outside
from serve.cli.lookup import find_project
from serve.report.numbers import plural

FREE_BYTES = 1024**3
"""Below this a store may stop writing in the middle of a run."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    detail: str
    advice: str = ""
    """What to do about a failure, when the detail does not say it."""
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Trial:
    """A check before it has run: what to try, for how long, and what to do when it fails."""

    name: str
    attempt: Callable[[], Awaitable[str]]
    limit_s: float
    advice: str


class Checkup:
    """All checks of a home, and of one project if it is named."""

    def __init__(self, settings: Settings, project: str = "") -> None:
        self._settings, self._name = settings, project
        self._project: Project | None = None

    def trials(self) -> list[Trial]:
        """In the order in which one needs the other."""
        home = self._settings.home.path
        every = [
            Trial("home", self._home, 10, "set VERIDICAL_HOME to a folder that you can write"),
            Trial("store", self._store, 60, f"look into {home / 'logs'}, or set MONGODB_URI"),
            Trial("vectors", self._vectors, 60, "check QDRANT_URL, or unset it"),
            Trial("model", self._model, 60, "check the key and the address of the model"),
            Trial("ray", self._ray, 120, "unset RAY_ADDRESS to start a local Ray"),
        ]
        if self._name:
            advice = "check the path in `veridical project show`"
            every.insert(2, Trial("warehouse", self._warehouse, 60, advice))
        return every

    async def run(self) -> AsyncIterator[Check]:
        """Every check in turn; one that fails does not keep the next from being tried."""
        for trial in self.trials():
            yield await tried(trial)

    # ------------------------------------------------------------ the parts

    async def _home(self) -> str:
        home = self._settings.home.path
        await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
        if not os.access(home, os.W_OK | os.X_OK):
            raise ForOperator(f"{home} cannot be written")
        free = (await asyncio.to_thread(shutil.disk_usage, home)).free
        if free < FREE_BYTES:
            raise ForOperator(f"{home} has only {free // 1024**2} MB free; make room")
        return f"{home}, {free / 1024**3:.1f} GB free"

    async def _store(self) -> str:
        async with outside.open_store(self._settings) as store:
            await store.ping()
            count = len(await store.projects.newest_first())
            if self._name:
                self._project = await find_project(store, self._name)
        kind = "MONGODB_URI" if self._settings.store.MONGODB_URI else "embedded server"
        return f"{kind}, {plural(count, 'project')}"

    async def _warehouse(self) -> str:
        if self._project is None:
            raise NotFound(f"the project {self._name!r} could not be read from the store")
        counts = [
            f"{warehouse.id} ({warehouse.provider}): "
            f"{await outside.count_tables(warehouse, self._settings)} tables"
            for warehouse in self._project.datasources()
        ]
        return ", ".join(counts) or "the project has no warehouse"

    async def _vectors(self) -> str:
        return await outside.probe_vectors(self._settings, self._embedding)

    async def _model(self) -> str:
        llm = self._project.llm if self._project else LlmConfig()
        return await outside.probe_model(self._settings, llm)

    async def _ray(self) -> str:
        host = await asyncio.to_thread(outside.host_status, self._settings)
        address = os.environ.get("RAY_ADDRESS") or (host.ray_address if host else "")
        return await outside.probe_ray(address)

    @property
    def _embedding(self) -> LlmConfig:
        return self._project.embedding if self._project else LlmConfig()


async def tried(trial: Trial) -> Check:
    """Run one trial within its limit; whatever goes wrong becomes a failed check."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(trial.limit_s):
            detail, ok, advice = await trial.attempt(), True, ""
    except TimeoutError:
        detail, ok, advice = f"no answer within {trial.limit_s:g} s", False, trial.advice
    except VeridicalError as error:
        detail, ok, advice = str(error), False, trial.advice
    except Exception as error:  # noqa: BLE001 - a broken part may raise anything; doctor names it
        first = (str(error).strip().splitlines() or [""])[0]
        detail, ok, advice = f"{type(error).__name__}: {first}", False, trial.advice
    return Check(trial.name, ok, detail, advice, round(time.monotonic() - started, 2))
