"""Which rows deserve a picture, and which one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.records import ExplorationStep, StepAction
from serve.report.charts import MAX_BARS, About, ChartSpec, chart_for
from serve.report.numbers import spoken
from serve.report.write import bar_text

AT = datetime(2026, 11, 30, tzinfo=UTC)


def step(rows: list[dict[str, Any]], **more: Any) -> ExplorationStep:
    return ExplorationStep(
        step=5,
        timestamp=AT,
        action=more.pop("action", StepAction.QUERY_DATA),
        query="SELECT 1",
        query_result=rows,
        result_columns=more.pop("result_columns", list(rows[0]) if rows else []),
        row_count=more.pop("row_count", len(rows)),
        **more,
    )


def rows(*columns: tuple[str, list[Any]]) -> list[dict[str, Any]]:
    names = [name for name, _ in columns]
    values = [values for _, values in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


DAYS = ["2013-01-03", "2013-01-01", "2013-01-02"]
NOTHING: list[tuple[str, list[dict[str, Any]]]] = [
    ("no rows", []),
    ("one row", rows(("carrier", ["UA"]), ("n", [1]))),
    ("two rows", rows(("carrier", ["UA", "AA"]), ("n", [1, 2]))),
    ("one column", rows(("n", [1, 2, 3]))),
    ("no measure", rows(("a", ["x", "y", "z"]), ("b", ["p", "q", "r"]))),
    ("a measure that never varies", rows(("a", ["x", "y", "z"]), ("n", [1, 1, 1]))),
    ("only row numbers", rows(("a", ["x", "y", "z"]), ("rank", [1, 2, 3]))),
    ("only ids", rows(("a", ["x", "y", "z"]), ("plane_id", [7, 8, 9]))),
    ("true and false are no measure", rows(("a", ["x", "y", "z"]), ("b", [True, False, True]))),
    ("mostly missing", rows(("a", ["x", "y", "z"]), ("n", [1, None, None]))),
    ("not finite", rows(("a", ["x", "y", "z"]), ("n", [1.0, float("inf"), 2.0]))),
    ("a group twice", rows(("a", ["x", "x", "y"]), ("b", ["p", "p", "q"]), ("n", [1, 2, 3]))),
    ("measures alone", rows(("avg", [1.5, 2.5, 3.5]), ("max", [4.5, 5.5, 6.5]))),
    ("nested values", rows(("a", [[1], [2], [3]]), ("n", [{}, {}, {}]))),
]


@pytest.mark.parametrize(("why", "data"), NOTHING, ids=[why for why, _ in NOTHING])
def test_rows_that_stay_a_table(why: str, data: list[dict[str, Any]]) -> None:
    assert chart_for(step(data)) is None


@pytest.mark.parametrize(
    "more", [{"error": "no such column"}, {"action": StepAction.LOOKUP_SCHEMA}]
)
def test_only_successful_queries_are_drawn(more: dict[str, Any]) -> None:
    assert chart_for(step(rows(("a", ["x", "y", "z"]), ("n", [3, 2, 1])), **more)) is None


LINES = [
    ("dates", rows(("day", DAYS), ("n", [3, 1, 2])), "n by day"),
    ("moments", rows(("at", [f"{d}T10:00:00Z" for d in DAYS]), ("n", [3, 1, 2])), "n by at"),
    ("months", rows(("m", ["2013-03", "2013-01", "2013-02"]), ("n", [3, 1, 2])), "n by m"),
    ("quarters", rows(("q", ["2013-Q3", "2013-Q1", "2013-Q2"]), ("n", [3, 1, 2])), "n by q"),
    ("hours", rows(("dep_hour", [3, 1, 2]), ("n", [3, 1, 2])), "n by dep hour"),
    ("years", rows(("year", [2015, 2013, 2014]), ("n", [3, 1, 2])), "n by year"),
    (
        "a year and its months",
        rows(("year", [2014, 2013, 2013]), ("month", [1, 11, 12]), ("n", [3, 1, 2])),
        "n by month",
    ),
]


@pytest.mark.parametrize(("why", "data", "title"), LINES, ids=[why for why, _, _ in LINES])
def test_a_series_over_time_is_a_line_in_order_of_time(
    why: str, data: list[dict[str, Any]], title: str
) -> None:
    chart = chart_for(step(data))
    assert chart is not None
    assert (chart.kind, chart.title) == ("line", title)
    assert chart.series[0].values == (1, 2, 3)
    assert list(chart.positions) == sorted(chart.positions)


def test_gaps_in_time_are_gaps_in_the_picture() -> None:
    days = ["2013-01-01", "2013-01-02", "2013-01-05"]
    chart = chart_for(step(rows(("day", days), ("n", [1, 2, 3]))))
    assert chart is not None
    first, second, third = chart.positions
    assert (second - first, third - second) == (1, 3)


def test_a_few_groups_over_time_are_lines_of_one_picture() -> None:
    data = rows(
        ("month", [1, 1, 2, 2, 3]), ("origin", ["JFK", "LGA"] * 2 + ["JFK"]), ("n", [5, 4, 6, 3, 7])
    )
    chart = chart_for(step(data))
    assert chart is not None
    assert [(s.name, s.values) for s in chart.series] == [("JFK", (5, 6, 7)), ("LGA", (4, 3, None))]


def test_several_rows_for_one_moment_are_not_one_series() -> None:
    chart = chart_for(step(rows(("month", [1, 1, 2, 3]), ("n", [1, 2, 3, 4]))))
    assert chart is None or chart.kind != "line"


def test_a_ranking_is_bars_in_its_own_order() -> None:
    data = rows(("carrier", ["F9", "EV", "UA"]), ("avg_delay", [20.2, 19.9, 12.1]))
    chart = chart_for(step(data))
    assert chart is not None
    assert (chart.kind, chart.title, chart.labels) == (
        "bars",
        "average delay by carrier",
        ("F9", "EV", "UA"),
    )


def test_groups_in_no_order_are_ranked() -> None:
    chart = chart_for(step(rows(("carrier", ["a", "b", "c", "d"]), ("n", [2, 9, 1, 4]))))
    assert chart is not None
    assert chart.labels == ("b", "d", "a", "c")


def test_two_naming_columns_make_one_label() -> None:
    data = rows(("a", ["x", "x", "y"]), ("b", ["p", "q", "p"]), ("n", [3, 2, 1]))
    chart = chart_for(step(data))
    assert chart is not None
    assert chart.labels == ("x · p", "x · q", "y · p")
    assert chart.label_name == "a and b"


def test_numbered_groups_keep_their_order() -> None:
    chart = chart_for(step(rows(("engines", [1, 2, 3]), ("n", [4, 9, 1]))))
    assert chart is not None
    assert (chart.kind, chart.labels) == ("bars", ("1", "2", "3"))


def test_a_long_ranking_shows_its_head_and_says_so() -> None:
    count = MAX_BARS + 10
    data = rows(
        ("dest", [f"D{i:02}" for i in range(count)]), ("n", [count - i for i in range(count)])
    )
    chart = chart_for(step(data, row_count=4000))
    assert chart is not None
    assert len(chart.labels) == MAX_BARS
    assert chart.note == f"the first {MAX_BARS} of 4,000 rows"


MEASURES = [
    ("", "flights"),
    ("Carriers differ in average delay", "avg_delay"),
    ("avg_delay is highest for F9", "avg_delay"),
    ("The number of flights differs", "flights"),
    ("share_late is 30 %", "share_late"),
]


@pytest.mark.parametrize(("about", "measure"), MEASURES)
def test_the_text_picks_the_measure(about: str, measure: str) -> None:
    data = rows(
        ("carrier", ["a", "b", "c"]),
        ("flights", [5, 9, 7]),
        ("avg_delay", [2.5, 9.5, 7.5]),
        ("share_late", [0.1, 0.3, 0.2]),
    )
    chart = chart_for(step(data), About(text=about))
    assert chart is not None
    assert chart.value_name == spoken(measure)


def test_the_figures_of_the_text_decide_before_its_words() -> None:
    data = rows(("p", ["a", "b", "c"]), ("rows_missing", [9, 5, 7]), ("rate_pct", [2.5, 9.5, 7.5]))
    about = About(text="The share of rows missing peaked", figures=("peak_rate_pct", "peak_rows"))
    chart = chart_for(step(data), about)
    assert chart is not None
    assert chart.value_name == "rate %"


@pytest.mark.parametrize("name", ["measure", "the_metric", "statistic"])
def test_rows_of_different_kinds_share_no_scale(name: str) -> None:
    data = rows((name, ["humid", "temp", "wind"]), ("max_value", [100.0, 100.9, 1048.4]))
    assert chart_for(step(data)) is None


@pytest.mark.parametrize(
    ("subject", "marked"),
    [
        ("It peaked in hour 19 at 24.78", {2}),
        ("5.05% of 19,584", set[int]()),
        ("hour 5, then nothing", {0}),
        ("from 2005-19", set[int]()),
        ("", set[int]()),
    ],
)
def test_moments_are_marked_where_they_stand_as_words(subject: str, marked: set[int]) -> None:
    data = rows(("hour", [5, 12, 19]), ("n", [1, 2, 3]))
    chart = chart_for(step(data), About(subject=subject))
    assert chart is not None
    assert chart.marked == marked


def test_without_a_text_the_column_that_orders_the_rows_is_the_measure() -> None:
    data = rows(("c", ["a", "b", "c"]), ("n", [5, 9, 7]), ("delay", [9.5, 7.5, 2.5]))
    chart = chart_for(step(data))
    assert chart is not None
    assert chart.value_name == "delay"


def test_what_the_text_names_is_marked() -> None:
    data = rows(("carrier", ["F9", "EV", "UA", "AA"]), ("n", [4, 3, 2, 1]))
    chart = chart_for(step(data), About(subject="F9 leads; UAL is something else"))
    assert chart is not None
    assert chart.marked == {0}


def test_a_group_of_two_names_is_marked_where_both_are_named() -> None:
    data = rows(
        ("carrier", ["UA", "EV", "UA"]), ("origin", ["EWR", "EWR", "LGA"]), ("n", [3, 2, 1])
    )
    chart = chart_for(step(data), About(subject="Carrier UA, origin EWR has the most flights"))
    assert chart is not None
    assert chart.marked == {0}


def test_as_text_what_is_below_zero_goes_to_the_left() -> None:
    data = rows(("c", ["a", "bb", "c"]), ("n", [3, 0, -1]))
    chart = chart_for(step(data))
    assert chart is not None
    assert bar_text(chart, width=8).splitlines() == ["a     │██████ 3", "bb    │ 0", "c   ██│ -1"]


def test_a_text_that_names_most_groups_marks_none() -> None:
    data = rows(("carrier", ["F9", "EV", "UA"]), ("n", [4, 3, 2]))
    chart = chart_for(step(data), About(subject="F9, EV and UA"))
    assert chart is not None
    assert chart.marked == frozenset()


def test_the_picture_can_be_read_aloud() -> None:
    chart = chart_for(step(rows(("c", ["a", "b", "c"]), ("n", [3000, 200, 1]))))
    assert chart is not None
    assert chart.alt == "Bar chart: n by c. highest 3,000 at a, lowest 1 at c."


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([100, 101, 102], "the scale does not start at zero"),
        ([1, 50, 102], ""),
        ([-5, 0, 5], ""),
    ],
)
def test_a_scale_that_is_cut_off_is_said(values: list[int], note: str) -> None:
    chart = chart_for(step(rows(("month", [1, 2, 3]), ("n", values))))
    assert chart is not None
    assert chart.note == note


ODD = [
    rows(("", ["x", "y", "z"]), ("", [1, 2, 3])),
    rows(("$a.b", ["x", "y", "z"]), ("n\n<b>", [1, 2, 3])),
    [{"a": "x", "n": 1}, {"a": "y"}, {"n": 3}, {"a": "w", "n": 4}],
    rows(("day", ["2013-02-30", "2013-99-01", "2013-01-01"]), ("n", [1, 2, 3])),
    rows(("year", [10**30, 1, 2]), ("n", [1, 2, 3])),
    rows(("a", ["\u202e", "", None]), ("n", [1, -2, 3.5])),
    rows(("month", [1, 2, 3]), ("n", [None, 1, 2]), ("m", [1e308, -1e308, 0])),
]


@pytest.mark.parametrize("data", ODD)
def test_odd_rows_never_crash(data: list[dict[str, Any]]) -> None:
    for about in ("", "n\n<b> ("):
        chart = chart_for(step(data), About(about, about, (about,)))
        assert chart is None or isinstance(chart, ChartSpec)
