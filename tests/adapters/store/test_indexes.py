"""All indexes exist after connecting, exactly as they are listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.store import connect
from adapters.store.client import Collection, DuplicateKey
from adapters.store.indexes import Index, indexes
from adapters.store.store import Store
from pipeline.settings import StoreSettings

Raw = Callable[[str], Collection]

WANTED = [(name, index) for name, listed in indexes().items() for index in listed]


@pytest.mark.parametrize(("name", "index"), WANTED, ids=lambda value: getattr(value, "name", value))
def test_no_index_is_listed_twice(name: str, index: Index) -> None:
    same = [other for other in indexes()[name] if other.name == index.name]
    assert same == [index]


async def test_connecting_creates_every_index(store: Store, raw: Raw) -> None:
    await store.ping()
    for name, listed in indexes().items():
        present = await raw(name).indexes()
        for index in listed:
            made = present[index.name]
            assert list(made["key"]) == list(index.keys), index.name
            assert bool(made.get("unique")) is index.unique, index.name
            assert made.get("partialFilterExpression") == index.where, index.name


async def test_checkpoints_expire_after_48_hours(store: Store, raw: Raw) -> None:
    await store.ping()
    made = await raw("discovery_checkpoints").indexes()
    assert made["ttl_discovery_checkpoint"]["expireAfterSeconds"] == 48 * 3600
    assert list(made["ttl_discovery_checkpoint"]["key"]) == [("created_at", 1)]
    assert made["uq_run_step"]["unique"]


async def test_a_changed_retention_renews_the_index_and_keeps_the_rest(
    store: Store, raw: Raw, settings: StoreSettings, shared_home: Path
) -> None:
    before = await raw("discovery_checkpoints").indexes()
    longer = settings.model_copy(update={"DISCOVERY_CHECKPOINT_RETENTION": 100 * 3600.0})
    async with await connect(longer, shared_home):
        after = await raw("discovery_checkpoints").indexes()
    assert after["ttl_discovery_checkpoint"]["expireAfterSeconds"] == 360_000
    assert after.keys() == before.keys()
    await store.ensure_indexes()
    again = await raw("discovery_checkpoints").indexes()
    assert again["ttl_discovery_checkpoint"]["expireAfterSeconds"] == 48 * 3600


async def test_an_index_of_the_same_keys_under_another_name_is_replaced(raw: Raw) -> None:
    rows = raw("renamed")
    await rows.ensure_indexes([Index((("a", 1),), "old")])
    await rows.ensure_indexes([Index((("a", 1),), "new")])
    assert set(await rows.indexes()) == {"_id_", "new"}


UNIQUE: list[tuple[str, dict[str, Any]]] = [
    ("discovery_recommendation_log", {"discovery_id": "d"}),
    ("discovery_checkpoints", {"run_id": "r", "step_number": 1}),
    ("project_context", {"project_id": "p"}),
    ("feedback", {"discovery_id": "d", "target_type": "insight", "target_id": "i"}),
    ("discovery_runs", {"project_id": "p", "status": "pending"}),
]


@pytest.mark.parametrize(("name", "keys"), UNIQUE)
async def test_unique_indexes_refuse_a_second_document(
    store: Store, raw: Raw, name: str, keys: dict[str, Any]
) -> None:
    await store.ping()
    await raw(name).insert({"_id": "1", **keys})
    with pytest.raises(DuplicateKey):
        await raw(name).insert({"_id": "2", **keys})


async def test_many_that_connect_to_a_fresh_database_at_once_all_succeed(
    shared_home: Path, settings: StoreSettings, raw: Raw
) -> None:
    stores = await asyncio.gather(*(connect(settings, shared_home) for _ in range(5)))
    assert "uniq_active_run" in await raw("discovery_runs").indexes()
    for store in stores:
        await store.close()
