"""How many false figures are caught: insights with one figure altered, and as they are.

    python -m benchmarks.planted [--documents 20] [--max-steps 40]

The discovery runs in this process over the demo warehouse, by the offline analyst, which then
judges its own insights: rules, no language model. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.warehouses import open_warehouse
from adapters.warehouses.demo import build_demo
from benchmarks.in_process import InProcess
from pipeline.records import Insight, Status, WarehouseConfig
from pipeline.settings import WarehouseSettings
from pipeline.validation.phase import Budget, Validator, validate_insights

_FIGURE = re.compile(r"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?(?![\w/-]|[.,]\d)")


@dataclass(frozen=True, slots=True)
class Planted:
    """An insight with one figure that is not what the data says."""

    insight: Insight
    how: str
    before: str
    after: str


# ---------------------------------------------------------------- altering


def _like(text: str, value: float) -> str:
    """A number with the decimals and the separators of the one that it replaces."""
    decimals = len(text.partition(".")[2])
    return f"{value:{',' if ',' in text else ''}.{decimals}f}"


def _by_factor(factor: float) -> Callable[[str, Sequence[str]], str]:
    return lambda text, _: _like(text, float(text.replace(",", "")) * factor)


def _off_by_one(text: str, _: Sequence[str]) -> str:
    unit = 10.0 ** -len(text.partition(".")[2])
    return _like(text, float(text.replace(",", "")) + unit)


def _neighbour(text: str, others: Sequence[str]) -> str:
    """The nearest other figure of the insight."""
    return others[0] if others else _off_by_one(text, others)


ALTERATIONS: dict[str, Callable[[str, Sequence[str]], str]] = {
    "3 % more": _by_factor(1.03),
    "doubled": _by_factor(2.0),
    "off by one in the last digit": _off_by_one,
    "a tenth less": _by_factor(0.9),
    "swapped with a neighbour": _neighbour,
}
PLACES = ("name", "description", "affected_count")


def figures(text: str) -> list[re.Match[str]]:
    """Standing figures of a text: no ordinals, dates or parts of names."""
    return list(_FIGURE.finditer(text))


def plant(insight: Insight, place: str, how: str, which: int = 0) -> Planted | None:
    """Alter one figure; None when that place has none, or the alteration changes nothing."""
    alter = ALTERATIONS[how]
    if place == "affected_count":
        before = str(insight.affected_count)
        after = alter(before, [m[0] for m in figures(insight.name) if m[0] != before])
        if not insight.affected_count or not after.isdigit():
            return None
        altered = {"affected_count": int(after)}
    else:
        text: str = getattr(insight, place)
        found = figures(text)
        if not found:
            return None
        spot = found[which % len(found)]
        before = spot[0]
        after = alter(before, [m[0] for m in found if m[0] != before])
        altered = {place: text[: spot.start()] + after + text[spot.end() :]}
    if after == before:
        return None
    fresh = {"id": f"{insight.id}-{place}-{how}", "validation": None, "description_md": None}
    return Planted(insight.model_copy(update=fresh | altered), f"{place}: {how}", before, after)


def plants(insights: Sequence[Insight], count: int) -> list[Planted]:
    """``count`` altered insights, the places, the ways and the insights taken in turn."""
    ways = list(ALTERATIONS)
    found: list[Planted] = []
    for turn in range(count * len(ways)):
        if len(found) == count or not insights:
            break
        insight = insights[turn % len(insights)]
        place = PLACES[turn % len(PLACES)]
        how = ways[(turn + turn // len(insights)) % len(ways)]
        planted = plant(insight, place, how, which=turn)
        if planted is not None:
            found.append(planted)
    return found


def headline_only(insight: Insight) -> Insight:
    """As true as the whole insight, and judged without its description."""
    shorter = {"id": f"{insight.id}-headline", "description": "", "description_md": None}
    return insight.model_copy(update=shorter | {"validation": None})


# ---------------------------------------------------------------- judging


@dataclass(frozen=True, slots=True)
class Caught:
    planted: int
    rejected: int
    """Planted documents that were rejected."""
    true: int
    wrongly_rejected: int
    missed: list[Planted]
    wronged: list[Insight]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "planted": self.planted,
            "planted_rejected": self.rejected,
            "true": self.true,
            "true_rejected": self.wrongly_rejected,
            "missed": [
                {
                    "name": p.insight.name,
                    "how": p.how,
                    "before": p.before,
                    "after": p.after,
                    "combined": _combined(p.insight),
                }
                for p in self.missed
            ],
            "wronged": [insight.name for insight in self.wronged],
        }


def _combined(insight: Insight) -> str:
    return str(insight.validation.combined) if insight.validation else ""


async def judge_planted(
    true: Sequence[Insight], planted: Sequence[Planted], validator: Validator
) -> Caught:
    """Judge both; every document gets its validation."""
    documents = [*true, *(p.insight for p in planted)]
    await validate_insights(documents, validator, Budget(len(documents)))
    missed = [p for p in planted if _combined(p.insight) != Status.REJECTED]
    wronged = [insight for insight in true if _combined(insight) == Status.REJECTED]
    return Caught(
        planted=len(planted),
        rejected=len(planted) - len(missed),
        true=len(true),
        wrongly_rejected=len(wronged),
        missed=missed,
        wronged=wronged,
    )


async def measure(path: Path, documents: int, max_steps: int) -> Caught:
    """Explore the warehouse at ``path``, plant, and judge."""
    config = WarehouseConfig(config={"path": str(path)})
    warehouse = open_warehouse(config, WarehouseSettings())
    try:
        here = InProcess(warehouse)
        result = await here.explore(max_steps)
        true = [*result.insights, *map(headline_only, result.insights)][:documents]
        return await judge_planted(true, plants(result.insights, documents), here.validator())
    finally:
        await warehouse.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--max-steps", type=int, default=40)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="veridical-bench-") as folder:
        path = build_demo(Path(folder) / "nycflights.duckdb")
        caught = asyncio.run(measure(path, asked.documents, asked.max_steps))
    print(json.dumps(caught.document(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
