"""Phase 5: recommendations from the insights that survived validation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline.analysis.asking import Answer, Question, ask
from pipeline.errors import ContextOverflow, RunSuperseded, VeridicalError
from pipeline.ports import LanguageModel
from pipeline.prompting import block, load, render, text_block
from pipeline.recommendation.citations import check_citations
from pipeline.recommendation.parsing import ParsedRecommendations, parse_recommendations
from pipeline.recommendation.prompt_input import insight_for_prompt, insights_summary
from pipeline.records import Insight, RecommendationStep, Severity
from pipeline.settings import AnalysisSettings

log = logging.getLogger(__name__)

SKIPPED = "skipped_no_eligible_insights"
UNREADABLE = "recommendation_parse_error"
_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Recommender:
    model: LanguageModel
    settings: AnalysisSettings
    base_context: str
    pack_text: str
    """The project's ``recommendations`` prompt."""
    clock: Callable[[], datetime]

    async def recommend(self, eligible: Sequence[Insight]) -> RecommendationStep:
        """Ask for recommendations and keep those that cite eligible insights only.

        Without an eligible insight no call is made. What goes wrong is recorded in the step.
        """
        step = RecommendationStep(run_at=self.clock(), insight_count=len(eligible))
        if not eligible:
            step.status = SKIPPED
            return step
        started = time.monotonic()
        try:
            await self._recommend(list(eligible), step)
        except RunSuperseded:
            raise
        except Exception as error:  # the insights are worth keeping without advice
            foreseen = isinstance(error, VeridicalError)
            log.warning("recommendations failed: %s", error, exc_info=not foreseen)
            step.error = str(error) or type(error).__name__
        step.duration = int((time.monotonic() - started) * 1000)
        return step

    async def _recommend(self, eligible: list[Insight], step: RecommendationStep) -> None:
        try:
            answer = await self._ask(eligible, step)
        except ContextOverflow:
            if len(eligible) == 1:
                raise
            ranked = sorted(eligible, key=lambda i: (_RANK[i.severity], -i.affected_count))
            half = {insight.id for insight in ranked[: len(ranked) // 2]}
            eligible = [insight for insight in eligible if insight.id in half]
            answer = await self._ask(eligible, step)
        _record(step, answer, eligible)

    async def _ask(
        self, eligible: Sequence[Insight], step: RecommendationStep
    ) -> Answer[ParsedRecommendations]:
        system = render(load("recommendation/system"), {"BASE_CONTEXT": self.base_context})
        user = self._user_message(eligible)
        step.prompt = f"{system}\n\n{user}"
        step.insight_count = len(eligible)
        return await ask(
            self.model,
            Question(
                system=system,
                user=user,
                label="recommend",
                parse=lambda reply: parse_recommendations(reply, now=self.clock()),
                corrective="recommendation/retry",
                max_retries=self.settings.RECOMMENDATION_PARSE_MAX_RETRIES,
                output_floor=self.settings.ANALYSIS_MIN_OUTPUT_TOKENS,
            ),
        )

    def _user_message(self, eligible: Sequence[Insight]) -> str:
        """The pack's text with its blocks; a block that the text does not place comes after it."""
        blocks = {
            "INSIGHTS_SUMMARY": text_block("insights_summary", insights_summary(eligible)),
            "DISCOVERY_DATE": text_block("discovery_date", f"{self.clock():%Y-%m-%d}"),
            "INSIGHTS_DATA": block("insights", [insight_for_prompt(i) for i in eligible]),
        }
        text = render(self.pack_text, blocks).strip()
        rest = [held for name, held in blocks.items() if f"{{{{{name}}}}}" not in self.pack_text]
        return "\n\n".join([text, *rest] if text else rest)


def _record(
    step: RecommendationStep, answer: Answer[ParsedRecommendations], eligible: Sequence[Insight]
) -> None:
    step.response = answer.response
    step.tokens_in, step.tokens_out = answer.usage.input, answer.usage.output
    step.recommendation_parse_retries = answer.retries
    if answer.value is None:
        step.status, step.error = UNREADABLE, answer.error
        return
    cited = check_citations(answer.value.recommendations, eligible)
    step.recommendations = cited.kept
    step.recommendations_dropped_parse = answer.value.dropped
    step.recommendations_dropped_missing_ids = cited.missing_ids
    step.recommendations_dropped_unknown_id = cited.unknown_id
    step.recommendations_dropped = answer.value.dropped + cited.dropped
