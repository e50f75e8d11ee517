"""The specification, phase 5: a recommendation cites eligible insights or is dropped."""

from __future__ import annotations

import pytest

from pipeline.recommendation.citations import check_citations, outcome_message
from pipeline.records import Recommendation
from tests.pipeline.recommendation.conftest import MakeInsight


def advice(*cited: str) -> Recommendation:
    return Recommendation(id="r", title="t", related_insight_ids=list(cited))


def test_a_uuid_or_a_ref_is_accepted_and_stored_as_a_uuid(make_insight: MakeInsight) -> None:
    one, two = make_insight("trends-1"), make_insight("segments-2")
    cited = check_citations([advice("trends-1", two.id, one.id, " trends-1 ")], [one, two])
    assert [r.related_insight_ids for r in cited.kept] == [[one.id, two.id]]
    assert cited.dropped == 0


def test_an_empty_list_is_dropped_as_missing_ids(make_insight: MakeInsight) -> None:
    cited = check_citations([advice()], [make_insight("trends-1")])
    assert (cited.kept, cited.missing_ids, cited.unknown_id) == ([], 1, 0)


@pytest.mark.parametrize(
    "bad",
    ["trends", "high", "delays-in-summer", "trends-2", "TRENDS-1", "trends-1-x", "", "1",
     "00000000-0000-0000-0000-000000000000"],
)  # fmt: skip
def test_one_unknown_id_drops_the_whole_recommendation(make_insight: MakeInsight, bad: str) -> None:
    eligible = [make_insight("trends-1")]
    cited = check_citations([advice("trends-1", bad), advice("trends-1")], eligible)
    assert (len(cited.kept), cited.missing_ids, cited.unknown_id) == (1, 0, 1)


def test_an_insight_that_is_not_eligible_is_unknown(make_insight: MakeInsight) -> None:
    rejected = make_insight("trends-2")
    cited = check_citations([advice(rejected.id)], [make_insight("trends-1")])
    assert cited.unknown_id == 1


@pytest.mark.parametrize(
    ("kept", "dropped", "message"),
    [
        (3, 0, "Generated 3 recommendations"),
        (2, 1, "Generated 2 recommendations (1 dropped due to invalid related_insight_ids)"),
        (0, 4, "Generated 0 recommendations (4 dropped due to invalid related_insight_ids)"),
    ],
)
def test_the_live_message_counts_drops_when_there_are_any(
    kept: int, dropped: int, message: str
) -> None:
    assert outcome_message(kept, dropped) == message
