"""What judging again writes: one document's validation, and rows added to the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from adapters.store.store import Store
from pipeline.errors import NotFound
from pipeline.records import (
    ClaimEvidence,
    ClaimVerdict,
    DiscoveryResult,
    DocKind,
    Insight,
    InsightValidation,
    Recommendation,
    Status,
    StructuredVerdict,
    ValidationResult,
)

NewDiscovery = Callable[..., DiscoveryResult]


def insights(count: int) -> list[Insight]:
    return [
        Insight(id=f"i{n}", ref=f"trends-{n}", analysis_area="trends", name=f"n{n}")
        for n in range(count)
    ]


def validation(status: Status, text: str = "") -> InsightValidation:
    evidence = ClaimEvidence(kind="step_row", row={"sum(x.y)": 1, "$n": 2})
    claim = ClaimVerdict(claim_text=text, status=status.value, evidence=evidence)
    verdict = StructuredVerdict(overall=status.value, claim_verdicts=[claim])
    return InsightValidation(combined=status, verifier=verdict)


async def test_a_document_is_stamped_and_nothing_else_changes(
    store: Store, new_discovery: NewDiscovery
) -> None:
    stored = new_discovery(insights=insights(3), recommendations=[Recommendation(id="r", title="")])
    await store.discoveries.save(stored)
    new = validation(Status.REJECTED)
    await store.discoveries.save_validation("d1", DocKind.INSIGHT, "i1", new)
    await store.discoveries.save_validation("d1", DocKind.RECOMMENDATION, "r", new)

    found = await store.discoveries.get("d1")
    assert [i.validation for i in found.insights] == [None, new, None]
    assert [r.validation for r in found.recommendations] == [new]
    untouched = {"insights", "recommendations", "updated_at"}
    assert found.model_dump(exclude=untouched) == stored.model_dump(exclude=untouched)
    assert found.updated_at


async def test_siblings_stamped_at_the_same_time_all_keep_theirs(
    store: Store, new_discovery: NewDiscovery
) -> None:
    await store.discoveries.save(new_discovery(insights=insights(20)))
    await asyncio.gather(
        *(
            store.discoveries.save_validation(
                "d1", DocKind.INSIGHT, f"i{n}", validation(Status.SUPPORTED, f"claim {n}")
            )
            for n in range(20)
        )
    )
    found = await store.discoveries.get("d1")
    kept = [i.validation.verifier for i in found.insights if i.validation]
    assert [v.claim_verdicts[0].claim_text for v in kept if v] == [f"claim {n}" for n in range(20)]


@pytest.mark.parametrize(("discovery", "doc"), [("d1", "i9"), ("d9", "i1"), ("d1", "r")])
async def test_what_is_gone_is_not_stamped(
    store: Store, new_discovery: NewDiscovery, discovery: str, doc: str
) -> None:
    await store.discoveries.save(new_discovery(insights=insights(2)))
    with pytest.raises(NotFound, match=f"'{discovery}' has no insight '{doc}'"):
        await store.discoveries.save_validation(
            discovery, DocKind.INSIGHT, doc, validation(Status.REJECTED)
        )


async def test_rows_are_added_to_a_log_and_the_old_ones_stay(
    store: Store, new_discovery: NewDiscovery
) -> None:
    result = new_discovery()
    await store.validation_results.save(result, [ValidationResult(insight_id="i1")])
    await store.validation_results.append(result, [ValidationResult(insight_id="i1", status="new")])
    rows = await store.validation_results.of("d1")
    assert sorted(row.status for row in rows) == ["", "new"]
    assert len({row.id for row in rows}) == 2
    assert {(row.discovery_id, row.project_id) for row in rows} == {("d1", "p1")}


async def test_discoveries_are_found_by_the_start_of_their_id(
    store: Store, new_discovery: NewDiscovery
) -> None:
    for name in ("abc-1", "abc-2", "abd-1"):
        await store.discoveries.save(new_discovery(name))
    found = await store.discoveries.starting_with("abc", 5)
    assert sorted(each.id for each in found) == ["abc-1", "abc-2"]
    assert len(await store.discoveries.starting_with("ab", 2)) == 2
    assert await store.discoveries.starting_with("x", 2) == []
