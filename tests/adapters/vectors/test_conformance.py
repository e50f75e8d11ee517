"""What every ``VectorIndex`` does."""

from __future__ import annotations

import asyncio
from uuid import NAMESPACE_URL, uuid5

import pytest

from adapters.vectors import OpenedVectors
from pipeline.errors import VectorsUnavailable
from pipeline.ports import Point

KEYS = ("type", "project_id")


def _id(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, name))


def _point(name: str, vector: list[float], **payload: object) -> Point:
    return Point(_id(name), vector, {"name": name, **payload})


async def _filled(vectors: OpenedVectors) -> None:
    await vectors.ensure("c", "embedder", 3, KEYS)
    await vectors.upsert(
        "c",
        [
            _point("east", [1, 0, 0], type="insight", project_id="p1"),
            _point("north-east", [1, 1, 0], type="insight", project_id="p2"),
            _point("north", [0, 1, 0], type="recommendation", project_id="p1"),
            _point("west", [-1, 0, 0], type="insight", project_id="p1", n=[1, {"a": None}]),
        ],
    )


async def _names(vectors: OpenedVectors, limit: int = 10, **where: str) -> list[str]:
    return [h.payload["name"] for h in await vectors.search("c", [1, 0, 0], limit, where)]


async def test_the_nearest_come_first_with_their_cosine(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    hits = await vectors.search("c", [2, 0, 0], 10, {})
    assert [h.payload["name"] for h in hits] == ["east", "north-east", "north", "west"]
    assert [h.score for h in hits] == pytest.approx([1, 0.5**0.5, 0, -1], abs=1e-5)
    assert hits[0].id == _id("east")
    assert hits[3].payload["n"] == [1, {"a": None}]


async def test_where_is_equality_on_payload_keys_and_all_must_hold(
    vectors: OpenedVectors,
) -> None:
    await _filled(vectors)
    assert await _names(vectors, type="insight") == ["east", "north-east", "west"]
    assert await _names(vectors, type="insight", project_id="p1") == ["east", "west"]
    assert await _names(vectors, type="insight", project_id="p3") == []
    assert await _names(vectors, no_such_key="x") == []


async def test_the_limit_holds(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    assert await _names(vectors, 1) == ["east"]
    assert await _names(vectors, 0) == []


async def test_a_point_with_the_same_id_is_replaced(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    await vectors.upsert("c", [_point("east", [0, 0, 1], type="insight")])
    hits = await vectors.search("c", [0, 0, 1], 1, {})
    assert (hits[0].id, hits[0].score) == (_id("east"), pytest.approx(1))
    assert "project_id" not in hits[0].payload
    assert len(await _names(vectors)) == 4


async def test_points_are_deleted_by_filter(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    await vectors.delete("c", {"project_id": "p1", "type": "insight"})
    assert await _names(vectors) == ["north-east", "north"]
    await vectors.delete("c", {"project_id": "nobody"})
    assert len(await _names(vectors)) == 2
    await vectors.delete("c", {})
    assert await _names(vectors) == []


async def test_a_dropped_collection_is_gone_and_can_be_made_again(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    await vectors.drop("c")
    assert await _names(vectors) == []
    await vectors.ensure("c", "other", 2, KEYS)
    await vectors.upsert("c", [_point("new", [0, 1])])
    assert len(await vectors.search("c", [0, 1], 5, {})) == 1


async def test_what_does_not_exist_can_be_searched_deleted_from_and_dropped(
    vectors: OpenedVectors,
) -> None:
    assert await _names(vectors) == []
    await vectors.delete("c", {"type": "insight"})
    await vectors.drop("c")
    await vectors.upsert("c", [])


async def test_points_need_a_collection(vectors: OpenedVectors) -> None:
    with pytest.raises(VectorsUnavailable):
        await vectors.upsert("c", [_point("a", [1.0])])


async def test_ensuring_again_keeps_what_is_there(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    await vectors.ensure("c", "embedder", 3, [*KEYS, "severity"])
    assert len(await _names(vectors)) == 4


@pytest.mark.parametrize(("embedder", "dim"), [("other", 3), ("embedder", 4)])
async def test_vectors_of_another_model_or_size_are_never_mixed_in(
    vectors: OpenedVectors, embedder: str, dim: int
) -> None:
    await _filled(vectors)
    with pytest.raises(VectorsUnavailable, match=r"holds vectors of embedder \(3 numbers each\)"):
        await vectors.ensure("c", embedder, dim, KEYS)
    assert len(await _names(vectors)) == 4


@pytest.mark.parametrize("vector", [[1.0], [1.0, 0, 0, 0], []])
async def test_a_vector_of_another_size_is_refused(
    vectors: OpenedVectors, vector: list[float]
) -> None:
    await _filled(vectors)
    with pytest.raises(VectorsUnavailable):
        await vectors.upsert("c", [_point("odd", vector)])
    with pytest.raises(VectorsUnavailable):
        await vectors.search("c", vector, 3, {})
    assert len(await _names(vectors)) == 4


async def test_an_id_that_is_no_uuid_is_refused(vectors: OpenedVectors) -> None:
    await _filled(vectors)
    with pytest.raises(VectorsUnavailable):
        await vectors.upsert("c", [Point("trends-1", [1, 0, 0])])


@pytest.mark.parametrize("name", ["", "../c", "a/b", ".hidden", "a" * 200, "c.json"])
async def test_a_name_that_is_no_folder_name_is_refused(vectors: OpenedVectors, name: str) -> None:
    with pytest.raises(VectorsUnavailable, match="no name for a vector collection"):
        await vectors.ensure(name, "embedder", 3, KEYS)


async def test_many_callers_at_once(vectors: OpenedVectors) -> None:
    await vectors.ensure("c", "embedder", 3, KEYS)

    async def add(n: int) -> None:
        await vectors.upsert("c", [_point(f"p{n}", [1, n, 0])])
        await vectors.search("c", [1, 0, 0], 3, {})

    await asyncio.gather(*(add(n) for n in range(25)))
    assert len(await _names(vectors, 100)) == 25


async def test_it_answers_a_ping(vectors: OpenedVectors) -> None:
    await vectors.ping()
