"""What validation itself costs: framework time a round, and what concurrency saves.

    python -m benchmarks.validation [--documents 24] [--concurrency 8] [--model-ms 300]

Framework time is what passes between a reply of the model and the next request, or the verdict,
with a model that answers at once: parsing, tool, history, evidence. The second part judges the same
documents with a model that takes its time, one by one and concurrently. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipeline.ports import ChatReply, ChatRequest, ModelInfo, QueryResult, Usage, WarehouseInfo
from pipeline.prompting import read_json_block
from pipeline.records import ExplorationStep, Insight, StepAction, StructuredVerdict, Table
from pipeline.settings import ValidationSettings
from pipeline.validation.agents import LocalAgents
from pipeline.validation.bundle import Bundle, BundleDiscovery, BundleSource
from pipeline.validation.phase import Budget, Validator, validate_insights
from pipeline.validation.policy import (
    ConcurrentValidation,
    SequentialValidation,
    ValidationPolicy,
)
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import Unhealed, WarehouseTools

STEPS, ROWS = 3, 200
INFO = WarehouseInfo(id="default", dialect="duckdb", datasets=("main",))
TOOLS = (
    {"query_warehouse": "SELECT grp, amount FROM main.sales"},
    {"read_step_rows": {"step_id": 1, "offset": 50, "limit": 50}},
)


def _table() -> pa.Table:
    return pa.table(
        {
            "grp": [f"group {n}" for n in range(ROWS)],
            "amount": [n * 1.25 for n in range(ROWS)],
            "note": ["a remark of ordinary length about this row"] * ROWS,
        }
    )


class MemoryWarehouse:
    """Answers every query with the same 200 rows, at once."""

    info = INFO

    def __init__(self) -> None:
        self._table = _table()

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        return QueryResult(sql=sql, table=self._table, row_count=ROWS)

    async def tables(self) -> list[Table]:
        return []

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        return []


class TimedModel:
    """Uses a tool or two, then submits; notes how long it was not asked in between."""

    info = ModelInfo(provider="scripted", model="timed")

    def __init__(self, tools: int, delay_s: float = 0.0) -> None:
        self._tools, self._delay_s = tools, delay_s
        self._answered: dict[tuple[str, bool], float] = {}
        self.gaps_ms: list[float] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer after the delay."""
        asked = time.perf_counter()
        bundle = read_json_block(request.messages[0].content, "bundle")
        refuter = request.label == "refute"
        case = (bundle["doc"]["id"], refuter)
        self.worked(case, asked)
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        turn = sum(message.role == "assistant" for message in request.messages)
        reply = TOOLS[turn % len(TOOLS)] if turn < self._tools else _verdict(bundle)
        self._answered[case] = time.perf_counter()
        return ChatReply(text=json.dumps(reply), usage=Usage(input=1, output=1))

    def worked(self, case: tuple[str, bool], until: float) -> None:
        """Note the time since the last reply to ``case``: document, and whether it is refuted."""
        if case in self._answered:
            self.gaps_ms.append((until - self._answered.pop(case)) * 1000)


class TimedAgents(LocalAgents):
    """Notes the time of the last round too."""

    def __init__(self, model: TimedModel, tools: WarehouseTools, settings: ValidationSettings):
        super().__init__(model, tools, settings)
        self._timed = model

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        verdict = await super().verify(bundle)
        self._timed.worked((bundle.doc.id, False), time.perf_counter())
        return verdict

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        verdict = await super().refute(bundle)
        self._timed.worked((bundle.doc.id, True), time.perf_counter())
        return verdict


def _verdict(bundle: dict[str, Any]) -> dict[str, Any]:
    headline, step = bundle["doc"]["headline"], bundle["source_steps"][0]
    evidence = {
        "kind": "step_row",
        "step_id": step["step_id"],
        "row": step["sample_rows"][0],
    }
    claim = {
        "claim_text": headline,
        "is_headline": True,
        "status": "supported",
        "evidence": evidence,
    }
    return {
        "submit_verdict": {
            "claims_considered": [headline],
            "claim_verdicts": [claim],
            "overall": "supported",
        }
    }


# ---------------------------------------------------------------- measuring


def _steps() -> tuple[list[ExplorationStep], dict[int, QueryResult]]:
    now = datetime.now(UTC)
    steps = [
        ExplorationStep(
            step=n,
            timestamp=now,
            action=StepAction.QUERY_DATA,
            query="SELECT grp, amount, note FROM main.sales",
            row_count=ROWS,
        )
        for n in range(1, STEPS + 1)
    ]
    results = {s.step: QueryResult(sql=s.query, table=_table(), row_count=ROWS) for s in steps}
    return steps, results


def _insights(count: int) -> list[Insight]:
    return [
        Insight(
            id=f"insight-{n}",
            ref=f"trends-{n}",
            analysis_area="trends",
            name=f"Group {n} stands out",
            description="The amount is far above that of the others.",
            affected_count=count - n,
            source_steps=list(range(1, STEPS + 1)),
        )
        for n in range(count)
    ]


async def judged(model: TimedModel, policy: ValidationPolicy, count: int) -> tuple[float, int]:
    """Seconds that validation took, and how many documents were supported."""
    steps, results = _steps()
    settings = ValidationSettings(VALIDATION_VERIFIER_TOKEN_CAP=10**7,
                                  VALIDATION_REFUTER_TOKEN_CAP=10**7)  # fmt: skip
    source = BundleSource(
        steps=steps,
        results=results,
        warehouses={INFO.id: INFO},
        discovery=BundleDiscovery(project_id="p", language="English"),
        settings=settings,
    )
    rows = StepSnapshot(steps, results)
    tools = WarehouseTools({INFO.id: Unhealed(MemoryWarehouse())}, rows, None, settings)
    validator = Validator(source, TimedAgents(model, tools, settings), settings, policy)
    insights = _insights(count)
    started = time.perf_counter()
    await validate_insights(insights, validator, Budget(count))
    seconds = time.perf_counter() - started
    held = sum(i.validation is not None and i.validation.combined == "supported" for i in insights)
    return seconds, held


def framework_ms(documents: int = 24, tools: int = 4) -> list[float]:
    """Milliseconds of each round that were not the model's."""
    model = TimedModel(tools)
    _, held = asyncio.run(judged(model, SequentialValidation(), documents))
    assert held == documents, "the benchmark's own verdicts must hold"
    return model.gaps_ms


def compare(documents: int, concurrency: int, delay_s: float) -> dict[str, Any]:
    """Wall time of the same documents one by one and concurrently."""
    seconds: dict[str, float] = {}
    policies: Sequence[tuple[str, ValidationPolicy]] = (
        ("sequential", SequentialValidation()),
        ("concurrent", ConcurrentValidation(concurrency)),
    )
    for name, policy in policies:
        seconds[name], held = asyncio.run(judged(TimedModel(1, delay_s), policy, documents))
        assert held == documents, "the benchmark's own verdicts must hold"
    return {
        "documents": documents,
        "concurrency": concurrency,
        "model_ms": delay_s * 1000,
        "sequential_s": round(seconds["sequential"], 2),
        "concurrent_s": round(seconds["concurrent"], 2),
        "ratio": round(seconds["concurrent"] / seconds["sequential"], 4),
        "at_most": round(1 / 6, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=24)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--model-ms", type=float, default=300.0)
    asked = parser.parse_args()
    gaps = framework_ms(asked.documents)
    found = {
        "framework_ms_per_round": {
            "rounds": len(gaps),
            "median": round(statistics.median(gaps), 3),
            "p95": round(statistics.quantiles(gaps, n=20)[-1], 3),
            "at_most": 5.0,
        },
        "policies": compare(asked.documents, asked.concurrency, asked.model_ms / 1000),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
