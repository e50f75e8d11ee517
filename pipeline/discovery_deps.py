"""What one discovery works with, and where it leaves what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from pipeline.checkpoint.port import Checkpoints
from pipeline.ports import (
    Archive,
    Findings,
    Journal,
    LanguageModel,
    Memory,
    PairStore,
    QueryResult,
    SchemaCatalog,
    StepIndex,
    Warehouse,
)
from pipeline.records import ExplorationStep
from pipeline.settings import Settings
from pipeline.validation.agents import ValidationAgents
from pipeline.validation.policy import SequentialValidation, ValidationPolicy


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
    pairs: PairStore | None = None
    """What was measured of keys between the datasources; None: they are measured anew."""
    clock: Callable[[], datetime] = _now
    steps: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    """Filled by the run when exploration ends; what reads step rows may hold on to it before."""
    results: dict[int, QueryResult] = field(default_factory=dict[int, QueryResult])
    """Filled along with ``steps``: whole results by step number. Steps of an earlier attempt have
    none; what is left of theirs is on the step."""
    checkpoints: Checkpoints | None = None
    """None: the run can neither be resumed past its steps, nor resume one."""
