"""Phase 3: the model asks, the warehouse answers, until it is done or its steps are used up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.checkpoint.prefix import replayable
from pipeline.errors import ForOperator, RunSuperseded, StoreUnavailable
from pipeline.exploration.actions import Action, ActionKind
from pipeline.exploration.asking import Asker, Turn
from pipeline.exploration.budget import Budget
from pipeline.exploration.conversation import Conversation
from pipeline.exploration.live_row import live_row
from pipeline.exploration.novelty import REASONS, Judgement, Novelty, Ruling, judge
from pipeline.exploration.outcome import Outcome, finished, rejected
from pipeline.exploration.prompts import Grammar, first_message
from pipeline.exploration.query_desk import DigestOf, QueryDesk
from pipeline.exploration.replay import asked_by, turn_of
from pipeline.exploration.schema_desk import Correlations, SchemaDesk
from pipeline.ports import (
    Journal,
    LanguageModel,
    QueryResult,
    SchemaCatalog,
    StepIndex,
    Warehouse,
)
from pipeline.records import ExplorationStep, RunPhase, RunStep, RunStepType, StepAction
from pipeline.records.checkpoint import StepCheckpoint
from pipeline.settings import ExplorationSettings
from pipeline.sql.healing import Healer

log = logging.getLogger(__name__)

__all__ = ["Budget", "Exploration", "explore", "step_text"]

FIRST_PROGRESS, LAST_PROGRESS = 10, 65


@dataclass(slots=True)
class Exploration:
    """What an exploration found. ``completed`` is False when it was stopped from outside."""

    steps: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    results: dict[int, QueryResult] = field(default_factory=dict[int, QueryResult])
    """The whole result of every successful query, by step number."""
    completed: bool = False
    message: str = ""
    """The model's summary, or why it ended."""


async def explore(
    *,
    model: LanguageModel,
    warehouses: Mapping[str, Warehouse],
    catalog: SchemaCatalog,
    index: StepIndex | None,
    journal: Journal,
    system: str,
    budget: Budget,
    settings: ExplorationSettings,
    clock: Callable[[], datetime],
    cube_reaching: bool = False,
    deadline: datetime | None = None,
    digest: DigestOf | None = None,
    correlations: Correlations | None = None,
    prohibited: Sequence[str] = (),
    prefix: Sequence[StepCheckpoint] = (),
) -> Exploration:
    """Explore until the model is done, the steps are used up, or ``deadline`` has come.

    ``warehouses`` has the primary first. ``digest`` fills each query step's ``compact_result``.
    ``prohibited`` are key pairs between datasources that must never be joined, one a line.
    ``prefix`` are the steps of an earlier attempt, from 1 on: they are replayed, then it goes on.
    Ends normally, with ``completed`` True, on an accepted done or after ``max_steps``; a deadline
    returns what there is with ``completed`` False. Raises ``RunFailed`` when the model never sends
    a usable action, ``ModelError`` (``ModelRefused`` on a refusal), ``WarehouseUnavailable`` of the
    primary, or ``RunSuperseded``; every finished step is in the journal by then.
    """
    infos = [warehouse.info for warehouse in warehouses.values()]
    grammar = Grammar.of(infos, budget, correlations is not None, prohibited)
    conversation = Conversation(first_message(grammar, budget), 2 * budget.max_steps)
    healers = {w.info.id: Healer(model, w, catalog, clock=clock) for w in warehouses.values()}
    run = _Run(
        budget=budget,
        conversation=conversation,
        asker=Asker(
            model,
            system,
            conversation,
            grammar,
            budget,
            settings.EXPLORATION_MAX_OUTPUT_TOKENS,
        ),
        queries=QueryDesk(warehouses, healers, catalog, digest),
        schema=SchemaDesk(catalog, warehouses, budget, conversation, correlations),
        index=index,
        journal=journal,
        clock=clock,
        novelty=Novelty(armed=index is not None) if cube_reaching else None,
        deadline=deadline,
        prefix=replayable(prefix),
    )
    return await run.explore()


def step_text(step: ExplorationStep) -> str:
    """The text by which a query step is found: its purpose and the SQL that ran."""
    return f"{step.query_purpose}\n[SQL]: {step.query}"


@dataclass(slots=True)
class _Run:
    budget: Budget
    conversation: Conversation
    asker: Asker
    queries: QueryDesk
    schema: SchemaDesk
    index: StepIndex | None
    journal: Journal
    clock: Callable[[], datetime]
    novelty: Novelty | None
    deadline: datetime | None
    prefix: Sequence[tuple[StepCheckpoint, ExplorationStep]] = ()
    indexed: int = 0
    found: Exploration = field(default_factory=Exploration)

    async def explore(self) -> Exploration:
        self._announce()
        await self._make_prefix_ours()
        for number in range(1, self.budget.max_steps + 1):
            if self._expired():
                return self._stopped(number - 1)
            await self._phase(number)
            limit = self._time_left()
            try:
                async with limit:
                    if number <= len(self.prefix):
                        turn, outcome, step = await self._replay(*self.prefix[number - 1])
                    else:
                        turn, outcome, step = await self._work(number)
            except TimeoutError:
                if not limit.expired():
                    raise
                return self._stopped(number - 1)
            except RunSuperseded:
                raise
            except ForOperator as error:
                await self._feed_error(number, error)
                raise
            await self._keep(step, outcome, turn)
            if outcome.action is StepAction.COMPLETE:
                self.found.completed = True
                self.found.message = turn.action.summary or "the model finished"
                return self.found
            told = outcome.message(number, self.budget.max_steps - number)
            self.conversation.add(turn.said, told)
        self.found.completed = True
        self.found.message = f"all {self.budget.max_steps} steps are used"
        return self.found

    async def _work(self, number: int) -> tuple[Turn, Outcome, ExplorationStep]:
        """Ask for an action and execute it."""
        timestamp, started = self.clock(), time.monotonic()
        turn = await self.asker.next_action(number)
        outcome = await self._execute(turn.action, number)
        step = ExplorationStep(
            step=number,
            timestamp=timestamp,
            action=outcome.action,
            thinking=turn.action.rationale or turn.action.summary,
            asked=asked_by(turn.action),
            llm_request=turn.asked,
            llm_response=turn.said,
            tokens_in=turn.usage.input,
            tokens_out=turn.usage.output,
            duration_ms=round((time.monotonic() - started) * 1000),
            **outcome.fields,
        )
        return turn, outcome, step

    async def _execute(self, action: Action, number: int) -> Outcome:
        match action.kind:
            case ActionKind.QUERY:
                return await self.queries.run(action, number)
            case ActionKind.LOOKUP_SCHEMA:
                return await self.schema.lookup(action, number)
            case ActionKind.SEARCH_TABLES:
                return await self.schema.search(action, number)
            case ActionKind.GET_CORRELATIONS:
                return await self.schema.correlate(action, number)
            case ActionKind.DONE:
                return self._finish(action, number)

    def _finish(self, action: Action, number: int) -> Outcome:
        reason = self._too_early(number)
        if not reason:
            return finished(action.summary)
        log.info("step %d: done rejected: %s", number, reason)
        return rejected(reason)

    def _too_early(self, number: int) -> str:
        """Why a done signal at this step does not stand, or ""."""
        floor = self.budget.floor
        if number < floor:
            return (
                f"too early: this is step {number}, the run may be finished from step {floor} on; "
                f"{floor - number} more to go"
            )
        ruling = self.novelty.ruling() if self.novelty else Ruling.ALLOWED
        return REASONS.get(ruling, "")

    # ------------------------------------------------------------ steps of an earlier attempt

    async def _make_prefix_ours(self) -> None:
        """Checkpoint the prefix again under this attempt, last step first: whenever this attempt
        dies, attempts still rise along the rows, so that no step is lost to a stale tail."""
        for _, step in reversed(self.prefix):
            await self._best_effort(self.journal.step(step))

    async def _replay(
        self, row: StepCheckpoint, step: ExplorationStep
    ) -> tuple[Turn, Outcome, ExplorationStep]:
        """Do what is cheap again, which spends its budget again; tell what is kept of the rest."""
        turn = turn_of(row, step)
        match step.action:
            case StepAction.QUERY_DATA:
                outcome = self.queries.again(step)
            case StepAction.COMPLETE_REJECTED:
                outcome = rejected(step.reject_reason)
            case StepAction.COMPLETE:
                outcome = finished(turn.action.summary)
            case _:
                outcome = await self._execute(turn.action, step.step)
                step = step.model_copy(update={"error": "", **outcome.fields})
        return turn, outcome, step

    # ------------------------------------------------------------ keeping a finished step

    async def _keep(self, step: ExplorationStep, outcome: Outcome, turn: Turn) -> None:
        """Journal first; only a step that is kept may reach the index and the live feed."""
        replayed = step.step <= len(self.prefix)
        if not replayed:
            await self._best_effort(self.journal.step(step))
        self.found.steps.append(step)
        if outcome.result is not None:
            self.found.results[step.step] = outcome.result
        if step.action is StepAction.QUERY_DATA:
            await self._index(step, judged=not replayed)
        await self._best_effort(self.journal.feed(self._row(step, outcome, turn)))
        await self._best_effort(
            self.journal.count(
                total_queries=self.queries.total,
                successful_queries=self.queries.total - self.queries.failed,
                failed_queries=self.queries.failed,
                schema_lookup_calls=self.schema.lookup_calls,
                schema_search_calls=self.schema.search_calls,
                correlation_lookup_calls=self.schema.correlation_calls,
                analysis_step_index_upserts=self.indexed,
            )
        )

    async def _index(self, step: ExplorationStep, *, judged: bool) -> None:
        """Score the step against the steps before it, then make it one of them."""
        text, novelty = step_text(step), self.novelty if judged else None
        if novelty and step.step >= self.budget.floor:
            novelty.observe(await self._judge(step, text))
        if self.index is None or not step.succeeded:
            return
        try:
            await self.index.add(step.step, text, step.warehouse_id)
        except Exception as error:  # noqa: BLE001 - whatever breaks the index must not end the run
            log.warning("step %d could not be indexed: %s", step.step, error)
            kept = False
        else:
            self.indexed += 1
            kept = True
        if novelty:
            novelty.stored(kept)

    async def _judge(self, step: ExplorationStep, text: str) -> Judgement:
        if self.index is None or not step.succeeded:
            return Judgement.UNJUDGED
        try:
            nearest = await self.index.nearest(text, step.warehouse_id)
        except Exception as error:  # noqa: BLE001 - whatever breaks the index must not end the run
            log.warning("step %d could not be judged: %s", step.step, error)
            return Judgement.UNJUDGED
        return judge(None if nearest is None else nearest.score)

    def _row(self, step: ExplorationStep, outcome: Outcome, turn: Turn) -> RunStep:
        return live_row(
            step,
            total=self.budget.max_steps,
            at=self.clock(),
            asked=turn.action.query,
            notice=outcome.notice,
        )

    # ------------------------------------------------------------ around the steps

    def _announce(self) -> None:
        rule = "the floor and the novelty rule" if self.novelty else "the floor alone"
        infos = [warehouse.info for warehouse in self.queries.warehouses.values()]
        log.info(
            "exploration starts: datasources %s; at most %d steps, floor %d, early completion "
            "judged by %s",
            ", ".join(f"{info.id} ({info.shape})" for info in infos),
            self.budget.max_steps,
            self.budget.floor,
            rule,
        )
        if self.novelty and self.novelty.fallback:
            log.warning("the novelty rule stands down: %s", self.novelty.fallback)

    def _expired(self) -> bool:
        return self.deadline is not None and self.clock() >= self.deadline

    def _time_left(self) -> asyncio.Timeout:
        """A limit on asking and executing; what is done is always kept."""
        if self.deadline is None:
            return asyncio.timeout(None)
        return asyncio.timeout((self.deadline - self.clock()).total_seconds())

    def _stopped(self, done: int) -> Exploration:
        self.found.message = (
            f"the time limit DISCOVERY_MAX_DURATION was reached after {done} steps of exploration"
        )
        log.warning("%s", self.found.message)
        return self.found

    async def _phase(self, number: int) -> None:
        share = (number - 1) / self.budget.max_steps
        progress = FIRST_PROGRESS + int((LAST_PROGRESS - FIRST_PROGRESS) * share)
        detail = f"step {number} of {self.budget.max_steps}"
        await self._best_effort(self.journal.phase(RunPhase.EXPLORATION, progress, detail))

    async def _feed_error(self, number: int, error: ForOperator) -> None:
        row = RunStep(
            phase=RunPhase.EXPLORATION.value,
            step_num=number,
            step_total=self.budget.max_steps,
            timestamp=self.clock(),
            type=RunStepType.ERROR,
            message=f"Exploration stopped at step {number}",
            error=str(error),
        )
        await self._best_effort(self.journal.feed(row))

    async def _best_effort(self, write: Awaitable[None]) -> None:
        """A write that fails must not end a working run; one that is refused does."""
        try:
            await write
        except StoreUnavailable as error:
            log.warning("the journal could not be written: %s", error)
