"""VerifierAgent and RefuterAgent: one document at a time each, pooled by the policy's slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from actors.calls import call
from actors.remote import actor, cancel, share
from pipeline.errors import ToolError, VeridicalError
from pipeline.ports import LanguageModel, QueryResult, SchemaCatalog, StepPage, Warehouse
from pipeline.records import AgentMode, ExplorationStep, StructuredVerdict
from pipeline.settings import ValidationSettings
from pipeline.sql.healing import Healer
from pipeline.sql.rows import rows_of
from pipeline.validation.agent import Agent
from pipeline.validation.bundle import Bundle
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools

WARM_UP_POLL_S = 0.25


class AgentLost(VeridicalError):
    """The actor that judged a document ended while it did."""


class SharedStep(NamedTuple):
    """What is there of a step's result, where it lies in the object store. In a tuple a reference
    is not fetched before somebody reads it."""

    row_count: int
    table: Any
    """Of the whole result, or of the step itself (``ExplorationStep``) when an earlier attempt took
    it: then only the rows in its checkpoint are left."""


class SharedStepRows:
    """``StepRows`` over shared results: a table is mapped, not copied, when a page is read."""

    def __init__(self) -> None:
        self.steps: Mapping[int, SharedStep] = {}

    async def read(self, step_id: int, offset: int, limit: int) -> StepPage:
        """Raises ``ToolError`` for a step without rows."""
        step = self.steps.get(step_id)
        if step is None:
            known = ", ".join(str(number) for number in sorted(self.steps))
            raise ToolError(f"step {step_id} is no query step; steps with rows: {known or 'none'}")
        table: pa.Table | ExplorationStep = await call(step.table, _rows_lost)
        if isinstance(table, ExplorationStep):
            return await StepSnapshot([table], {}).read(step_id, offset, limit)
        offset = max(0, offset)
        rows = rows_of(table, offset, limit)
        total = max(step.row_count, table.num_rows)
        return StepPage(
            columns=list(table.column_names),
            rows=rows,
            total_rows=total,
            truncated=(offset >= total and offset > 0) or offset + len(rows) < total,
        )


def _rows_lost(why: str) -> ToolError:
    return ToolError(f"the step's rows are gone ({why}); query the warehouse instead")


class AgentShell:
    """A verifier or a refuter with the run's tools."""

    def __init__(
        self,
        mode: AgentMode,
        model: LanguageModel,
        warehouses: Mapping[str, Warehouse],
        catalog: SchemaCatalog,
        settings: ValidationSettings,
    ) -> None:
        self._mode = mode
        self._rows = SharedStepRows()
        queries = {name: Healer(model, each, catalog) for name, each in warehouses.items()}
        tools = WarehouseTools(queries, self._rows, catalog, settings)
        self._agent = Agent(mode, model, tools, settings)

    async def judge(self, bundle: Bundle, steps: Mapping[int, SharedStep]) -> StructuredVerdict:
        self._rows.steps = steps
        return await self._agent.run(bundle)

    def __repr__(self) -> str:
        return "VerifierAgent" if self._mode is AgentMode.VERIFIER else "RefuterAgent"


class AgentPool:
    """``ValidationAgents`` over actors: ``slots`` of each kind, made when needed or warmed up."""

    def __init__(
        self,
        make: Callable[[AgentMode], Any],
        slots: int,
        results: Mapping[int, QueryResult],
        steps: Sequence[ExplorationStep] = (),
    ) -> None:
        """``results`` and ``steps`` are read at every call, so they may still grow. A query step
        without a result is one of an earlier attempt, whose checkpoint kept its first rows."""
        self._make, self._results, self._steps = make, results, steps
        self._kept: dict[int, Any] = {}
        self._free: dict[AgentMode, asyncio.Queue[Any]] = {}
        for mode in AgentMode:
            self._free[mode] = asyncio.Queue()
            for _ in range(slots):
                self._free[mode].put_nowait(None)

    async def warm_up(self) -> None:
        """Make the actors once the run has its first result: while the explorer asks, processors
        have time, and the first document need not wait."""
        while not (self._results or self._steps):  # noqa: ASYNC110 - they tell nobody that they grow
            await asyncio.sleep(WARM_UP_POLL_S)
        for mode, free in self._free.items():
            for _ in range(free.qsize()):
                free.put_nowait(free.get_nowait() or self._make(mode))

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        return await self._judge(AgentMode.VERIFIER, bundle)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        return await self._judge(AgentMode.REFUTER, bundle)

    async def _judge(self, mode: AgentMode, bundle: Bundle) -> StructuredVerdict:
        steps = self._shared()
        async with self._slot(mode) as agent:
            ref = agent.judge.remote(bundle, steps)
            try:
                return await call(ref, lambda why: AgentLost(f"the {mode} was lost: {why}"))
            except asyncio.CancelledError:
                cancel(ref)
                raise

    def _shared(self) -> dict[int, SharedStep]:
        shared = {
            number: SharedStep(result.row_count, result.handle)
            for number, result in self._results.items()
        }
        for step in self._steps:
            if step.succeeded and step.step not in shared:
                if step.step not in self._kept:
                    self._kept[step.step] = share(step)
                shared[step.step] = SharedStep(step.row_count, self._kept[step.step])
        return shared

    @asynccontextmanager
    async def _slot(self, mode: AgentMode) -> AsyncGenerator[Any]:
        """A free actor; one that was lost leaves its slot empty, to be filled by the next."""
        agent = await self._free[mode].get() or self._make(mode)
        try:
            yield agent
        except AgentLost:
            agent = None
            raise
        finally:
            self._free[mode].put_nowait(agent)


def agent_maker(
    model: LanguageModel,
    warehouses: Mapping[str, Warehouse],
    catalog: SchemaCatalog,
    settings: ValidationSettings,
) -> Callable[[AgentMode], Any]:
    """Makes the actors of a pool. None restarts by itself: a document in work would be lost
    silently, while the pool replaces a lost actor and the policy retries the document."""
    made = actor(AgentShell)

    def make(mode: AgentMode) -> Any:
        return made.remote(mode, model, warehouses, catalog, settings)

    return make
