"""Phase 4 for one area: pick steps, ask the model, read its insights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeline.analysis.areas import Area
from pipeline.analysis.asking import Answer, Question, ask
from pipeline.analysis.budgets import query_results_budget, results_after_overflow
from pipeline.analysis.entries import rendered_chars
from pipeline.analysis.insights import ParsedInsights, parse_insights
from pipeline.analysis.picker import CHARS_PER_TOKEN, TOP_K, Picked, pick
from pipeline.errors import ContextOverflow, RunSuperseded, VeridicalError
from pipeline.ports import LanguageModel, StepHit, StepIndex
from pipeline.prompting import block, load, render
from pipeline.records import AnalysisStep, ExplorationStep
from pipeline.settings import AnalysisSettings

log = logging.getLogger(__name__)

NO_QUERY_SUCCEEDED = "no exploration query returned a result, so there is nothing to analyse"


@dataclass(frozen=True, slots=True)
class Analyst:
    """Analyses one area after the other; its system prompt is the same for all of them."""

    model: LanguageModel
    settings: AnalysisSettings
    base_context: str
    clock: Callable[[], datetime]
    index: StepIndex | None = None
    """None: keywords alone pick the steps."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else an area's prompt may name, such as ``DATASET``."""
    own_variables: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    """The same for the areas of a datasource's own pack, by its id."""

    async def analyse(self, area: Area, steps: Sequence[ExplorationStep]) -> AnalysisStep:
        """Analyse an area over steps that carry their digests.

        Whatever goes wrong is recorded in the step's ``error``, so that the next area can go on;
        only ``RunSuperseded`` and cancellation come through.
        """
        step = AnalysisStep(area_id=area.id, area_name=area.name, run_at=self.clock())
        started = time.monotonic()
        try:
            await self._analyse(area, steps, step)
        except RunSuperseded:
            raise
        except Exception as error:  # one area must not end the run
            foreseen = isinstance(error, VeridicalError)
            log.warning("area %s failed: %s", area.id, error, exc_info=not foreseen)
            step.error = str(error) or type(error).__name__
        step.duration = int((time.monotonic() - started) * 1000)
        return step

    async def _analyse(
        self, area: Area, steps: Sequence[ExplorationStep], step: AnalysisStep
    ) -> None:
        if not any(s.succeeded for s in steps):
            step.error = NO_QUERY_SUCCEEDED
            return
        hits = await self._hits(area)
        picked = pick(area, steps, hits, query_results_budget(self.model.info))
        if not picked.selected:
            _record_pick(step, picked)
            return
        try:
            answer = await self._ask(area, picked, step)
        except ContextOverflow as overflow:
            rendered = rendered_chars(picked.entries) // CHARS_PER_TOKEN
            picked = pick(area, steps, hits, results_after_overflow(overflow, rendered))
            answer = await self._ask(area, picked, step)
        _record_answer(step, answer)

    async def _hits(self, area: Area) -> list[StepHit] | None:
        return await self.index.rank(area.query_text, TOP_K) if self.index else None

    async def _ask(self, area: Area, picked: Picked, step: AnalysisStep) -> Answer[ParsedInsights]:
        _record_pick(step, picked)
        system = render(load("analysis/system"), {"BASE_CONTEXT": self.base_context})
        user = self._user_message(area, picked)
        step.prompt = f"{system}\n\n{user}"
        return await ask(
            self.model,
            Question(
                system=system,
                user=user,
                label="analyse",
                parse=lambda reply: parse_insights(
                    reply, area.id, picked.selected, now=self.clock()
                ),
                corrective="analysis/retry",
                max_retries=self.settings.ANALYSIS_PARSE_MAX_RETRIES,
                output_floor=self.settings.ANALYSIS_MIN_OUTPUT_TOKENS,
            ),
        )

    def _user_message(self, area: Area, picked: Picked) -> str:
        described: dict[str, Any] = {
            "id": area.id,
            "name": area.name,
            "description": area.description,
            "keywords": list(area.keywords),
        }
        if area.datasource_id:
            described["datasource_id"] = area.datasource_id
        sources = _steps_by_datasource(picked.selected)
        if len(sources) > 1:
            described["steps_by_datasource"] = sources
        results = block("query_results", picked.entries)
        text = render(
            area.prompt,
            {
                **self.variables,
                **self.own_variables.get(area.datasource_id, {}),
                "TOTAL_QUERIES": str(len(picked.entries)),
                "QUERY_RESULTS": results,
            },
        )
        parts = [block("area", described), text.strip()]
        if "{{QUERY_RESULTS}}" not in area.prompt:
            parts.append(results)
        return "\n\n".join(part for part in parts if part)


def _steps_by_datasource(steps: Sequence[ExplorationStep]) -> dict[str, list[int]]:
    sources: dict[str, list[int]] = {}
    for step in sorted(steps, key=lambda step: step.step):
        sources.setdefault(step.warehouse_id, []).append(step.step)
    return sources


def _record_pick(step: AnalysisStep, picked: Picked) -> None:
    step.relevant_queries = len(picked.selected)
    step.query_results_chars = rendered_chars(picked.entries)
    step.selected_steps = picked.selected_steps
    step.dropped_steps = picked.dropped_steps


def _record_answer(step: AnalysisStep, answer: Answer[ParsedInsights]) -> None:
    step.response = answer.response
    step.tokens_in, step.tokens_out = answer.usage.input, answer.usage.output
    step.analysis_parse_retries = answer.retries
    step.error = answer.error
    if answer.value is not None:
        step.insights = answer.value.insights
        step.insight_count = len(step.insights)
        step.insights_dropped_parse = answer.value.dropped
