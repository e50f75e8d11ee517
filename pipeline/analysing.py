"""Phases 4 and 4.5: one area after the other is analysed, and its insights are validated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.analysis.areas import Area
from pipeline.analysis.phase import Analyst
from pipeline.checkpoint.areas import restored
from pipeline.checkpoint.port import Checkpoints
from pipeline.deadline import Deadline
from pipeline.errors import StoreUnavailable
from pipeline.feed import Feed
from pipeline.publishing import Logs
from pipeline.records import AnalysisStep, ExplorationStep, Insight, RunPhase, Status
from pipeline.records.checkpoint import AreaCheckpoint
from pipeline.validation.phase import Budget, Judged, Validator, validate_insights

log = logging.getLogger(__name__)

FIRST_PROGRESS, LAST_PROGRESS = 65, 85


@dataclass(slots=True)
class AreaByArea:
    """The areas of one run. What they find is added to ``logs`` and ``insights``."""

    areas: Sequence[Area]
    steps: Sequence[ExplorationStep]
    analyst: Analyst
    validator: Validator
    budget: Budget
    feed: Feed
    deadline: Deadline
    clock: Callable[[], datetime]
    logs: Logs
    insights: list[Insight]
    checkpoints: Checkpoints | None = None
    explored_in: int = 1
    """The attempt whose exploration the steps are from."""
    kept: Mapping[str, AreaCheckpoint] = field(default_factory=dict[str, AreaCheckpoint])
    """Areas that an earlier attempt completed over these steps, by id. They are not done again."""

    async def run(self) -> None:
        """Analyse what is not there yet. Raises ``RunSuperseded``."""
        there = [self.kept[area.id] for area in self.areas if area.id in self.kept]
        self.budget.used += sum(row.validated for row in there)
        for number, area in enumerate(self.areas):
            if area.id in self.kept:
                await self._restore(number, area)
            else:
                await self._work(number, area, len(there))

    async def _work(self, number: int, area: Area, restored_areas: int) -> None:
        been = f", {restored_areas} complete before" if restored_areas else ""
        await self._begin(number, area, f"Analysing {area.name}", been)
        step = await self._analyse(area)
        await self._found(step)
        used = self.budget.used
        if step.insights:
            words = self._words(number, f"Validating {area.name}", been)
            await self.feed.phase(RunPhase.VALIDATION, self._progress(number), words)
            await self._validate(step)
        if not step.error and not self.deadline.cut_off:
            await self._keep(step, self.budget.used - used)

    async def _restore(self, number: int, area: Area) -> None:
        await self._begin(number, area, f"{area.name} had been analysed before")
        step = restored(self.kept[area.id].step)
        await self._found(step)
        self.logs.validation += step.validation_results
        ordered = sorted(step.insights, key=lambda insight: -insight.affected_count)
        for position, insight in enumerate(ordered, 1):
            validation = insight.validation
            if validation and validation.combined not in (None, Status.VALIDATION_DISABLED):
                await self.feed.verdict(Judged(insight, validation, position, len(ordered)))

    async def _begin(self, areas_done: int, area: Area, message: str, been: str = "") -> None:
        words, progress = self._words(areas_done, message, been), self._progress(areas_done)
        await self.feed.area_begins(area.id, areas_done + 1, len(self.areas), progress, words)

    def _words(self, areas_done: int, message: str, been: str) -> str:
        return f"{message} ({areas_done + 1} of {len(self.areas)}{been})"

    def _progress(self, areas_done: int) -> int:
        return FIRST_PROGRESS + (LAST_PROGRESS - FIRST_PROGRESS) * areas_done // len(self.areas)

    async def _analyse(self, area: Area) -> AnalysisStep:
        """The area's step; beyond the deadline one that says so."""
        if not self.deadline.over():
            async with self.deadline.window():
                return await self.analyst.analyse(area, self.steps)
        now, reason = self.clock(), self.deadline.reason
        return AnalysisStep(area_id=area.id, area_name=area.name, run_at=now, error=reason)

    async def _found(self, step: AnalysisStep) -> None:
        self.logs.analysis.append(step)
        self.insights += step.insights
        await self.feed.area(step)
        for insight in step.insights:
            await self.feed.insight(insight)
        analysed = self.logs.analysis
        await self.feed.count(
            insights_found=len(self.insights),
            analysis_steps_dropped=sum(len(done.dropped_steps) for done in analysed),
            analysis_step_index_search_calls=len(analysed) if self.analyst.index else 0,
        )

    async def _validate(self, step: AnalysisStep) -> None:
        async with self.deadline.window():
            step.validation_results = await validate_insights(
                step.insights, self.validator, self.budget
            )
        self.logs.validation += step.validation_results

    async def _keep(self, step: AnalysisStep, validated: int) -> None:
        """A row that cannot be written costs the area's analysis when the run is resumed."""
        if self.checkpoints is None:
            return
        row = AreaCheckpoint(
            area_id=step.area_id, explored_in=self.explored_in, validated=validated, step=step
        )
        try:
            await self.checkpoints.area(row)
        except StoreUnavailable as error:
            log.warning("area %s has no checkpoint: %s", step.area_id, error)
