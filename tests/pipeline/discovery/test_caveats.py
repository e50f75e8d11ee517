"""Issue 4: "caveats reach the exploring model, the digest and the insight's evidence label"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from pipeline.discovery import discover
from pipeline.ports import QueryResult
from pipeline.prompting import read_json_block
from pipeline.records import Quality, QualityKind
from tests.pipeline.discovery.conftest import MemoryWarehouse, World


@dataclass
class Careful(MemoryWarehouse):
    """Puts caveats on every result, as an adapter would."""

    caveats: tuple[Quality, ...]

    async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
        return replace(await super().query(sql, max_rows=max_rows), caveats=self.caveats)


KINDS: list[tuple[QualityKind, ...]] = [*((kind,) for kind in QualityKind), tuple(QualityKind), ()]


@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "+".join(kinds) or "none")
async def test_every_kind_reaches_the_model_the_digest_and_the_evidence_label(
    world: World, kinds: tuple[QualityKind, ...]
) -> None:
    caveats = tuple(Quality(kind=kind, detail=f"why it is {kind}") for kind in kinds)
    world.renew(warehouse=Careful(caveats))
    result = await discover(world.run(), world.project, world.deps)
    stated: list[dict[str, Any]] = [{"kind": k, "detail": f"why it is {k}"} for k in kinds]
    answer = world.requests("explorer")[1].messages[-1].content
    told: dict[str, Any] = read_json_block(answer, "step_result")
    assert told["caveats"] == stated, "the exploring model"
    assert list(told).index("caveats") < list(told).index("rows"), "before the rows"
    assert all(kind in answer.split("<step_result>")[0] for kind in kinds), "in words as well"
    shown = read_json_block(world.requests("analyst")[0].messages[0].content, "query_results")
    assert all(entry["quality_caveats"] == stated for entry in shown), "the digest"
    assert result.insights
    for insight in result.insights:
        assert insight.evidence_quality == list(kinds), "the evidence label"
    advised = read_json_block(world.requests("recommender")[0].messages[0].content, "insights")
    assert all(insight["evidence_quality"] == list(kinds) for insight in advised)
    assert [step.quality for step in world.desk.exploration if step.succeeded] == [[*caveats]] * 3


async def test_the_label_is_of_the_cited_steps_alone(world: World) -> None:
    class Once(Careful):
        """Only the first answer is not the whole one."""

        async def query(self, sql: str, *, max_rows: int | None = None) -> QueryResult:
            found = await super().query(sql, max_rows=max_rows)
            return found if "month" in sql else replace(found, caveats=())

    world.renew(warehouse=Once((Quality(kind=QualityKind.RESTRICTED),)))
    result = await discover(world.run(), world.project, world.deps)
    labels = {tuple(i.source_steps): i.evidence_quality for i in result.insights}
    assert labels == {steps: (["restricted"] if 1 in steps else []) for steps in labels}
    assert len(set(map(tuple, labels.values()))) == 2


async def test_a_label_that_the_analyst_writes_itself_does_not_count(world: World) -> None:
    analyse = world.roles["analyst"]

    def boast(request: Any) -> Any:
        written: Any = analyse(request)
        written["insights"][0]["evidence_quality"] = ["sampled"]
        return written

    world.roles["analyst"] = boast
    result = await discover(world.run(), world.project, world.deps)
    assert [i.evidence_quality for i in result.insights] == [[]] * 4
