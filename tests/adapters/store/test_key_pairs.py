"""What was measured of key pairs counts while both datasources are as they were, and expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from adapters.store.key_pairs import ProjectKeyPairs
from adapters.store.store import Store
from pipeline.records import KeyColumn, MeasuredPair

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
PRINTS = {"shop": "s1", "crm": "c1"}


def column(source: str) -> KeyColumn:
    return KeyColumn(datasource_id=source, table="main.a.b", column="$id.x")


def measured(left: str, right: str, found: int) -> MeasuredPair:
    return MeasuredPair(
        left=column(left),
        right=column(right),
        asked_left=9,
        found_left=found,
        asked_right=9,
        found_right=found,
        measured_at=START,
    )


def of(
    store: Store,
    prints: dict[str, str] = PRINTS,
    project: str = "p",
    later: timedelta = timedelta(0),
) -> ProjectKeyPairs:
    return store.key_pairs.of_project(project, prints, lambda: START + later)


async def test_pairs_come_back_while_nothing_has_changed(store: Store) -> None:
    await of(store).keep_measured([measured("shop", "crm", 3)])
    assert await of(store).measured() == [measured("shop", "crm", 3)]
    assert await of(store, project="other").measured() == []
    assert await of(store, {**PRINTS, "crm": "c2"}).measured() == []
    assert await of(store, later=timedelta(days=7)).measured() == []


async def test_a_pair_that_is_measured_again_takes_the_place_of_its_mirror_image(
    store: Store,
) -> None:
    await of(store).keep_measured([measured("shop", "crm", 3)])
    await of(store).keep_measured([measured("crm", "shop", 5)])
    assert await of(store).measured() == [measured("crm", "shop", 5)]
