"""What the live feed of a run says, beside the rows of its exploration steps."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from pipeline.errors import StoreUnavailable
from pipeline.ports import Journal
from pipeline.recommendation.citations import outcome_message
from pipeline.records import (
    AnalysisStep,
    Insight,
    Recommendation,
    RecommendationStep,
    RunPhase,
    RunStep,
    RunStepType,
)
from pipeline.validation.phase import Judged

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Feed:
    """Writes rows through the run's journal. Every method may raise ``RunSuperseded``."""

    journal: Journal
    clock: Callable[[], datetime]

    async def phase(self, phase: RunPhase, progress: int, message: str) -> None:
        """A phase begins: the run document and the feed say so."""
        await self._best_effort(self.journal.phase(phase, progress, message))
        await self._write(RunStepType.PHASE, phase, message=message)

    async def count(self, **counters: int) -> None:
        """Set counters of the run document."""
        await self._best_effort(self.journal.count(**counters))

    async def area_begins(
        self, area_id: str, number: int, total: int, progress: int, message: str
    ) -> None:
        """The analysis of an area starts: the run document and the feed say so."""
        await self._best_effort(self.journal.phase(RunPhase.ANALYSIS, progress, message))
        await self._write(
            RunStepType.ANALYSIS,
            RunPhase.ANALYSIS,
            message=message,
            analysis_area=area_id,
            step_num=number,
            step_total=total,
        )

    async def area(self, step: AnalysisStep) -> None:
        """An area was analysed, or failed, which is an error that the run survives."""
        name = step.area_name or step.area_id
        await self._write(
            RunStepType.ERROR if step.error else RunStepType.ANALYSIS,
            RunPhase.ANALYSIS,
            message=f"{name} failed" if step.error else f"{name}: {_insights(step.insight_count)}",
            analysis_area=step.area_id,
            duration_ms=step.duration,
            tokens=step.tokens_in + step.tokens_out,
            error=step.error,
        )

    async def insight(self, insight: Insight) -> None:
        """An insight was written; its verdict follows."""
        await self._write(
            RunStepType.INSIGHT,
            RunPhase.ANALYSIS,
            message=insight.name,
            insight_name=insight.name,
            insight_severity=insight.severity.value,
            analysis_area=insight.analysis_area,
        )

    async def verdict(self, judged: Judged) -> None:
        """An insight or a recommendation was judged."""
        doc, validation = judged.doc, judged.validation
        combined = validation.combined.value if validation.combined else ""
        name = doc.name if isinstance(doc, Insight) else doc.title
        await self._write(
            RunStepType.VALIDATION,
            RunPhase.VALIDATION,
            message=f"{combined}: {name}",
            insight_name=name,
            insight_severity=doc.severity.value if isinstance(doc, Insight) else "",
            analysis_area=doc.analysis_area if isinstance(doc, Insight) else "",
            combined=combined,
            step_num=judged.position,
            step_total=judged.total,
            tokens=validation.input_tokens + validation.output_tokens,
            warehouse_id=validation.warehouse_id,
        )

    async def recommendations(self, step: RecommendationStep) -> None:
        """The recommendation phase ended: one line for all, one for each."""
        kept = step.recommendations
        invalid = step.recommendations_dropped_missing_ids
        invalid += step.recommendations_dropped_unknown_id
        skipped = "No recommendations: no insight is eligible"
        await self._write(
            RunStepType.ERROR if step.error else RunStepType.RECOMMENDATION,
            RunPhase.RECOMMENDATIONS,
            message=skipped if not step.insight_count else outcome_message(len(kept), invalid),
            duration_ms=step.duration,
            tokens=step.tokens_in + step.tokens_out,
            error=step.error,
        )
        for recommendation in kept:
            await self._recommendation(recommendation)

    async def _recommendation(self, recommendation: Recommendation) -> None:
        await self._write(
            RunStepType.RECOMMENDATION,
            RunPhase.RECOMMENDATIONS,
            message=recommendation.title,
            insight_name=recommendation.title,
        )

    async def error(self, phase: RunPhase, message: str) -> None:
        """Something went wrong that the run survives."""
        await self._write(RunStepType.ERROR, phase, message=message, error=message)

    async def _write(self, kind: RunStepType, phase: RunPhase, **fields: str | int) -> None:
        row = {"timestamp": self.clock(), "type": kind, "phase": phase.value, **fields}
        await self._best_effort(self.journal.feed(RunStep.model_validate(row)))

    async def _best_effort(self, write: Awaitable[None]) -> None:
        """A row that cannot be written must not end a working run; a refused one does."""
        try:
            await write
        except StoreUnavailable as error:
            log.warning("the live feed could not be written: %s", error)


def _insights(count: int) -> str:
    return f"{count} insight" if count == 1 else f"{count} insights"
