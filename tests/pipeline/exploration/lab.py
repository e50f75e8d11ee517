"""Small in-memory ports for the rules of exploration; only the model is a test double."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipeline import prompting
from pipeline.errors import QueryFailed
from pipeline.exploration.loop import Budget, Exploration, explore
from pipeline.ports import ChatRequest, QueryResult, StepHit, WarehouseInfo
from pipeline.records import (
    Column,
    ExplorationStep,
    RunPhase,
    RunStep,
    SchemaLookup,
    Table,
    TableHit,
)
from pipeline.settings import ExplorationSettings
from pipeline.testing import ScriptedModel

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Answer = pa.Table | QueryResult | BaseException


@dataclass
class MemoryWarehouse:
    """Answers queries from a function of the SQL."""

    answer: Callable[[str], Answer]
    info: WarehouseInfo = field(default_factory=lambda: WarehouseInfo("default", "duckdb"))
    asked: list[str] = field(default_factory=list[str])

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        self.asked.append(sql)
        answer = self.answer(sql)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, QueryResult):
            return answer
        return QueryResult(sql=sql, table=answer, row_count=answer.num_rows, duration_ms=3)

    async def tables(self) -> list[Table]:
        return []

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        return []


@dataclass
class MemoryCatalog:
    """Finds tables by exact or bare name; ``fail`` makes every lookup and search fail."""

    known: list[Table]
    fail: BaseException | None = None
    looked_up: list[list[str]] = field(default_factory=list[list[str]])
    searched: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def tables(self) -> list[Table]:
        return self.known

    async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
        self.looked_up.append(list(tables))
        if self.fail:
            raise self.fail
        found = SchemaLookup()
        for name in tables:
            hits = [
                t
                for t in self.known
                if datasource_id in ("", t.datasource_id)
                and name.casefold() in (t.name.casefold(), t.name.casefold().rsplit(".", 1)[-1])
            ]
            if hits:
                found.tables.append(hits[0])
            else:
                found.not_found.append({"table": name, "near": [t.name for t in self.known[:2]]})
        return found

    async def search(self, text: str, k: int) -> list[TableHit]:
        self.searched.append((text, k))
        if self.fail:
            raise self.fail
        return [TableHit(table=t.name, score=0.51239, row_count=5) for t in self.known[:k]]


@dataclass
class MemoryIndex:
    """Neighbours are the steps with the very same text in the same datasource."""

    steps: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    added: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    fail_add: BaseException | None = None
    fail_nearest: BaseException | None = None
    log: list[str] = field(default_factory=list[str])

    async def add(self, step: int, text: str, datasource_id: str) -> None:
        self.log.append(f"index {step}")
        if self.fail_add:
            raise self.fail_add
        self.added.append((step, text, datasource_id))
        self.steps[(datasource_id, text)] = step

    async def rank(self, text: str, k: int) -> list[StepHit]:
        return []

    async def nearest(self, text: str, datasource_id: str) -> StepHit | None:
        self.log.append("nearest")
        if self.fail_nearest:
            raise self.fail_nearest
        mine = [step for (source, _), step in self.steps.items() if source == datasource_id]
        if not mine:
            return None
        same = self.steps.get((datasource_id, text))
        return StepHit(mine[0], 0.3) if same is None else StepHit(same, 0.999)


@dataclass
class MemoryJournal:
    """Keeps what is written, and the order of all writes in ``log``."""

    log: list[str] = field(default_factory=list[str])
    steps: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    rows: list[RunStep] = field(default_factory=list[RunStep])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    phases: list[tuple[RunPhase, int, str]] = field(default_factory=list[tuple[RunPhase, int, str]])
    fail: BaseException | None = None

    async def phase(self, phase: RunPhase, progress: int, detail: str = "") -> None:
        self.phases.append((phase, progress, detail))

    async def feed(self, row: RunStep) -> None:
        self.log.append(f"feed {row.step_num}")
        self.rows.append(row)

    async def step(self, step: ExplorationStep) -> None:
        self.log.append(f"step {step.step}")
        if self.fail:
            raise self.fail
        self.steps.append(step)

    async def count(self, **counters: int) -> None:
        self.counters |= counters


def make_table(name: str, columns: int = 2, source: str = "default") -> Table:
    names = [f"c{i}" for i in range(columns)]
    return Table(
        datasource_id=source,
        name=name,
        columns=[Column(name=n, type="INTEGER") for n in names],
        row_count=7,
        sample_rows=[dict.fromkeys(names, "x" * 200) for _ in range(5)],
    )


def answer_all(sql: str) -> Answer:
    """Every query gives two rows, unless it says BROKEN."""
    if "BROKEN" in sql:
        return QueryFailed("syntax error near BROKEN", sql)
    return pa.table({"a": [1, 2], "b": ["x", "y"]})


DONE = {"done": True, "summary": "seen enough"}


def query(sql: str = "SELECT 1", **more: Any) -> dict[str, Any]:
    """A query action as a model sends it."""
    return {"rationale": "why", "query_purpose": "what", "query": sql} | more


def texts(request: ChatRequest) -> list[str]:
    """The contents of a request's messages."""
    return [message.content for message in request.messages]


def told(request: ChatRequest) -> dict[str, Any]:
    """The step result that a request ends with."""
    return prompting.read_json_block(request.messages[-1].content, "step_result")


@dataclass
class Lab:
    """Everything an exploration needs, in memory."""

    catalog: MemoryCatalog
    journal: MemoryJournal
    index: MemoryIndex | None
    warehouses: dict[str, MemoryWarehouse]
    settings: ExplorationSettings = field(default_factory=ExplorationSettings)

    async def explore(
        self, model: ScriptedModel, budget: Budget | None = None, **more: Any
    ) -> Exploration:
        defaults: dict[str, Any] = {
            "clock": lambda: NOW,
            "index": self.index,
            "warehouses": self.warehouses,
            "catalog": self.catalog,
        }
        return await explore(
            model=model,
            journal=self.journal,
            system="# Veridical role: explorer",
            budget=budget or Budget(max_steps=10),
            settings=self.settings,
            **(defaults | more),
        )


def make_lab() -> Lab:
    """One DuckDB-like warehouse, three tables, an index, and a journal that logs its order."""
    journal, index = MemoryJournal(), MemoryIndex()
    index.log = journal.log
    tables = [make_table("main.flights"), make_table("main.planes"), make_table("main.wide", 80)]
    return Lab(MemoryCatalog(tables), journal, index, {"default": MemoryWarehouse(answer_all)})
