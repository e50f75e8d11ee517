# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Motor builds its classes at run time, so what its methods return has no type.
"""The MongoDB driver, and the only file that imports it.

Everything else of the store works with ``Collection``, whose methods take and give plain
dictionaries and raise three kinds of error: ``StoreUnavailable`` (one sentence for the operator),
``DuplicateKey`` and ``TooLarge``. Writes are acknowledged by a majority and journaled. Datetimes
are UTC, in milliseconds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorCollection
from pymongo import IndexModel, ReturnDocument, WriteConcern
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
)

from adapters.store.indexes import Index
from pipeline.errors import Conflict, StoreUnavailable

Document = dict[str, Any]
Sort = Sequence[tuple[str, int]]

OPTIONS: dict[str, Any] = {
    "appname": "veridical",
    "serverSelectionTimeoutMS": 8_000,
    "connectTimeoutMS": 8_000,
    # Measured: under contention the embedded server may take nine seconds for one update.
    "socketTimeoutMS": 120_000,
    "waitQueueTimeoutMS": 30_000,
    "maxPoolSize": 16,
    "maxIdleTimeMS": 60_000,
    "retryWrites": True,
}
"""Driver options; what a ``MONGODB_URI`` itself says comes first."""

DUPLICATE, NAMESPACE_MISSING, INDEX_MISSING = 11000, 26, 27
INDEX_DIFFERS = frozenset({85, 86})
LOGIN = frozenset({13, 18, 8000})
TOO_LARGE = frozenset({10334, 17280, 17419})


class DuplicateKey(Conflict):
    """A unique index refused a write."""


class TooLarge(StoreUnavailable):
    """A record exceeds what one document may hold (16 MB)."""


def new_id() -> str:
    """A fresh ObjectId as text: ascending within one process."""
    return str(bson.ObjectId())


def encoded_size(document: Mapping[str, Any]) -> int:
    """Bytes that the document takes in the store."""
    return len(bson.encode(document))


@dataclass(frozen=True, slots=True)
class Driver:
    """A connection pool on one database. It belongs to the event loop that first uses it."""

    motor: AsyncIOMotorClient[Document]
    database: str
    advice: Callable[[], str]

    @classmethod
    def open(cls, uri: str, database: str, advice: Callable[[], str]) -> Driver:
        """Read the address; nothing is connected yet. Raises ``StoreUnavailable``."""
        try:
            said = {key.lower() for key, _ in parse_qsl(urlsplit(uri).query)}
            options = {key: value for key, value in OPTIONS.items() if key.lower() not in said}
            motor: AsyncIOMotorClient[Document] = AsyncIOMotorClient(uri, **options)
            motor.get_database(database)
        except (ConfigurationError, PyMongoError, ValueError) as error:
            raise StoreUnavailable(
                f"the document store's address or name is not usable ({error}); "
                "correct MONGODB_URI and MONGODB_DB"
            ) from error
        return cls(motor, database, advice)

    def collection(self, name: str) -> Collection:
        base = self.motor.get_database(
            self.database,
            codec_options=CodecOptions(tz_aware=True, tzinfo=UTC),
            write_concern=WriteConcern("majority", j=True),
        )
        return Collection(base.get_collection(name), self.advice)

    async def ping(self) -> int:
        """Ask the server whether it is well; returns its process id (0 when it does not say)."""
        with translated(self.advice):
            await self.motor.admin.command("ping")
            try:
                status = await self.motor.admin.command("serverStatus")
            except OperationFailure:  # a login that may use the database, but not look at it
                return 0
        return int(status.get("pid", 0))

    async def drop_database(self) -> None:
        """Remove the whole database."""
        with translated(self.advice):
            await self.motor.drop_database(self.database)

    def close(self) -> None:
        self.motor.close()


class Collection:
    """One collection; see the module for errors."""

    def __init__(self, motor: AsyncIOMotorCollection[Document], advice: Callable[[], str]) -> None:
        self._motor, self._advice = motor, advice
        self.name: str = motor.name

    async def insert(self, document: Document) -> None:
        with translated(self._advice):
            await self._motor.insert_one(document)

    async def insert_many(self, documents: Sequence[Document]) -> None:
        """Insert all that can be; the ones that cannot raise after the rest was written."""
        if documents:
            with translated(self._advice):
                await self._motor.insert_many(documents, ordered=False)

    async def replace(self, where: Document, document: Document, *, upsert: bool) -> bool:
        """Replace one document; True when there was one."""
        with translated(self._advice):
            result = await self._motor.replace_one(where, document, upsert=upsert)
        return result.matched_count > 0

    async def update(
        self, where: Document, change: Document, elements: Sequence[Document] = ()
    ) -> bool:
        """Update one document; True when there was one. ``elements`` are array filters: which
        elements an identifier such as ``$[doc]`` in ``change`` stands for."""
        filters = list(elements) or None
        with translated(self._advice):
            result = await self._motor.update_one(where, change, array_filters=filters)
        return result.matched_count > 0

    async def change(self, where: Document, change: Document) -> Document | None:
        """Update one document and return it as it is then, atomically; None when there is none."""
        with translated(self._advice):
            return await self._motor.find_one_and_update(
                where, change, return_document=ReturnDocument.AFTER
            )

    async def update_all(self, where: Document, change: Document) -> int:
        """Update all matches; returns how many."""
        with translated(self._advice):
            return (await self._motor.update_many(where, change)).matched_count

    async def find_one(self, where: Document, sort: Sort = ()) -> Document | None:
        with translated(self._advice):
            return await self._motor.find_one(where, sort=list(sort) or None)

    async def find(self, where: Document, sort: Sort = (), limit: int = 0) -> list[Document]:
        """All matches in order; ``limit`` 0 means no limit."""
        with translated(self._advice):
            cursor = self._motor.find(where, sort=list(sort) or None, limit=limit)
            return await cursor.to_list(length=None)

    async def stream(self, where: Document) -> AsyncGenerator[Document]:
        """All matches in no order, read as they are asked for."""
        with translated(self._advice):
            async for document in self._motor.find(where):
                yield document

    async def count(self, where: Document) -> int:
        with translated(self._advice):
            return await self._motor.count_documents(where)

    async def delete(self, where: Document) -> int:
        """Delete all matches; returns how many."""
        with translated(self._advice):
            return (await self._motor.delete_many(where)).deleted_count

    async def indexes(self) -> dict[str, Document]:
        """Definitions by index name."""
        with translated(self._advice):
            return dict(await self._motor.index_information())

    async def ensure_indexes(self, wanted: Sequence[Index]) -> None:
        """Create what is missing; an index whose definition changed is made anew."""
        with translated(self._advice):
            try:
                await self._motor.create_indexes([_model(index) for index in wanted])
            except OperationFailure as error:
                if error.code not in INDEX_DIFFERS:
                    raise
                for index in wanted:
                    await self._ensure_one(index)

    async def _ensure_one(self, index: Index) -> None:
        try:
            await self._motor.create_indexes([_model(index)])
        except OperationFailure as error:
            if error.code not in INDEX_DIFFERS:
                raise
            for name, present in (await self._motor.index_information()).items():
                if name == index.name or list(present["key"]) == list(index.keys):
                    await self._drop_index(name)
            await self._motor.create_indexes([_model(index)])

    async def _drop_index(self, name: str) -> None:
        try:
            await self._motor.drop_index(name)
        except OperationFailure as error:  # another process was faster
            if error.code not in (INDEX_MISSING, NAMESPACE_MISSING):
                raise


def _model(index: Index) -> IndexModel:
    options: dict[str, Any] = {"name": index.name}
    if index.unique:
        options["unique"] = True
    if index.where:
        options["partialFilterExpression"] = dict(index.where)
    if index.expire_after is not None:
        options["expireAfterSeconds"] = int(index.expire_after.total_seconds())
    return IndexModel(list(index.keys), **options)


@contextmanager
def translated(advice: Callable[[], str]) -> Generator[None]:
    """Turn the driver's errors into ours; ``advice`` says what to do about a silent server."""
    try:
        yield
    except DuplicateKeyError as error:
        raise DuplicateKey(f"a record with these keys exists: {_key(error.details)}") from error
    except DocumentTooLarge as error:
        raise TooLarge("a record is larger than the 16 MB that one document may hold") from error
    except BulkWriteError as error:
        raise _of_bulk(error, advice) from error
    except ConnectionFailure as error:
        raise StoreUnavailable(advice()) from error
    except OperationFailure as error:
        raise _of_operation(error.code, str(error), advice) from error
    except (PyMongoError, BSONError, OverflowError) as error:
        raise StoreUnavailable(f"the document store cannot do this: {error}") from error


def _of_bulk(error: BulkWriteError, advice: Callable[[], str]) -> Exception:
    failures: list[Mapping[str, Any]] = (error.details or {}).get("writeErrors", [])
    if failures and all(failure.get("code") == DUPLICATE for failure in failures):
        return DuplicateKey(f"{len(failures)} records with these keys exist: {_key(failures[0])}")
    first = failures[0] if failures else {}
    return _of_operation(first.get("code"), str(first.get("errmsg", error)), advice)


def _of_operation(code: int | None, words: str, advice: Callable[[], str]) -> Exception:
    if code in LOGIN:
        return StoreUnavailable(
            "the document store refuses the login; correct user, password and rights in MONGODB_URI"
        )
    if code in TOO_LARGE:
        return TooLarge("a record is larger than the 16 MB that one document may hold")
    if "no space left" in words.lower():
        return StoreUnavailable("the document store's disk is full; free some space and try again")
    hint = advice()
    reason = words.split(", full error:")[0]
    return StoreUnavailable(hint if "full" in hint else f"the document store refuses: {reason}")


def _key(details: Mapping[str, Any] | None) -> str:
    value = (details or {}).get("keyValue")
    return repr(dict(value)) if value else "one of them is taken"
