"""What a run leaves for the attempts after it, and what it finds of the attempts before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.checkpoint.prefix import replayable
from pipeline.records import ExplorationStep
from pipeline.records.checkpoint import AreaCheckpoint, StepCheckpoint


@dataclass(frozen=True, slots=True)
class Kept:
    """What earlier attempts of a run have left."""

    prefix: list[StepCheckpoint] = field(default_factory=list[StepCheckpoint])
    """The steps that can be replayed, from 1 on."""
    summary: StepCheckpoint | None = None
    """There when exploration had ended with just these steps."""
    areas: list[AreaCheckpoint] = field(default_factory=list[AreaCheckpoint])

    @property
    def explored(self) -> bool:
        """True when exploration is skipped: it had ended, and its steps are all there."""
        return self.summary is not None and bool(self.steps)

    @property
    def steps(self) -> list[ExplorationStep]:
        """The steps of the prefix; after a finished exploration no more than it counted."""
        steps = [step for _, step in replayable(self.prefix)]
        counted = self.summary.total_steps if self.summary else 0
        return steps[:counted] if counted else steps

    def areas_of(self, attempt: int) -> Mapping[str, AreaCheckpoint]:
        """Areas that were analysed over the exploration of that attempt, by id."""
        return {row.area_id: row for row in self.areas if row.explored_in == attempt}


class Checkpoints(Protocol):
    """The checkpoints of one attempt, beside the steps that ``Journal.step`` keeps. Every write is
    fenced as the journal's are; any call may raise ``StoreUnavailable``."""

    async def load(self) -> Kept: ...

    async def renew(self) -> None:
        """Let all that is there live as long again as if it were written now."""
        ...

    async def explored(self, *, message: str, total_steps: int, duration_ms: int) -> None:
        """Exploration has ended by itself."""
        ...

    async def area(self, row: AreaCheckpoint) -> None:
        """An area is complete; run, project, attempt and time are stamped here."""
        ...
