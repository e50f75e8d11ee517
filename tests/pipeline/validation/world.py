"""A small world for validation: one warehouse in memory, steps over it, verdict builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipeline.errors import QueryFailed
from pipeline.ports import QueryResult, WarehouseInfo
from pipeline.records import (
    Column,
    ExplorationStep,
    Insight,
    Recommendation,
    SchemaLookup,
    Severity,
    StepAction,
    Table,
    TableHit,
)
from pipeline.settings import ValidationSettings
from pipeline.validation.bundle import Bundle, BundleDiscovery, BundleSource
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import Unhealed, WarehouseTools

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CARRIERS = [
    {"carrier": "UA", "flights": 58665, "avg_delay": 12.106073},
    {"carrier": "B6", "flights": 54635, "avg_delay": 13.022522},
    {"carrier": "EV", "flights": 54173, "avg_delay": 19.955390},
    {"carrier": "OO", "flights": 32, "avg_delay": 12.586207},
]
Row = dict[str, Any]


class MemoryWarehouse:
    """Answers the queries it knows by exact text; anything else fails as a warehouse would."""

    def __init__(self, answers: Mapping[str, Sequence[Row]], info: WarehouseInfo) -> None:
        self.answers = dict(answers)
        self.info = info
        self.asked: list[str] = []

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        self.asked.append(sql)
        if sql not in self.answers:
            raise QueryFailed(f"Catalog Error: no table for {sql!r}", sql)
        return result_of(self.answers[sql], sql)

    async def tables(self) -> list[Table]:
        return []

    async def sample(self, table: str, rows: int) -> list[Row]:
        return []


class MemoryCatalog:
    """Knows one table, main.flights."""

    async def tables(self) -> list[Table]:
        return [FLIGHTS]

    async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
        known = [FLIGHTS for name in tables if name == FLIGHTS.name]
        unknown = [{"table": n, "near": [FLIGHTS.name]} for n in tables if n != FLIGHTS.name]
        return SchemaLookup(tables=known, not_found=unknown)

    async def search(self, text: str, k: int) -> list[TableHit]:
        return []


FLIGHTS = Table(
    name="main.flights",
    columns=[Column(name="carrier", type="VARCHAR"), Column(name="dep_delay", type="DOUBLE")],
    row_count=336776,
    sample_rows=[{"carrier": "UA", "dep_delay": 2.0}],
)


def padded(count: int) -> list[Row]:
    return [{"n": i, "text": "x" * 150} for i in range(count)]


def result_of(rows: Sequence[Row], sql: str = "SELECT 1") -> QueryResult:
    table = pa.Table.from_pylist(list(rows))
    return QueryResult(sql=sql, table=table, row_count=table.num_rows)


def step_of(number: int, rows: Sequence[Row], **fields: Any) -> ExplorationStep:
    given: dict[str, Any] = {
        "step": number,
        "timestamp": NOW,
        "action": StepAction.QUERY_DATA,
        "query": f"SELECT * FROM step_{number}",
        "query_result": list(rows)[:50],
        "result_columns": list(rows[0]) if rows else [],
        "row_count": len(rows),
    }
    return ExplorationStep(**{**given, **fields})


def insight_of(number: int = 1, **fields: Any) -> Insight:
    given: dict[str, Any] = {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "ref": f"trends-{number}",
        "analysis_area": "trends",
        "name": "UA flew the most flights, 58,665",
        "description": "UA flew 58,665 flights, more than any other carrier.",
        "severity": Severity.HIGH,
        "affected_count": 58665,
        "source_steps": [1],
    }
    return Insight(**{**given, **fields})


def recommendation_of(number: int = 1, **fields: Any) -> Recommendation:
    given: dict[str, Any] = {
        "id": f"rec-{number}",
        "title": "Move two UA departures an hour earlier",
        "priority": 1,
        "related_insight_ids": ["trends-1"],
    }
    return Recommendation(**{**given, **fields})


def claim(
    text: str = "UA flew the most flights, 58,665",
    status: str = "supported",
    *,
    headline: bool = False,
    row: Row | None = None,
    kind: str = "step_row",
    **evidence: Any,
) -> Row:
    """One claim verdict as a model writes it; ``row`` defaults to a true one."""
    found = CARRIERS[0] if row is None else row
    return {
        "claim_text": text,
        "claim_kind": "headline" if headline else "count",
        "is_headline": headline,
        "status": status,
        "reasoning": "because",
        "evidence": {"kind": kind, "step_id": 1, "row": found, **evidence},
    }


def verdict(*claims: Row, overall: str | None = "supported", reason: str = "fine") -> Row:
    """A whole verdict; without claims it has one supported headline."""
    judged = list(claims) or [claim(headline=True)]
    whole: Row = {
        "claims_considered": [c["claim_text"] for c in judged],
        "claim_verdicts": judged,
        "overall_reason": reason,
    }
    return whole if overall is None else {**whole, "overall": overall}


def submit(*claims: Row, overall: str | None = "supported") -> Row:
    return {"submit_verdict": verdict(*claims, overall=overall)}


class World:
    """One discovery: steps, results, warehouse and tools."""

    def __init__(
        self,
        answers: Mapping[str, Sequence[Row]] | None = None,
        *,
        filtered: bool = False,
        settings: ValidationSettings | None = None,
    ) -> None:
        self.settings = settings or ValidationSettings()
        tenant: dict[str, Any] = (
            {"filter_field": "tenant", "filter_value": "t'1"} if filtered else {}
        )
        info = WarehouseInfo(id="default", dialect="duckdb", datasets=("main",), **tenant)
        self.warehouse = MemoryWarehouse(answers or {}, info)
        self.steps: list[ExplorationStep] = [step_of(1, CARRIERS)]
        self.results: dict[int, QueryResult] = {1: result_of(CARRIERS)}
        self.tools = WarehouseTools(
            {"default": Unhealed(self.warehouse)},
            StepSnapshot(self.steps, self.results),
            MemoryCatalog(),
            self.settings,
        )
        self.source = BundleSource(
            self.steps,
            self.results,
            {"default": info},
            BundleDiscovery(project_id="p1", run_id="r1", domain="general", language="English"),
            self.settings,
        )

    def add_step(self, rows: Sequence[Row], **fields: Any) -> ExplorationStep:
        step = step_of(len(self.steps) + 1, rows, **fields)
        self.steps.append(step)
        if rows:
            self.results[step.step] = result_of(rows)
        return step

    def bundle(self, **fields: Any) -> Bundle:
        return self.source.for_insight(insight_of(**fields))
