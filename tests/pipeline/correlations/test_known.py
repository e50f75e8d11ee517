"""Reference facts F.5: ``get_correlations`` "returns confirmed / declared / rejected keys"."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.correlations.known import KnownPair, KnownPairs, know_pairs
from pipeline.correlations.overlap import Overlap, PairStatus
from pipeline.errors import StoreUnavailable, ToolError
from pipeline.records import KeyColumn, KeyPair, MeasuredPair, Table
from tests.servers.shop import Warehouses


def key(source: str, table: str, column: str) -> KeyColumn:
    return KeyColumn(datasource_id=source, table=table, column=column)


LEFT, RIGHT = key("a", "main.t", "x_id"), key("b", "cube", "cube.x_id")
PAIR = KeyPair(left=LEFT, right=RIGHT)


async def lists(*known: KnownPair, a: str = "a", b: str = "b") -> dict[str, Any]:
    return dict(await KnownPairs(known).between(a, b))


async def test_pairs_are_sorted_by_what_was_measured() -> None:
    told = await lists(
        KnownPair(PAIR, False, Overlap(9, 9, 9, 9)),
        KnownPair(PAIR, True, Overlap(9, 0, 9, 0)),
        KnownPair(PAIR, True, Overlap(9, 2, 9, 2)),
        KnownPair(PAIR, True, "the table is gone"),
        KnownPair(PAIR, False, Overlap(9, 2, 9, 2)),
        KnownPair(PAIR.model_copy(update={"rejected": True, "note": "n"}), True, "not measured"),
    )
    names = {"a": "main.t.x_id", "b": "cube.x_id"}
    ends = "{0} of 9 values of the first exist in the second, {0} of 9 the other way"
    assert told == {
        "rejected": [
            names | {"declared": True, "measured": ends.format(0)},
            names | {"declared": True, "measured": "declared never to be joined", "note": "n"},
        ],
        "confirmed": [names | {"measured": ends.format(9)}],
        "declared": [
            names | {"declared": True, "measured": ends.format(2)},
            names | {"declared": True, "not_measured": "the table is gone"},
        ],
    }
    assert list(told) == ["rejected", "confirmed", "declared"]


async def test_the_columns_are_told_in_the_order_that_was_asked() -> None:
    told = await lists(KnownPair(PAIR, False, Overlap(9, 9, 9, 9)), a="b", b="a")
    assert (told["confirmed"][0]["a"], told["confirmed"][0]["b"]) == ("cube.x_id", "main.t.x_id")


async def test_empty_is_an_answer_and_a_failed_measure_is_none() -> None:
    assert await lists() == {"rejected": [], "confirmed": [], "declared": []}
    with pytest.raises(ToolError, match="could not be measured: gone"):
        await lists(KnownPair(PAIR, False, "gone"))
    with pytest.raises(ToolError, match="'a' is one datasource"):
        await lists(a="a", b="a")


def test_rejected_pairs_are_prohibitions() -> None:
    rejected = KnownPair(PAIR, False, Overlap(9, 0, 9, 0))
    declared = PAIR.model_copy(update={"rejected": True, "note": "different numbering"})
    pairs = KnownPairs(
        (
            KnownPair(PAIR, True, Overlap(9, 9, 9, 9)),
            rejected,
            KnownPair(declared, True, "not measured"),
        )
    )
    assert pairs.prohibitions() == [
        f"a: main.t.x_id and b: cube.x_id: {rejected.found_out}",
        "a: main.t.x_id and b: cube.x_id: declared never to be joined (different numbering)",
    ]


async def all_tables(warehouses: Warehouses) -> list[Table]:
    return [table for each in warehouses.values() for table in await each.tables()]


async def test_pairs_are_found_by_their_names_and_measured(warehouses: Warehouses) -> None:
    known = await know_pairs([], await all_tables(warehouses), warehouses)
    shop_crm = await known.between("shop", "crm")
    assert {(p["a"], p["b"]) for p in shop_crm["confirmed"]} == {
        ("main.customers.id", "main.contacts.customer_no"),
        ("main.visits.customer_id", "main.contacts.customer_no"),
        ("main.visits.visit_key", "main.contacts.visit_key"),
    }
    assert [(p["a"], p["b"]) for p in shop_crm["rejected"]] == [
        ("main.products.product_id", "main.contacts.product_id")
    ]
    shop_sales = await known.between("sales", "shop")
    assert ("orders.customer_id", "main.customers.id") in {
        (p["a"], p["b"]) for p in shop_sales["confirmed"]
    }
    [prohibition] = [line for line in known.prohibitions() if "product_id" in line]
    assert prohibition.startswith("shop: main.products.product_id and crm: main.contacts.product_i")


async def test_what_is_declared_is_measured_too_and_not_twice(warehouses: Warehouses) -> None:
    declared = [
        KeyPair(left=key("default", "main.customers", "name"), right=key("crm", "main.gone", "x")),
        KeyPair(
            left=key("crm", "main.contacts", "customer_no"),
            right=key("shop", "main.customers", "id"),
            note="the CRM keeps our number",
        ),
        KeyPair(
            left=key("shop", "main.visits", "visit_key"),
            right=key("crm", "main.contacts", "visit_key"),
            rejected=True,
        ),
        KeyPair(left=key("shop", "main.t", "x"), right=key("another", "main.t", "x")),
    ]
    known = await know_pairs(declared, await all_tables(warehouses), warehouses)
    told = await known.between("shop", "crm")
    [unsure] = told["declared"]
    assert unsure["a"] == "main.customers.name"
    assert "gone" in unsure["not_measured"]
    confirmed = [p for p in told["confirmed"] if p["a"] == "main.customers.id"]
    assert [p.get("note") for p in confirmed] == ["the CRM keeps our number"]
    assert "main.visits.visit_key" in {p["a"] for p in told["rejected"]}
    assert "main.visits.visit_key" not in {p["a"] for p in told["confirmed"]}
    assert all(known.datasources <= set(warehouses) for known in known.pairs)


async def test_measuring_stops_when_its_time_is_over(warehouses: Warehouses) -> None:
    known = await know_pairs([], await all_tables(warehouses), warehouses, seconds=0)
    assert {pair.measured for pair in known.pairs} == {"not measured within 0 s"}
    with pytest.raises(ToolError, match="not measured within 0 s"):
        await known.between("shop", "crm")


class Kept:
    """A ``PairStore`` in memory."""

    def __init__(self, broken: bool = False) -> None:
        self.pairs: list[MeasuredPair] = []
        self.broken = broken

    async def measured(self) -> list[MeasuredPair]:
        if self.broken:
            raise StoreUnavailable("gone")
        return self.pairs

    async def keep_measured(self, pairs: Sequence[MeasuredPair]) -> None:
        if self.broken:
            raise StoreUnavailable("gone")
        self.pairs += pairs


async def test_what_indexing_has_measured_is_not_asked_again(warehouses: Warehouses) -> None:
    tables, store = await all_tables(warehouses), Kept()
    first = await know_pairs([], tables, warehouses, store=store)
    for warehouse in warehouses.values():
        await warehouse.close()
    again = await know_pairs([], tables, warehouses, store=store)
    assert again == first
    assert len(store.pairs) == len(first.pairs)
    anew = await know_pairs([], tables, warehouses, store=store, anew=True)
    assert {pair.status for pair in anew.pairs} == {PairStatus.UNKNOWN}
    assert len(store.pairs) == len(first.pairs), "what could not be measured is not kept"


async def test_a_kept_pair_counts_the_other_way_round_too(warehouses: Warehouses) -> None:
    store = Kept()
    left, right = key("crm", "main.contacts", "x"), key("shop", "main.customers", "y")
    store.pairs = [
        MeasuredPair(
            left=left, right=right, asked_left=10, found_left=9, asked_right=20, found_right=3,
            measured_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
    ]  # fmt: skip
    declared = KeyPair(left=right, right=left)
    known = await know_pairs([declared], [], warehouses, store=store)
    assert [pair.measured for pair in known.pairs] == [Overlap(20, 3, 10, 9)]


async def test_a_store_that_fails_costs_nothing_but_time(warehouses: Warehouses) -> None:
    tables = await all_tables(warehouses)
    known = await know_pairs([], tables, warehouses, store=Kept(broken=True))
    assert (await known.between("shop", "crm"))["confirmed"]


def test_prohibitions_are_bounded() -> None:
    rejected = [KnownPair(PAIR, False, Overlap(9, 0, 9, 0))] * 4
    assert KnownPairs(tuple(rejected)).prohibitions(limit=3)[3:] == [
        "and 1 more, which get_correlations tells"
    ]
