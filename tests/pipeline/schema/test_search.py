"""search_tables in warehouses of any size: what a search waits for, and what it finds at once."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.schema import search
from pipeline.schema.search import TableSearch
from tests.pipeline.schema.memory import CountingEmbedder, MemorySchemas, table

MANY = [table(f"main.t{n:04}", f"col_{n % 7}", "v INT", rows=10 + n) for n in range(600)]
CUSTOMERS = table("crm.acct", "customer_id", rows=1)
ORDER = table("zz.order_lines", "x", rows=1)


async def test_a_small_warehouse_is_embedded_at_the_first_search() -> None:
    embedder = CountingEmbedder()
    tables = [*MANY[:100], CUSTOMERS]
    finder = TableSearch(tables, embedder)
    assert not embedder.lines
    assert (await finder.search("customer", 3))[0].table == "crm.acct"
    await finder.search("col", 3)
    assert len(embedder.lines) == 101


async def test_a_large_one_waits_for_the_likeliest_tables_only() -> None:
    embedder, store = CountingEmbedder(), MemorySchemas()
    finder = TableSearch([*MANY, CUSTOMERS, ORDER], embedder, store)
    first = await finder.search("customers", 5)
    assert first[0].table == "crm.acct", "words that begin alike count"
    assert len(embedder.lines) <= search.AT_ONCE + search.BATCH
    await embedder.until(602)
    assert (await finder.search("customers", 5))[0].table == "crm.acct"
    assert len(embedder.lines) == len(set(embedder.lines)) == 602, "no line is embedded twice"
    await finder.close()
    assert len(store.lines) == 602
    again = CountingEmbedder()
    await TableSearch([*MANY, CUSTOMERS, ORDER], again, store).search("orders", 5)
    assert again.lines == []


async def test_an_embedder_that_fails_in_the_background_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = CountingEmbedder()
    finder = TableSearch(MANY, embedder)
    await finder.search("col_3", 5)
    embedder.broken = True
    await embedder.failed.wait()
    await finder.close()
    assert "ended early: no embedding today" in caplog.text


async def test_closing_stops_the_background() -> None:
    embedder = CountingEmbedder()
    finder = TableSearch(MANY, embedder)
    await finder.search("col_3", 5)
    await finder.close()
    done = len(embedder.lines)
    await asyncio.sleep(0)
    assert len(embedder.lines) == done < 600


async def test_equal_scores_come_in_the_order_of_their_names() -> None:
    same = [table(f"s.{name}", "x", rows=7) for name in ("b", "d", "a", "c")]
    hits = await TableSearch(same, CountingEmbedder()).search("nothing like it", 3)
    assert [hit.table for hit in hits] == ["s.a", "s.b", "s.c"]


async def test_twice_as_many_as_wanted_are_taken_by_meaning_before_size_and_words_count() -> None:
    near = [table(f"s.customer_{n}", "x", rows=1) for n in range(4)]
    huge = table("s.zz", "shop", rows=10**9)
    finder = TableSearch([*near, huge], CountingEmbedder())
    hits = await finder.search("customer shop", 2)
    assert [hit.table for hit in hits] == ["s.customer_0", "s.customer_1"]
    assert [hit.score for hit in hits] == [1.02, 1.02]
    hits = await finder.search("customer shop", 3)
    assert [(hits[0].table, hits[0].score)] == [("s.customer_0", 1.02)]
    assert (await finder.search("shop", 1))[0].score == 1.47, "0.05 a power of ten, 0.02 a word"


async def test_at_most_thirty_hits() -> None:
    assert len(await TableSearch(MANY[:50], CountingEmbedder()).search("col", 500)) == 30


async def test_a_hit_says_what_the_table_is() -> None:
    [hit] = await TableSearch([CUSTOMERS], CountingEmbedder()).search("customers", 1)
    assert hit.description == "1 column, 1 rows. Groups: customer_id."
