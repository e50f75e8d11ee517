"""The read-only bundle that both agents judge a document by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.ports import SQL, QueryResult, WarehouseInfo
from pipeline.prompting import to_json
from pipeline.records import DocKind, ExplorationStep, Insight, Recommendation
from pipeline.settings import ValidationSettings
from pipeline.sql.rows import rows_of
from pipeline.validation.cells import cut, shown_rows

Row = dict[str, Any]
_PRIORITY = {1: "high", 2: "medium", 3: "low"}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class BundleDoc(_Part):
    """The insight or recommendation under judgement."""

    id: str
    kind: DocKind
    headline: str
    description: str = ""
    severity: str = ""
    affected_count: int = 0
    source_steps: list[int] = Field(default_factory=list)
    language: str = ""
    priority: str = ""
    expected_impact: dict[str, Any] = Field(default_factory=dict)
    actions: list[str] = Field(default_factory=list)


class BundleStep(_Part):
    """One cited exploration step: what ran, and the first rows of what came back."""

    step_id: int
    sql: str
    columns_typed: list[dict[str, str]] = Field(default_factory=list)
    """``{"name", "type"}`` inferred from the first row, sorted by name."""
    columns: list[str] = Field(default_factory=list)
    sample_rows: list[Row] = Field(default_factory=list)
    """As shown: cells cut."""
    original_rows: list[Row] = Field(default_factory=list, repr=False)
    """The same rows uncut; never shown, only compared with evidence."""
    full_row_count: int = 0
    truncated: bool = False
    caveats: list[str] = Field(default_factory=list)

    def payload(self) -> dict[str, Any]:
        """The step as prompts show it."""
        shown: dict[str, Any] = {
            "step_id": self.step_id,
            "sql": self.sql,
            "schema": self.columns_typed,
            "columns": self.columns,
            "sample_rows": self.sample_rows,
            "full_row_count": self.full_row_count,
            "truncated": self.truncated,
        }
        return {**shown, "caveats": self.caveats} if self.caveats else shown


class BundleWarehouse(_Part):
    """Where ``query_warehouse`` runs, and the filter that every query must carry."""

    datasource_id: str = ""
    dialect: str = ""
    query_language: str = SQL
    """What ``query_warehouse`` takes; shown when it is not SQL."""
    dataset: str = ""
    filter_clause: str = ""
    filter_field: str = ""
    filter_value: str = ""
    tables: list[str] = Field(default_factory=list)
    """Names of what can be queried; only a bundle without steps has them."""

    def payload(self) -> dict[str, Any]:
        """The datasource as prompts show it."""
        plain = {"query_language": SQL, "tables": list[str]()}
        whole = self.model_dump()
        return {key: value for key, value in whole.items() if plain.get(key) != value}


class BundleDiscovery(_Part):
    project_id: str = ""
    run_id: str = ""
    domain: str = ""
    language: str = ""


class Bundle(_Part):
    """Everything an agent is given. It pickles, and is never changed."""

    doc: BundleDoc
    source_steps: list[BundleStep] = Field(default_factory=list)
    source_steps_truncated: bool = False
    source_steps_omitted: list[int] = Field(default_factory=list)
    warehouse: BundleWarehouse = Field(default_factory=BundleWarehouse)
    discovery: BundleDiscovery = Field(default_factory=BundleDiscovery)
    prior_claims: list[str] = Field(default_factory=list)
    """The verifier's claims, verbatim; only the refuter's bundle has them."""

    def payload(self) -> dict[str, Any]:
        """What both agents see, in an order that never changes. Prior claims are not in it, so
        that the verifier and the refuter share their prefix."""
        doc = self.doc.model_dump(mode="json")
        if self.doc.kind is DocKind.INSIGHT:
            for name in ("priority", "expected_impact", "actions"):
                del doc[name]
        return {
            "doc": doc,
            "source_steps": [step.payload() for step in self.source_steps],
            "source_steps_truncated": self.source_steps_truncated,
            "source_steps_omitted": self.source_steps_omitted,
            "warehouse": self.warehouse.payload(),
            "discovery": self.discovery.model_dump(),
        }


@dataclass(frozen=True)
class BundleSource:
    """What bundles of one discovery are built from. ``steps`` and ``results`` are read when a
    bundle is built, so they may still be growing."""

    steps: Sequence[ExplorationStep]
    results: Mapping[int, QueryResult]
    """Full results by step number; a step without one shows the rows it kept itself."""
    warehouses: Mapping[str, WarehouseInfo]
    """By datasource id, the primary one first."""
    discovery: BundleDiscovery
    settings: ValidationSettings = field(default_factory=ValidationSettings)

    def for_insight(self, insight: Insight) -> Bundle:
        """Every cited step that exists, without a token cap."""
        cited = self._cited(insight.source_steps)
        doc = BundleDoc(
            id=insight.id,
            kind=DocKind.INSIGHT,
            headline=insight.name,
            description=insight.description,
            severity=insight.severity.value,
            affected_count=insight.affected_count,
            source_steps=insight.source_steps,
            language=self.discovery.language,
        )
        return Bundle(
            doc=doc,
            source_steps=[self.step(step) for step in cited],
            warehouse=self.warehouse_for(cited),
            discovery=self.discovery,
        )

    def for_recommendation(self, rec: Recommendation, insights: Iterable[Insight]) -> Bundle:
        """The union of the related insights' steps, within the token budget.

        Related ids may be ids or refs. A step that does not fit what is left of the budget is
        omitted and listed; later, smaller ones may still fit.
        """
        by_id = {key: insight for insight in insights for key in (insight.ref, insight.id)}
        related = [by_id[key] for key in rec.related_insight_ids if key in by_id]
        union = list(dict.fromkeys(n for insight in related for n in insight.source_steps))
        kept, omitted = self._within_budget(self._cited(union))
        doc = BundleDoc(
            id=rec.id,
            kind=DocKind.RECOMMENDATION,
            headline=rec.title,
            description=rec.description,
            severity=_priority(rec.priority),
            affected_count=rec.segment_size,
            source_steps=union,
            language=self.discovery.language,
            priority=_priority(rec.priority),
            expected_impact=rec.expected_impact.model_dump(exclude_defaults=True),
            actions=rec.actions,
        )
        kept_ids = {step.step_id for step in kept}
        return Bundle(
            doc=doc,
            source_steps=kept,
            source_steps_truncated=bool(omitted),
            source_steps_omitted=omitted,
            warehouse=self.warehouse_for([s for s in self.steps if s.step in kept_ids]),
            discovery=self.discovery,
        )

    def warehouse_for(self, cited: Sequence[ExplorationStep]) -> BundleWarehouse:
        """The datasource of most cited steps; a tie goes to the first name in the alphabet."""
        primary = next(iter(self.warehouses), "")
        votes = Counter(step.warehouse_id or primary for step in cited)
        best = min(votes, key=lambda name: (-votes[name], name)) if votes else primary
        info = self.warehouses.get(best) or self.warehouses.get(primary)
        return BundleWarehouse() if info is None else described(info)

    def step(self, step: ExplorationStep) -> BundleStep:
        """A cited step with its first rows."""
        limit = self.settings.VALIDATION_BUNDLE_SAMPLE_ROWS
        cap = self.settings.VALIDATION_BUNDLE_CELL_CHAR_CAP
        result = self.results.get(step.step)
        if result is None:
            rows, columns = step.query_result[:limit], list(step.result_columns)
        else:
            rows, columns = rows_of(result.table, 0, limit), list(result.table.column_names)
        shown = shown_rows(rows, cap)
        columns = list(shown[0]) if shown else [cut(name, cap) for name in columns]
        return BundleStep(
            step_id=step.step,
            sql=step.query,
            columns_typed=_inferred(shown[0] if shown else dict.fromkeys(columns)),
            columns=columns,
            sample_rows=shown,
            original_rows=rows,
            full_row_count=step.row_count,
            truncated=step.row_count > len(shown),
            caveats=[f"{q.kind.value}: {q.detail}".rstrip(": ") for q in step.quality],
        )

    def _cited(self, numbers: Sequence[int]) -> list[ExplorationStep]:
        """Successful query steps by the order of ``numbers``; others are skipped."""
        by_number = {step.step: step for step in self.steps if step.succeeded}
        return [by_number[n] for n in dict.fromkeys(numbers) if n in by_number]

    def _within_budget(
        self, cited: Sequence[ExplorationStep]
    ) -> tuple[list[BundleStep], list[int]]:
        left = self.settings.VALIDATION_REC_STEPS_TOKEN_BUDGET
        ratio = self.settings.VALIDATION_ESTIMATE_TOKEN_RATIO
        kept: list[BundleStep] = []
        omitted: list[int] = []
        for step in cited:
            candidate = self.step(step)
            size = estimate_tokens(len(to_json(candidate.payload(), dense=True)), ratio)
            if size > left:
                omitted.append(step.step)
                continue
            left -= size
            kept.append(candidate)
        return sorted(kept, key=lambda s: s.step_id), sorted(omitted)


def described(info: WarehouseInfo) -> BundleWarehouse:
    """A datasource as bundles show it."""
    clause = ""
    if info.filter_field:
        value = info.filter_value.replace("'", "''")
        clause = f"{info.filter_field} = '{value}'"
    return BundleWarehouse(
        datasource_id=info.id,
        dialect=info.dialect,
        query_language=info.query_language,
        dataset=info.dataset,
        filter_clause=clause,
        filter_field=info.filter_field,
        filter_value=info.filter_value,
    )


def estimate_tokens(chars: int, ratio: float) -> int:
    """Tokens of so many characters at ``ratio`` characters a token, rounded up."""
    return ceil(chars / ratio)


def _priority(priority: int) -> str:
    return _PRIORITY.get(priority, f"p{priority}")


def _inferred(row: Row) -> list[dict[str, str]]:
    return [{"name": name, "type": _kind_of(row[name])} for name in sorted(row)]


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"
