"""What is kept of the schemas of a project's datasources.

A reading of a datasource is a row in ``project_schema_index_runs`` and one row a table in
``project_schema_cache``. The tables are written first: a reading without its row, because it was
broken off, does not count. Rows expire by age.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adapters.store.documents import (
    Document,
    from_document,
    rows_of,
    safe_text,
    table_of,
    to_document,
)
from pipeline.errors import StoreUnavailable
from pipeline.records import (
    ColumnCategory,
    IndexedTable,
    IndexOrigin,
    IndexProgress,
    SchemaIndexRun,
    Table,
    TableKind,
    TimeSpan,
)
from pipeline.schema.columns import ColumnPool
from pipeline.schema.fingerprint import SCHEMA_TTL, same_configuration

if TYPE_CHECKING:
    from adapters.store.client import Collection

ROWS_AT_ONCE = 500
"""Rows that are written in one request."""
KEYS_AT_ONCE, MANY_KEYS = 50, 200
"""Measured on the embedded server: 50 keys take 0.03 s, 500 take 1.3 s, and all rows of a project
with 5,000 tables 0.6 s."""
FAILURES_KEPT = 100
REASON_CHARS = 500


def _now() -> datetime:
    return datetime.now(UTC)


class SchemaRepository:
    """The collections ``project_schema_*``."""

    def __init__(
        self,
        *,
        tables: Collection,
        runs: Collection,
        vectors: Collection,
        progress: Collection,
    ) -> None:
        self.tables, self.runs, self.vectors, self._progress = tables, runs, vectors, progress

    def of_project(
        self,
        project_id: str,
        fingerprints: Mapping[str, str],
        clock: Callable[[], datetime] = _now,
    ) -> ProjectSchemas:
        """The project's schemas, while its datasources are configured as ``fingerprints`` (by id)
        say."""
        return ProjectSchemas(self, project_id, fingerprints, clock)

    async def latest(self, project_id: str, datasource: str) -> SchemaIndexRun | None:
        """The last whole reading of a datasource, whether it still counts or not."""
        found = await self.runs.find_one(
            {"project_id": project_id, "datasource": datasource}, [("finished", -1)]
        )
        return None if found is None else from_document(SchemaIndexRun, found)

    async def report(self, progress: IndexProgress) -> None:
        """Say how far the indexing of a project is."""
        document = {"_id": progress.project_id, **to_document(progress)}
        await self._progress.replace({"_id": progress.project_id}, document, upsert=True)

    async def progress(self, project_id: str) -> IndexProgress | None:
        """How far the indexing of a project is, or was when it was heard of last."""
        found = await self._progress.find_one({"_id": project_id})
        return None if found is None else from_document(IndexProgress, found)


class ProjectSchemas:
    """``ports.SchemaStore`` of one project."""

    def __init__(
        self,
        home: SchemaRepository,
        project_id: str,
        fingerprints: Mapping[str, str],
        clock: Callable[[], datetime],
    ) -> None:
        self._home, self._project, self._clock = home, project_id, clock
        self._fingerprints = dict(fingerprints)
        self._current: dict[str, str] = {}
        """By datasource, the reading that was loaded or saved last."""

    async def load(self, datasource_id: str) -> list[Table] | None:
        """See ``ports.SchemaStore``."""
        run = await self._home.latest(self._project, datasource_id)
        if run is None or not self._counts(run):
            return None
        pool, oldest = ColumnPool(), self._oldest()
        documents = self._home.tables.stream({**self._of(datasource_id), "run_id": run.id})
        tables = [
            _table(document, datasource_id, pool)
            async for document in documents
            if document["cached_at"] > oldest
        ]
        if len(tables) != run.table_count:
            return None  # some have expired, or were taken away
        self._current[datasource_id] = run.id
        return sorted(tables, key=lambda table: table.name)

    async def save(
        self,
        datasource_id: str,
        origin: IndexOrigin,
        batches: AsyncIterable[Sequence[IndexedTable]],
    ) -> SchemaIndexRun:
        """See ``ports.SchemaStore``."""
        from adapters.store.client import new_id

        run = SchemaIndexRun(
            id=new_id(),
            project_id=self._project,
            datasource=datasource_id,
            fingerprint=self._fingerprints.get(datasource_id, ""),
            origin=origin,
            started_at=self._clock(),
        )
        async for batch in batches:
            for start in range(0, len(batch), ROWS_AT_ONCE):
                rows = [self._row(item, run) for item in batch[start : start + ROWS_AT_ONCE]]
                await self._home.tables.insert_many(rows)
            _count(run, batch)
        run.finished = self._clock()
        await self._home.runs.insert(to_document(run))
        self._current[datasource_id] = run.id
        await self._home.tables.delete(
            {
                **self._of(datasource_id),
                "run_id": {"$ne": run.id},
                "cached_at": {"$lt": run.started_at},
            }
        )
        return run

    async def kept(self, datasource_id: str, tables: Sequence[str]) -> dict[str, IndexedTable]:
        """See ``ports.SchemaStore``."""
        pool, oldest = ColumnPool(), self._oldest()
        source = self._fingerprints.get(datasource_id, "")
        names = [safe_text(name) for name in tables]
        rows = _having(self._home.tables, self._of(datasource_id), "table", names)
        # The conditions are checked here: asked for there, they lead the server to a worse index.
        usable = [
            document
            async for document in rows
            if same_configuration(document["fingerprint"], source)
            and document["sampled"]
            and document["cached_at"] > oldest
        ]
        usable.sort(key=lambda document: document["cached_at"])
        found = [_indexed(document, datasource_id, pool) for document in usable]
        return {indexed.table.name: indexed for indexed in found}

    async def keep_samples(
        self, datasource_id: str, table: str, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """See ``ports.SchemaStore``."""
        run_id = self._current.get(datasource_id)
        if run_id is not None:
            where = {**self._of(datasource_id), "table": safe_text(table), "run_id": run_id}
            change = {"sample_rows": table_of(rows), "sampled": True}
            await self._home.tables.update(where, {"$set": change})

    async def vectors(self, keys: Sequence[str]) -> dict[str, bytes]:
        """See ``ports.SchemaStore``."""
        ids = [self._vector_id(key) for key in dict.fromkeys(keys)]
        rows = _having(self._home.vectors, {"project_id": self._project}, "_id", ids)
        return {str(d["_id"]).rpartition(":")[2]: bytes(d["vector"]) async for d in rows}

    async def keep_vectors(self, vectors: Mapping[str, bytes]) -> None:
        """See ``ports.SchemaStore``."""
        from adapters.store.client import DuplicateKey

        now = self._clock()
        rows: list[Document] = [
            {
                "_id": self._vector_id(key),
                "project_id": self._project,
                "vector": vector,
                "cached_at": now,
            }
            for key, vector in vectors.items()
        ]
        try:
            await self._home.vectors.insert_many(rows)
        except DuplicateKey:
            return  # equal lines have equal vectors

    def _of(self, datasource_id: str) -> Document:
        return {"project_id": self._project, "datasource": datasource_id}

    def _vector_id(self, key: str) -> str:
        return f"{self._project}:{key}"

    def _oldest(self) -> datetime:
        return self._clock() - SCHEMA_TTL

    def _counts(self, run: SchemaIndexRun) -> bool:
        wanted = self._fingerprints.get(run.datasource)
        fresh = run.finished is not None and run.finished > self._oldest()
        return fresh and wanted is not None and run.fingerprint == wanted

    def _row(self, indexed: IndexedTable, run: SchemaIndexRun) -> Document:
        from adapters.store.client import new_id

        table = indexed.table
        fields = to_document(table.model_copy(update={"columns": [], "sample_rows": []}))
        columns = [
            [safe_text(c.name), safe_text(c.type), c.nullable, c.category.value]
            for c in table.columns
        ]
        return {
            **fields,
            "_id": new_id(),
            **self._of(run.datasource),
            "run_id": run.id,
            "table": fields["name"],
            "fingerprint": run.fingerprint,
            "table_fingerprint": indexed.fingerprint,
            "sampled": indexed.sampled,
            "complete": indexed.complete,
            "cached_at": indexed.read_at or run.started_at,
            "columns": columns,
            "sample_rows": table_of(table.sample_rows),
        }


async def _having(
    collection: Collection, where: Document, field: str, values: Sequence[str]
) -> AsyncGenerator[Document]:
    """Documents of ``where`` with one of the values; when there are many, all are looked at."""
    if len(values) > MANY_KEYS:
        wanted = set(values)
        async for document in collection.stream(where):
            if document[field] in wanted:
                yield document
        return
    for start in range(0, len(values), KEYS_AT_ONCE):
        chunk = {"$in": list(values[start : start + KEYS_AT_ONCE])}
        async for document in collection.stream({**where, field: chunk}):
            yield document


def _count(run: SchemaIndexRun, batch: Sequence[IndexedTable]) -> None:
    run.table_count += len(batch)
    for table in (item.table for item in batch if item.table.error):
        run.failed_count += 1
        if len(run.failed) < FAILURES_KEPT:
            run.failed[table.name] = table.error[:REASON_CHARS]


def _indexed(document: Mapping[str, Any], datasource_id: str, pool: ColumnPool) -> IndexedTable:
    table = _table(document, datasource_id, pool)
    table.sample_rows = rows_of(document.get("sample_rows") or {})
    return IndexedTable(
        table=table,
        fingerprint=str(document["table_fingerprint"]),
        sampled=bool(document["sampled"]),
        complete=bool(document["complete"]),
        read_at=document["cached_at"],
    )


def _table(document: Mapping[str, Any], datasource_id: str, pool: ColumnPool) -> Table:
    try:
        span = document["time_span"]
        return Table(
            datasource_id=datasource_id,
            name=document["name"],
            kind=TableKind(document["kind"]),
            columns=[
                pool.of(name, type_name, nullable, ColumnCategory(category))
                for name, type_name, nullable, category in document["columns"]
            ],
            row_count=document["row_count"],
            description=document["description"],
            time_span=None if span is None else TimeSpan.model_validate(span),
            error=document["error"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreUnavailable(
            f"a kept table of {datasource_id!r} cannot be read ({error}); it was written by "
            "another version: run `veridical schema index` with --skip-cache"
        ) from error
