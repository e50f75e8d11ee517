"""VerifierAgent and RefuterAgent: one document at a time each, pooled by the policy's slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from actors.calls import call
from actors.remote import actor, cancel
from pipeline.errors import ToolError, VeridicalError
from pipeline.ports import LanguageModel, QueryResult, SchemaCatalog, StepPage, Warehouse
from pipeline.records import AgentMode, StructuredVerdict
from pipeline.settings import ValidationSettings
from pipeline.sql.healing import Healer
from pipeline.sql.rows import rows_of
from pipeline.validation.agent import Agent
from pipeline.validation.bundle import Bundle
from pipeline.validation.tools import WarehouseTools

WARM_UP_POLL_S = 0.25


class AgentLost(VeridicalError):
    """The actor that judged a document ended while it did."""


class SharedStep(NamedTuple):
    """A step's result where it lies in the object store. In a tuple a reference is not fetched
    before somebody reads it."""

    row_count: int
    table: Any


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
        table: pa.Table = await call(step.table, _rows_lost)
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
        self, make: Callable[[AgentMode], Any], slots: int, results: Mapping[int, QueryResult]
    ) -> None:
        """``results`` is read at every call, so it may still grow."""
        self._make, self._results = make, results
        self._free: dict[AgentMode, asyncio.Queue[Any]] = {}
        for mode in AgentMode:
            self._free[mode] = asyncio.Queue()
            for _ in range(slots):
                self._free[mode].put_nowait(None)

    async def warm_up(self) -> None:
        """Make the actors once the run has its first result: while the explorer asks, processors
        have time, and the first document need not wait."""
        while not self._results:  # noqa: ASYNC110 - a mapping tells nobody that it has grown
            await asyncio.sleep(WARM_UP_POLL_S)
        for mode, free in self._free.items():
            for _ in range(free.qsize()):
                free.put_nowait(free.get_nowait() or self._make(mode))

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        return await self._judge(AgentMode.VERIFIER, bundle)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        return await self._judge(AgentMode.REFUTER, bundle)

    async def _judge(self, mode: AgentMode, bundle: Bundle) -> StructuredVerdict:
        steps = {
            number: SharedStep(result.row_count, result.handle)
            for number, result in self._results.items()
        }
        async with self._slot(mode) as agent:
            ref = agent.judge.remote(bundle, steps)
            try:
                return await call(ref, lambda why: AgentLost(f"the {mode} was lost: {why}"))
            except asyncio.CancelledError:
                cancel(ref)
                raise

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
