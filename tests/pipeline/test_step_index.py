"""The in-memory step index."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline.ports import StepHit
from pipeline.step_index import StepIndexCore

DIRECTIONS = {"east": [1.0, 0.0], "north": [0.0, 2.0], "north-east": [3.0, 3.0], "zero": [0.0, 0.0]}


class Compass:
    """An embedder whose vectors are known; not all of unit length."""

    id, dim = "compass", 2

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [DIRECTIONS[text] for text in texts]


@pytest.fixture
async def index() -> StepIndexCore:
    core = StepIndexCore(Compass())
    await core.add(1, "east", "a")
    await core.add(2, "north", "b")
    await core.add(3, "north-east", "a")
    return core


def rounded(hits: Sequence[StepHit]) -> list[tuple[int, float]]:
    return [(hit.step, round(hit.score, 3)) for hit in hits]


async def test_rank_is_by_cosine_best_first(index: StepIndexCore) -> None:
    assert rounded(await index.rank("east", 2)) == [(1, 1.0), (3, 0.707)]


async def test_rank_spans_all_datasources_and_ties_go_by_step(index: StepIndexCore) -> None:
    await index.add(9, "east", "b")
    assert rounded(await index.rank("east", 9))[:2] == [(1, 1.0), (9, 1.0)]


async def test_nearest_stays_within_one_datasource(index: StepIndexCore) -> None:
    hit = await index.nearest("north", "a")
    assert hit is not None
    assert rounded([hit]) == [(3, 0.707)]
    assert await index.nearest("north", "c") is None


async def test_adding_a_step_again_replaces_it(index: StepIndexCore) -> None:
    await index.add(1, "north", "a")
    assert [hit.step for hit in await index.rank("north", 9)] == [1, 2, 3]


@pytest.mark.parametrize("k", [0, -1])
async def test_nothing_asked_nothing_found(index: StepIndexCore, k: int) -> None:
    assert await index.rank("east", k) == []
    assert await StepIndexCore(Compass()).rank("east", 5) == []


async def test_a_text_without_direction_is_near_nothing(index: StepIndexCore) -> None:
    assert [score for _, score in rounded(await index.rank("zero", 3))] == [0.0, 0.0, 0.0]
