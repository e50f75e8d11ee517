"""What the API needs from the rest of the system, and nothing more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from fastapi import Request
from pydantic import BaseModel

from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Project,
    RecommendationStep,
    RunStep,
    ValidationResult,
)

Row = TypeVar("Row", bound=BaseModel, covariant=True)
StartRun = Callable[[Project, DiscoveryRun], Awaitable[str]]
"""Hands a pending run to whoever drives it and returns the job's id at once."""
CreateRun = Callable[[DiscoveryRun], Awaitable[object]]
"""Stores a pending run; raises ``Conflict`` while another run of its project is active."""
ResumeRun = Callable[[str], Awaitable[DiscoveryRun]]
"""Makes a failed run active under its next attempt; raises ``NotFound`` or ``Conflict``."""
Check = Callable[[], Awaitable[None]]
"""Returns when the part works; raises, with a sentence for people, when it does not."""


def now() -> datetime:
    return datetime.now(UTC)


class Projects(Protocol):
    async def create(self, project: Project) -> object: ...
    async def get(self, project_id: str) -> Project:
        """Raises ``NotFound``."""
        ...

    async def newest_first(self, limit: int = ...) -> Sequence[Project]: ...


class Runs(Protocol):
    async def create(self, run: DiscoveryRun) -> object:
        """Raises ``Conflict`` while another run of the project is active."""
        ...

    async def get(self, run_id: str) -> DiscoveryRun:
        """Raises ``NotFound``."""
        ...

    async def active(self, project_id: str) -> DiscoveryRun | None: ...
    async def recent(self, project_id: str = ..., limit: int = ...) -> Sequence[DiscoveryRun]: ...
    async def fail(self, run_id: str, attempt: int, reason: str) -> bool: ...


class RunSteps(Protocol):
    async def since(
        self, run_id: str, *, attempt: int = ..., since_id: str = ..., limit: int = ...
    ) -> Sequence[RunStep]: ...


class Discoveries(Protocol):
    async def get(self, discovery_id: str) -> DiscoveryResult:
        """Raises ``NotFound``."""
        ...


class Log(Protocol[Row]):
    async def of(self, discovery_id: str) -> Sequence[Row]:
        """A discovery's rows in order; none when it has no such log."""
        ...


class ApiStore(Protocol):
    """The repositories that the API reads and writes."""

    @property
    def projects(self) -> Projects: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def run_steps(self) -> RunSteps: ...
    @property
    def discoveries(self) -> Discoveries: ...
    @property
    def exploration_steps(self) -> Log[ExplorationStep]: ...
    @property
    def analysis_steps(self) -> Log[AnalysisStep]: ...
    @property
    def validation_results(self) -> Log[ValidationResult]: ...
    @property
    def recommendation_log(self) -> Log[RecommendationStep]: ...

    async def begin_resume(self, run_id: str) -> DiscoveryRun:
        """Raises ``NotFound``, or ``Conflict`` when the run cannot be resumed."""
        ...


@dataclass(frozen=True, slots=True)
class ApiDeps:
    store: ApiStore
    start_run: StartRun
    create_run: CreateRun | None = None
    """In place of the store's own, for who first clears away runs whose driver is dead."""
    resume_run: ResumeRun | None = None
    """In place of the store's own, likewise."""
    checks: Mapping[str, Check] = field(default_factory=dict[str, Check])
    """What readiness looks at, by the name that a person would give it."""
    clock: Callable[[], datetime] = now
    close: Callable[[], Awaitable[None]] | None = None
    """Awaited when the application stops."""


def deps_of(request: Request) -> ApiDeps:
    """The dependencies of the application that serves this request."""
    return request.app.state.deps
