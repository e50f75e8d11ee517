"""Planting a false number in an insight must make it reject that insight."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pipeline.records import AgentMode, Insight
from pipeline.validation.tools import WarehouseTools
from tests.adapters.llm.offline.conftest import Case, judged, tools_over

NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-]|\.\d)")


def falsified(number: str, seed: int) -> str:
    """Another number of the same form: larger, smaller, or one digit off."""
    if "." in number:
        places = len(number.partition(".")[2])
        value = float(number)
        return f"{(value * 1.4 + 2, value / 2 + 3, value + 1.1)[seed % 3]:.{places}f}"
    value = int(number)
    return str(
        (value + value // 3 + 2, value // 2 + 1 if value > 4 else value + 5, value + 1)[seed % 3]
    )


def planted(insight: Insight) -> Iterator[tuple[str, Insight]]:
    """One false figure at a time, in each place that bears load."""
    for field in ("name", "description"):
        text = str(getattr(insight, field))
        for seed, match in enumerate(NUMBER.finditer(text)):
            lie = falsified(match.group(), seed)
            changed = text[: match.start()] + lie + text[match.end() :]
            yield f"{field}: {match.group()} as {lie}", insight.model_copy(update={field: changed})
    if insight.affected_count:
        lie = insight.affected_count + 1
        yield f"affected_count {lie}", insight.model_copy(update={"affected_count": lie})


SWAPS = (
    ("has the most", "has the fewest"),
    ("is highest for", "is lowest for"),
    ("peaked in", "was lowest in"),
    (" rose ", " fell "),
)


async def rejected(case: Case, insight: Insight, tools: WarehouseTools) -> bool:
    verdict = await judged(case.bundle(insight), AgentMode.VERIFIER, tools)
    if verdict.overall == "rejected":
        wrong = [c for c in verdict.claim_verdicts if c.status == "rejected"]
        assert all(c.evidence.row for c in wrong)
        assert all(c.evidence.provenance and c.evidence.provenance.attested for c in wrong)
    return verdict.overall == "rejected"


async def test_every_planted_figure_is_found(demo: Case) -> None:
    missed: list[str] = []
    count = 0
    async with tools_over(demo.path, demo) as tools:
        for insight in demo.result.insights:
            for what, lie in list(planted(insight))[::10]:
                count += 1
                if not await rejected(demo, lie, tools):
                    missed.append(f"{what}: {insight.name}")
    assert count >= 15
    assert missed == []


async def test_swapped_superlatives_and_movements_are_found(demo: Case) -> None:
    missed: list[str] = []
    count = 0
    async with tools_over(demo.path, demo) as tools:
        for insight in demo.result.insights:
            for word, other in SWAPS:
                for field in ("name", "description"):
                    text = str(getattr(insight, field))
                    if word not in text:
                        continue
                    count += 1
                    lie = insight.model_copy(update={field: text.replace(word, other, 1)})
                    if not await rejected(demo, lie, tools):
                        missed.append(f"{field} {word}: {text}")
    assert count >= 8
    assert missed == []


async def test_the_refuter_finds_a_planted_figure_with_its_own_query(demo: Case) -> None:
    async with tools_over(demo.path, demo) as tools:
        for insight in demo.result.insights[:6]:
            what, lie = next(planted(insight))
            bundle = demo.bundle(lie).model_copy(update={"prior_claims": [lie.name]})
            verdict = await judged(bundle, AgentMode.REFUTER, tools)
            assert verdict.overall == "rejected", what
            assert verdict.claims_considered == [lie.name]
            assert verdict.claim_verdicts[0].evidence.kind == "warehouse_query"


@pytest.mark.parametrize("seed", range(3))
def test_a_falsified_number_differs(seed: int) -> None:
    for number in ("0", "1", "32", "58665", "17.4", "0.02"):
        assert falsified(number, seed) != number
