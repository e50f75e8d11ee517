"""Every figure, name and comparison of a true insight, replaced by another, rejects it."""

from __future__ import annotations

from collections.abc import Iterable

from adapters.llm.offline.judging.arithmetic import coverage, of_pairs
from adapters.llm.offline.judging.claims import figures_in
from adapters.llm.offline.judging.steps import Step
from adapters.llm.offline.sqlshape import read_shapes
from pipeline.records import AgentMode
from tests.adapters.llm.offline.conftest import Case, judged, tools_over
from tests.adapters.llm.offline.falsifying import (
    Falsified,
    false_figures,
    false_names,
    false_words,
)

_EVERY = 59
"""Every so many of the some 2,000 replacements are judged; the number has no common divisor with
the ways to replace, so that all come up."""


async def _missed(case: Case, lies: Iterable[Falsified]) -> list[str]:
    missed: list[str] = []
    async with tools_over(case.path, case) as tools:
        for what, lie in lies:
            verdict = await judged(case.bundle(lie), AgentMode.VERIFIER, tools)
            if verdict.overall != "rejected":
                missed.append(f"{verdict.overall} {what}: {lie.name}")
    return missed


async def test_a_figure_replaced_by_another_of_its_row_or_sentence_is_rejected(demo: Case) -> None:
    lies = [x for i in demo.result.insights for x in false_figures(i, demo.bundle(i))]
    assert len(lies) > 1000
    assert await _missed(demo, lies[::_EVERY]) == []


async def test_another_group_or_period_in_place_of_the_named_one_is_rejected(demo: Case) -> None:
    lies = [x for i in demo.result.insights for x in false_names(i, demo.bundle(i))]
    assert len(lies) > 30
    assert await _missed(demo, lies[::3]) == []


async def test_a_comparison_turned_round_is_rejected(demo: Case) -> None:
    lies = [x for i in demo.result.insights for x in false_words(i)]
    assert len(lies) > 20
    assert await _missed(demo, lies[::2]) == []


async def test_no_true_insight_is_rejected(demo: Case) -> None:
    true = [("as it is", insight) for insight in demo.result.insights]
    assert len(await _missed(demo, true)) == len(true)


def test_x_of_y_is_a_pair_and_x_over_y_is_none() -> None:
    text = "5 of 20 rows (25%) over 3 days"
    pairs = of_pairs(figures_in(text), text)
    assert [(int(a.value), int(b.value)) for a, b in pairs] == [(5, 20)]


def test_the_periods_compared_and_left_out_are_all_periods() -> None:
    sql = "SELECT strftime(day, '%Y-%m') AS period, COUNT(*) AS n FROM t GROUP BY 1"
    periods = ("2024-01", "2024-02", "2024-03", "2024-04")
    rows = tuple({"period": p, "n": i} for i, p in enumerate(periods))
    steps = [Step(1, sql, read_shapes(sql, "duckdb"), rows, len(rows), "duckdb")]
    cases = {
        "The comparison covers 2024-01 to 2024-04": True,
        "The comparison covers 2024-01 to 2024-03 and leaves out 2024-04 as incomplete": True,
        "The comparison covers 2024-01 to 2024-03": False,
        "The comparison covers 2024-02 to 2024-04": False,
    }
    assert {text: [c.holds for c in coverage(text, steps)] == [True] for text in cases} == cases
