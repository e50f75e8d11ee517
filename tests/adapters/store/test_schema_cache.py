"""Schemas are kept table by table, count while nothing has changed, and expire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adapters.store.client import Collection
from adapters.store.schema_cache import ProjectSchemas
from adapters.store.store import Store
from pipeline.errors import StoreUnavailable
from pipeline.records import (
    Column,
    ColumnCategory,
    IndexedTable,
    IndexOrigin,
    IndexPhase,
    IndexProgress,
    Table,
    TimeSpan,
)

Raw = Callable[[str], Collection]
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPAN = TimeSpan(column="day", first="2024-01-01", last="2024-12-31")


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def indexed(name: str, *columns: str, **fields: Any) -> IndexedTable:
    made = [
        Column(name=c, type="DATE", nullable=False, category=ColumnCategory.TIME) for c in columns
    ]
    table = Table(name=name, columns=made, row_count=7, **fields)
    return IndexedTable(table=table, fingerprint=f"f-{name}", sampled=bool(table.sample_rows))


async def batches(*given: Sequence[IndexedTable]) -> AsyncIterator[Sequence[IndexedTable]]:
    for batch in given:
        yield batch


def of(store: Store, clock: Clock, project: str = "p", print: str = "same") -> ProjectSchemas:
    return store.schemas.of_project(project, {"default": print}, clock)


async def names(schemas: ProjectSchemas) -> list[str] | None:
    tables = await schemas.load("default")
    return None if tables is None else [table.name for table in tables]


ODD = indexed(
    'a.b."c"\n$x',
    "$day",
    "x.y",
    "",
    "\0",
    sample_rows=[{"$day": 1, "x.y": None, "": "é"}, {"$day": 2**70}],
    description="Notes.",
    time_span=SPAN,
)


async def test_what_is_saved_comes_back_without_its_sample_rows(store: Store, clock: Clock) -> None:
    run = await of(store, clock).save("default", IndexOrigin.INDEX, batches([ODD]))
    assert (run.table_count, run.origin, run.finished) == (1, IndexOrigin.INDEX, START)
    assert await of(store, clock).load("default") == [
        ODD.table.model_copy(update={"sample_rows": []})
    ]
    kept = (await of(store, clock).kept("default", [ODD.table.name, "other"]))[ODD.table.name]
    assert kept.fingerprint == ODD.fingerprint
    assert kept.read_at == START
    assert kept.table.sample_rows == [{"$day": 1, "x.y": None, "": "é"}, {"$day": str(2**70)}]


async def test_of_a_file_that_has_changed_the_tables_are_kept_but_their_list_does_not_count(
    store: Store, clock: Clock
) -> None:
    before, after = of(store, clock, print="same.1"), of(store, clock, print="same.2")
    await before.save("default", IndexOrigin.INDEX, batches([ODD]))
    assert await after.load("default") is None
    assert ODD.table.name in await after.kept("default", [ODD.table.name])
    assert await of(store, clock, print="other.1").kept("default", [ODD.table.name]) == {}
    clock.now += timedelta(days=8)
    assert await after.kept("default", [ODD.table.name]) == {}


async def test_columns_that_are_the_same_are_one_record(store: Store, clock: Clock) -> None:
    tables = [indexed(f"s.t{n}", "day") for n in range(3)]
    await of(store, clock).save("default", IndexOrigin.INDEX, batches(tables))
    loaded = await of(store, clock).load("default")
    assert loaded is not None
    assert len({id(table.columns[0]) for table in loaded}) == 1


async def test_nothing_counts_before_the_last_batch(store: Store, clock: Clock) -> None:
    async def broken_off() -> AsyncIterator[Sequence[IndexedTable]]:
        yield [indexed("s.a", "x", sample_rows=[{"x": 1}])]
        raise StoreUnavailable("gone")

    schemas = of(store, clock)
    with pytest.raises(StoreUnavailable):
        await schemas.save("default", IndexOrigin.INDEX, broken_off())
    assert await schemas.load("default") is None
    assert set(await schemas.kept("default", ["s.a"])) == {"s.a"}
    await schemas.save("default", IndexOrigin.INDEX, batches([indexed("s.b")], [indexed("s.c")]))
    assert await names(schemas) == ["s.b", "s.c"]


async def test_a_new_reading_takes_the_place_of_the_one_before(
    store: Store, clock: Clock, raw: Raw
) -> None:
    schemas = of(store, clock)
    await schemas.save("default", IndexOrigin.INDEX, batches([indexed("s.a"), indexed("s.b")]))
    clock.now += timedelta(seconds=1)
    await schemas.save("default", IndexOrigin.DISCOVERY, batches([indexed("s.b")]))
    assert await names(schemas) == ["s.b"]
    assert await raw("project_schema_cache").count({}) == 1
    assert await raw("project_schema_index_runs").count({}) == 2
    latest = await store.schemas.latest("p", "default")
    assert latest is not None
    assert latest.origin is IndexOrigin.DISCOVERY


async def test_a_reading_counts_for_its_project_and_configuration_only(
    store: Store, clock: Clock
) -> None:
    table = indexed("s.a", "x", sample_rows=[{"x": 1}])
    await of(store, clock).save("default", IndexOrigin.INDEX, batches([table]))
    for other in (of(store, clock, project="q"), of(store, clock, print="changed")):
        assert await other.load("default") is None
        assert await other.kept("default", ["s.a"]) == {}
    assert await of(store, clock).load("unknown") is None


async def test_a_reading_counts_for_seven_days(store: Store, clock: Clock) -> None:
    schemas = of(store, clock)
    table = indexed("s.a", "x", sample_rows=[{"x": 1}])
    await schemas.save("default", IndexOrigin.INDEX, batches([table]))
    clock.now += timedelta(days=7, seconds=-1)
    assert await names(schemas) == ["s.a"]
    assert await schemas.kept("default", ["s.a"])
    clock.now += timedelta(seconds=1)
    assert await names(schemas) is None
    assert await schemas.kept("default", ["s.a"]) == {}


async def test_a_table_that_was_taken_over_keeps_its_age(store: Store, clock: Clock) -> None:
    schemas = of(store, clock)
    old = indexed("s.a").model_copy(update={"read_at": START - timedelta(days=6)})
    await schemas.save("default", IndexOrigin.INDEX, batches([old, indexed("s.b")]))
    assert await names(schemas) == ["s.a", "s.b"]
    clock.now += timedelta(days=1)
    assert await names(schemas) is None, "a part of a reading is none"


async def test_rows_that_the_store_has_expired_make_a_reading_unusable(
    store: Store, clock: Clock, raw: Raw
) -> None:
    schemas = of(store, clock)
    await schemas.save("default", IndexOrigin.INDEX, batches([indexed("s.a"), indexed("s.b")]))
    await raw("project_schema_cache").delete({"table": "s.a"})
    assert await names(schemas) is None


async def test_sample_rows_are_added_to_the_reading_that_was_loaded(
    store: Store, clock: Clock
) -> None:
    await of(store, clock).save("default", IndexOrigin.DISCOVERY, batches([indexed("s.a", "x")]))
    schemas = of(store, clock)
    assert await schemas.kept("default", ["s.a"]) == {}
    await schemas.load("default")
    await schemas.keep_samples("default", "s.a", [{"x": 1}])
    kept = (await schemas.kept("default", ["s.a"]))["s.a"]
    assert kept.table.sample_rows == [{"x": 1}]
    assert not kept.complete


async def test_failures_are_counted_and_a_hundred_of_them_named(store: Store, clock: Clock) -> None:
    failed = [indexed(f"s.t{n:03}", error="no right") for n in range(150)]
    run = await of(store, clock).save("default", IndexOrigin.INDEX, batches(failed))
    assert (run.failed_count, len(run.failed)) == (150, 100)
    assert await store.schemas.latest("p", "default") == run


async def test_vectors_are_kept_by_the_key_of_their_line(store: Store, clock: Clock) -> None:
    schemas = of(store, clock)
    await schemas.keep_vectors({"k1": b"\0\1", "k2": b"\2"})
    await schemas.keep_vectors({"k2": b"\2"})
    await schemas.keep_vectors({})
    assert await schemas.vectors(["k1", "k2", "k3", "k1"]) == {"k1": b"\0\1", "k2": b"\2"}
    assert await schemas.vectors([]) == {}


async def test_another_process_sees_how_far_it_is(store: Store) -> None:
    assert await store.schemas.progress("p") is None
    for done in (1, 2):
        progress = IndexProgress(
            project_id="p", datasource="d", phase=IndexPhase.TABLES, done=done, total=9
        )
        await store.schemas.report(progress)
    found = await store.schemas.progress("p")
    assert found is not None
    assert (found.done, found.total) == (2, 9)


async def test_a_row_of_another_version_is_told_with_what_to_do(
    store: Store, clock: Clock, raw: Raw
) -> None:
    schemas = of(store, clock)
    await schemas.save("default", IndexOrigin.INDEX, batches([indexed("s.a")]))
    await raw("project_schema_cache").update({"table": "s.a"}, {"$set": {"kind": "other"}})
    with pytest.raises(StoreUnavailable, match="--skip-cache"):
        await schemas.load("default")


async def test_tables_expire_after_seven_days_in_the_store_too(store: Store, raw: Raw) -> None:
    await store.ping()
    made = await raw("project_schema_cache").indexes()
    assert made["ttl_schema_cache"]["expireAfterSeconds"] == 7 * 24 * 3600
    assert list(made["ttl_schema_cache"]["key"]) == [("cached_at", 1)]
    assert "project_id_1_datasource_1" in made
