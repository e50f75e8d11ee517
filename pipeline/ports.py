"""The Protocols that phases call. Adapters and actor clients implement them.

All methods are coroutines, because each may cross a process or a network. None may be called with
a driver on the event loop: whoever implements one keeps blocking work in threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

import pyarrow as pa

from pipeline.records import (
    AnalysisStep,
    DiscoveryResult,
    ExplorationStep,
    Feedback,
    IndexedTable,
    IndexOrigin,
    MeasuredPair,
    ProjectContext,
    Quality,
    RecommendationStep,
    RunPhase,
    RunStep,
    SchemaIndexRun,
    SchemaLookup,
    Shape,
    StandaloneDoc,
    Table,
    TableHit,
    ValidationResult,
)

# ---------------------------------------------------------------- language models


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. Neighbours of the same role are merged by adapters, in order."""

    role: Literal["user", "assistant"]
    content: str
    cache: bool = False
    """Everything up to and including this message stays byte-stable: a cache break point."""


class StopReason(StrEnum):
    END = "end"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. ``input`` counts everything that was read, ``cached`` the part that was cached."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input, self.output + other.output, self.cached + other.cached
        )


@dataclass(frozen=True, slots=True)
class ChatRequest:
    system: str
    messages: tuple[Message, ...]
    max_tokens: int
    label: str = ""
    """What the call is for, for logs and accounting: ``explore``, ``verify`` … Never behaviour."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    text: str
    stop: StopReason = StopReason.END
    usage: Usage = Usage()
    reasoning: str = ""
    """The provider's separate reasoning text, if it gives one."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    provider: str
    """``anthropic``, ``openai``, ``offline`` or ``scripted``."""
    model: str
    context_window: int = 128_000
    max_output: int = 64_000

    @property
    def offline(self) -> bool:
        """True when no language model is involved and statements come from rules."""
        return self.provider == "offline"


class LanguageModel(Protocol):
    @property
    def info(self) -> ModelInfo: ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer once. Raises ``ModelError``; a refusal is a reply with ``StopReason.REFUSAL``."""
        ...


# ---------------------------------------------------------------- warehouses

SQL = "SQL"


@dataclass(frozen=True, slots=True)
class WarehouseInfo:
    """What never changes about a datasource during a run."""

    id: str
    dialect: str
    """sqlglot's name: duckdb, postgres, redshift, bigquery, snowflake, tsql, databricks. Empty for
    a datasource that is not asked in SQL."""
    datasets: tuple[str, ...] = ()
    label: str = ""
    filter_field: str = ""
    filter_value: str = ""
    shape: Shape = Shape.ENTITIES
    query_language: str = SQL
    """What ``Warehouse.query`` takes, as it is named to a model."""
    anchors: bool = True
    """False when the project demoted the datasource."""

    @property
    def dataset(self) -> str:
        return ", ".join(self.datasets)

    @property
    def can_anchor(self) -> bool:
        """True when a run may rest on this datasource alone."""
        return self.anchors and self.shape is Shape.ENTITIES


@dataclass(frozen=True, slots=True)
class QueryResult:
    """A capped result. ``row_count`` is what was read: a floor if a caveat says ``truncated``."""

    sql: str
    """What ran, after guard and filter."""
    table: pa.Table
    """Column names are unique and not empty."""
    row_count: int
    duration_ms: int = 0
    caveats: tuple[Quality, ...] = ()
    handle: Any = None
    """Whatever the implementer needs to share the table without copying; phases ignore it."""


class Warehouse(Protocol):
    @property
    def info(self) -> WarehouseInfo: ...

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        """Guard, filter, run and cap one query.

        Raises ``UnsafeSql``, ``QueryFailed`` or ``QueryTimeout`` (the model is told), or
        ``WarehouseUnavailable`` (the operator is told).
        """
        ...

    async def tables(self) -> list[Table]:
        """All readable tables but system ones, with columns and approximate row counts."""
        ...

    async def sample(self, table: str, rows: int) -> list[dict[str, Any]]:
        """The first ``rows`` rows of a table from ``tables()``, normalised and filtered."""
        ...


# ---------------------------------------------------------------- schema and step index


class SchemaCatalog(Protocol):
    async def tables(self) -> list[Table]:
        """Every table of every datasource, without sample rows, ordered by name."""
        ...

    async def lookup(self, tables: Sequence[str], datasource_id: str = "") -> SchemaLookup:
        """Table detail with sample rows; names resolve exactly, by bare name, or by case."""
        ...

    async def search(self, text: str, k: int) -> list[TableHit]:
        """The ``k`` tables nearest in meaning, best first."""
        ...


class SchemaStore(Protocol):
    """Tables of a project's datasources as they were read last. A reading counts while the
    datasource is configured as it was then, and expires. Every call may raise
    ``StoreUnavailable``; a reader then asks the warehouse."""

    async def load(self, datasource_id: str) -> list[Table] | None:
        """Every table of the last whole reading, without sample rows; None when none counts."""
        ...

    async def save(
        self,
        datasource_id: str,
        origin: IndexOrigin,
        batches: AsyncIterable[Sequence[IndexedTable]],
    ) -> SchemaIndexRun:
        """Keep a reading in place of the one before. It counts from the moment that the last batch
        is kept; nothing changes when the batches end in an error."""
        ...

    async def kept(self, datasource_id: str, tables: Sequence[str]) -> dict[str, IndexedTable]:
        """Those of the tables that were read with their sample rows, by name; also from a reading
        that was broken off."""
        ...

    async def keep_samples(
        self, datasource_id: str, table: str, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add sample rows to a table of the last whole reading."""
        ...

    async def vectors(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Vectors of catalog lines as float32 bytes, by key, without those that are not kept."""
        ...

    async def keep_vectors(self, vectors: Mapping[str, bytes]) -> None: ...


class PairStore(Protocol):
    """Key pairs between a project's datasources as they were measured last. What was measured
    counts while both datasources are as they were then, and expires. Every call may raise
    ``StoreUnavailable``; a reader then measures."""

    async def measured(self) -> list[MeasuredPair]:
        """Every pair that counts."""
        ...

    async def keep_measured(self, pairs: Sequence[MeasuredPair]) -> None:
        """Keep pairs in place of what was kept of them before."""
        ...


@dataclass(frozen=True, slots=True)
class StepHit:
    step: int
    score: float
    """Cosine."""


class StepIndex(Protocol):
    """Vectors of a run's successful query steps."""

    async def add(self, step: int, text: str, datasource_id: str) -> None: ...

    async def rank(self, text: str, k: int) -> list[StepHit]:
        """The ``k`` nearest steps of all datasources, best first."""
        ...

    async def nearest(self, text: str, datasource_id: str) -> StepHit | None:
        """The nearest step of one datasource, or None when it has none yet."""
        ...


@dataclass(frozen=True, slots=True)
class StepPage:
    """A page of a step's result."""

    columns: list[str]
    rows: list[dict[str, Any]]
    """Normalised."""
    total_rows: int
    truncated: bool
    """True when rows exist beyond this page, or the offset lies outside what is kept."""
    rows_retained: bool = True
    """False when only a sample of the step's rows survived a resume and the page lies beyond it."""


class StepRows(Protocol):
    async def read(self, step_id: int, offset: int, limit: int) -> StepPage:
        """Rows of a query step of this run. Raises ``ToolError`` for an unknown step."""
        ...


# ---------------------------------------------------------------- embeddings and vectors


class Embedder(Protocol):
    @property
    def id(self) -> str:
        """Names the model; stored with every collection and never mixed."""
        ...

    @property
    def dim(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit vectors, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Point:
    id: str
    """A UUID."""
    vector: list[float]
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class VectorHit:
    id: str
    score: float
    payload: Mapping[str, Any]


class VectorIndex(Protocol):
    """Collections of points, cosine distance. ``where`` is equality on payload keys, ANDed."""

    async def ensure(
        self, collection: str, embedder_id: str, dim: int, keys: Sequence[str]
    ) -> None:
        """Create with keyword indexes on ``keys``, or check that it was made by that embedder.

        Raises ``VectorsUnavailable`` when it holds vectors of another model or size.
        """
        ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None: ...

    async def search(
        self, collection: str, vector: Sequence[float], limit: int, where: Mapping[str, str]
    ) -> list[VectorHit]: ...

    async def delete(self, collection: str, where: Mapping[str, str]) -> None: ...

    async def drop(self, collection: str) -> None: ...

    async def ping(self) -> None: ...


class Findings(Protocol):
    """Published insights and recommendations, embedded for search."""

    async def publish(self, docs: Sequence[StandaloneDoc], *, exclude_run: str) -> None:
        """Embed, mark near-duplicates of other runs' docs, and index. Sets fields on ``docs``."""
        ...

    async def search(
        self, text: str, *, project_id: str, limit: int = 10, kind: str = ""
    ) -> list[VectorHit]: ...


# ---------------------------------------------------------------- what a run writes and reads


class Journal(Protocol):
    """What a run writes while it works. Every write is fenced by attempt: a write for a run that
    was cancelled or taken over raises ``RunSuperseded``."""

    async def phase(self, phase: RunPhase, progress: int, detail: str = "") -> None: ...

    async def feed(self, row: RunStep) -> None:
        """Append to the live feed; run, project and attempt are stamped here."""
        ...

    async def step(self, step: ExplorationStep) -> None:
        """Keep a finished exploration step."""
        ...

    async def count(self, **counters: int) -> None:
        """Set counters of the run document, by field name."""
        ...


class Memory(Protocol):
    """What earlier runs of a project left behind."""

    async def recent_discoveries(
        self, project_id: str, limit: int, *, exclude_run: str
    ) -> list[DiscoveryResult]: ...

    async def feedback(self, project_id: str) -> list[Feedback]: ...

    async def context(self, project_id: str) -> ProjectContext | None: ...

    async def save_context(self, context: ProjectContext) -> None: ...


class Archive(Protocol):
    """Where a finished discovery goes. Log writes that fail never lose the discovery."""

    async def save_discovery(
        self,
        result: DiscoveryResult,
        *,
        exploration: Sequence[ExplorationStep],
        analysis: Sequence[AnalysisStep],
        validation: Sequence[ValidationResult],
        recommendation: RecommendationStep | None,
    ) -> None: ...

    async def save_standalone(self, docs: Sequence[StandaloneDoc]) -> None: ...
