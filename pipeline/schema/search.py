"""search_tables: the tables nearest in meaning, with a little for words in names and for size."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import StoreUnavailable, VeridicalError
from pipeline.ports import Embedder, SchemaStore
from pipeline.records import Table, TableHit, TableKind
from pipeline.schema.catalog import members_text
from pipeline.schema.describing import told_of
from pipeline.schema.fingerprint import line_key
from pipeline.schema.names import bare

log = logging.getLogger(__name__)

KEYWORD_BOOST, KEYWORD_BOOST_MAX = 0.02, 0.10
SIZE_BOOST = 0.05
"""Times the decimal logarithm of the rows."""
FETCHED, MAX_FETCHED = 2, 200
"""Times as many as are wanted are taken by meaning alone, and ordered with the boosts."""
MAX_HITS = 30
AT_ONCE = 256
"""Lines that a search waits for; further tables are embedded while the run goes on."""
BATCH = 64
"""Lines that are embedded, or vectors that are looked for, in one go."""
_EMBEDDED_COLUMNS = 16
"""A line of 40 names takes two and a half times as long; the word index has all of them."""
_LEAST_STEM = 4
_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class TableSearch:
    """Searches the tables of a run.

    Nothing is made before the first search, which then takes vectors that are kept in the store and
    embeds what is missing: all of it in a small warehouse; in a large one the tables whose names
    have most of the words asked for, and the rest in the background.
    """

    def __init__(
        self, tables: Sequence[Table], embedder: Embedder, store: SchemaStore | None = None
    ) -> None:
        self._tables = tables
        self._embedder = embedder
        self._store = store
        self._words: WordIndex | None = None
        self._lines: Lines | None = None
        self._preparing = asyncio.Lock()
        self._background: asyncio.Task[None] | None = None

    async def search(self, text: str, k: int) -> list[TableHit]:
        """The ``k`` best, best first. Raises what the embedder raises."""
        limit = min(max(0, k), MAX_HITS, len(self._tables))
        if not limit or not text.strip():
            return []
        wanted = {word for word in split_words(text) if len(word) > 2}
        words, lines = await self._prepared(wanted)
        asked = np.asarray((await self._embedder.embed([text]))[0], dtype=np.float32)
        near = (lines.matrix @ asked).astype(np.float64)
        scores = near + words.boosts(wanted)
        fetched = _highest(near, min(FETCHED * limit, MAX_FETCHED))
        ranked = sorted(
            fetched,
            key=lambda at: (-scores[at], self._tables[at].name, self._tables[at].datasource_id),
        )
        return [_hit(self._tables[at], float(scores[at])) for at in ranked[:limit]]

    async def close(self) -> None:
        """Stop embedding."""
        task, self._background = self._background, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _prepared(self, wanted: set[str]) -> tuple[WordIndex, Lines]:
        async with self._preparing:
            if self._words is None or self._lines is None:
                self._words = await asyncio.to_thread(WordIndex, self._tables)
                lines = await asyncio.to_thread(Lines, self._tables, self._embedder, self._store)
                await lines.take_kept()
                self._lines = lines
            words, lines = self._words, self._lines
            missing = lines.missing()
            if len(missing) <= AT_ONCE:
                await lines.embed(missing)
            else:
                await lines.embed(words.likeliest(wanted, missing)[:AT_ONCE])
                self._start_background(lines)
        return words, lines

    def _start_background(self, lines: Lines) -> None:
        if self._background is None:
            log.info("%d tables are embedded in the background", len(lines.missing()))
            self._background = asyncio.create_task(_embed_rest(lines))


class Lines:
    """The vectors of catalog lines, one row a table; rows of zeros are not made yet."""

    def __init__(
        self, tables: Sequence[Table], embedder: Embedder, store: SchemaStore | None
    ) -> None:
        self._lines = [described(table) for table in tables]
        self._keys = [line_key(embedder.id, line) for line in self._lines]
        self._embedder, self._store = embedder, store
        self.matrix: NDArray[np.float32] = np.zeros((len(tables), embedder.dim), dtype=np.float32)
        self._made = np.zeros(len(tables), dtype=np.bool_)

    def missing(self) -> list[int]:
        """Places of the tables without a vector."""
        return np.flatnonzero(~self._made).tolist()

    async def take_kept(self) -> None:
        """Read the vectors that an earlier run or the indexing left."""
        if self._store is None:
            return
        try:
            kept = await self._store.vectors(self._keys)
        except StoreUnavailable as error:
            log.warning("kept vectors of tables are not used: %s", error)
            return
        size = self.matrix.shape[1] * self.matrix.itemsize
        for at, key in enumerate(self._keys):
            found = kept.get(key)
            if found is not None and len(found) == size:
                self._set(at, np.frombuffer(found, dtype=np.float32))

    async def embed(self, places: Sequence[int]) -> None:
        """Make the vectors of some tables, and keep them. Raises what the embedder raises."""
        for start in range(0, len(places), BATCH):
            batch = [at for at in places[start : start + BATCH] if not self._made[at]]
            if not batch:
                continue
            vectors = await self._embedder.embed([self._lines[at] for at in batch])
            for at, vector in zip(batch, vectors, strict=True):
                self._set(at, np.asarray(vector, dtype=np.float32))
            await self._keep(batch)

    async def _keep(self, places: Sequence[int]) -> None:
        if self._store is None:
            return
        try:
            await self._store.keep_vectors(
                {self._keys[at]: self.matrix[at].tobytes() for at in places}
            )
        except StoreUnavailable as error:
            log.warning("vectors of tables are not kept: %s", error)

    def _set(self, at: int, vector: NDArray[np.float32]) -> None:
        self.matrix[at] = vector
        self._made[at] = True


class WordIndex:
    """Which tables have a word in their name or in the names of their columns."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._rows = np.array([max(1, table.row_count) for table in tables], dtype=np.float64)
        self._places: dict[str, list[int]] = {}
        split: dict[str, list[str]] = {}  # the same names return in table after table
        for at, table in enumerate(tables):
            names = _names(table)
            for name in names:
                if name not in split:
                    split[name] = split_words(name)
            for word in {word for name in names for word in split[name]}:
                self._places.setdefault(word, []).append(at)

    def boosts(self, words: set[str]) -> NDArray[np.float64]:
        """For each table: 0.02 a word, at most 0.10, and 0.05 times the logarithm of its rows."""
        found = np.zeros(len(self._rows))
        for word in words:
            found[self._places.get(word, [])] += 1
        keywords = np.minimum(KEYWORD_BOOST_MAX, KEYWORD_BOOST * found)
        return keywords + SIZE_BOOST * np.log10(self._rows)

    def likeliest(self, words: set[str], places: Sequence[int]) -> list[int]:
        """Places in the order of how many of the words they have, or words that begin alike; rare
        words count more, and larger tables come first among equals."""
        scores = np.zeros(len(self._rows))
        for word in words:
            best = np.zeros(len(self._rows))
            for known, holders in self._places.items():
                if _alike(word, known):
                    weight = math.log(1 + len(self._rows) / len(holders))
                    best[holders] = np.maximum(best[holders], weight)
            scores += best
        return sorted(places, key=lambda at: (-scores[at], -self._rows[at], at))


async def _embed_rest(lines: Lines) -> None:
    try:
        await lines.embed(lines.missing())
    except VeridicalError as error:
        log.warning("embedding tables in the background ended early: %s", error)


def described(table: Table) -> str:
    """The line that is embedded for a table: its name in words, description, first columns."""
    name = " ".join(split_words(bare(table.name)))
    names = [column.name.removeprefix(f"{table.name}.") for column in table.columns]
    columns = ", ".join(names[:_EMBEDDED_COLUMNS])
    return f"{name}. {table.description} Columns: {columns}".strip()


def split_words(text: str) -> list[str]:
    """Words in lower case; ``snake_case`` and ``CamelCase`` are split."""
    return [part.lower() for word in _WORD.findall(text) for part in _HUMP.split(word)]


def _names(table: Table) -> list[str]:
    return [table.name, *(column.name for column in table.columns)]


def _alike(word: str, known: str) -> bool:
    if word == known:
        return True
    short, long = sorted((word, known), key=len)
    return len(short) >= _LEAST_STEM and long.startswith(short)


def _highest(scores: NDArray[np.float64], count: int) -> list[int]:
    """Places of the ``count`` highest scores and of all that equal the last of them."""
    if count >= len(scores):
        return list(range(len(scores)))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= least).tolist()


def _hit(table: Table, score: float) -> TableHit:
    """A cube's hit tells its members too: they cannot be looked up."""
    cube = table.kind is not TableKind.TABLE
    told = [table.description, members_text(table)] if cube else [told_of(table)]
    return TableHit(
        table=table.name,
        datasource_id=table.datasource_id,
        kind=table.kind,
        score=round(score, 4),
        row_count=table.row_count,
        column_count=len(table.columns),
        description=". ".join(part for part in told if part),
    )
