"""Insights and SQL that others wrote: thousands marks, months by name, joins, sums, CTEs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.records import AgentMode, DocKind
from pipeline.sql.rows import rows_of
from pipeline.validation.bundle import Bundle, BundleDoc, BundleStep, described
from tests.adapters.llm.offline.conftest import judged, opened, tools_over

STEPS = {
    1: "SELECT carrier, COUNT(*) AS flights, AVG(arr_delay) AS avg_arr_delay FROM flights"
    " GROUP BY carrier ORDER BY flights DESC",
    2: "SELECT month, COUNT(*) AS n, ROUND(AVG(dep_delay), 1) AS avg_delay FROM main.flights"
    " GROUP BY 1 ORDER BY 1",
    3: "WITH x AS (SELECT origin, dep_delay FROM flights WHERE dep_delay IS NOT NULL)"
    " SELECT origin, COUNT(*) AS flights, COUNT(*) FILTER (WHERE dep_delay > 15) AS late FROM x"
    " GROUP BY origin ORDER BY late DESC",
    4: "SELECT COUNT(*) AS total, COUNT(dep_time) AS departed,"
    " COUNT(*) - COUNT(dep_time) AS cancelled FROM flights",
    5: "SELECT date_trunc('month', time_hour) AS m, COUNT(*) AS n FROM flights GROUP BY ALL"
    " ORDER BY m",
    6: "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC",
    8: "SELECT a.name, COUNT(*) AS flights FROM flights f JOIN airlines a ON f.carrier = a.carrier"
    " GROUP BY a.name ORDER BY flights DESC LIMIT 5",
}
FIRST = "United (UA) operates more flights than any other carrier"
CASES: list[tuple[bool, int, str, str, int]] = [
    (True, 1, FIRST, "UA flew 58,665 flights, ahead of B6 with 54,635 and EV with 54,173.", 58665),
    (False, 1, FIRST, "UA flew 61,665 flights, ahead of B6 with 54,635.", 58665),
    (False, 1, "B6 operates the most flights", "B6 flew 54,635 flights.", 54635),
    (True, 1, "F9 has the highest average arrival delay at 21.9 minutes", "", 685),
    (False, 1, "F9 has the highest average arrival delay at 28.9 minutes", "", 685),
    (True, 1, "UA and B6 together carried 113300 flights", "UA had 58665, B6 had 54635.", 113300),
    (False, 1, "UA and B6 together carried 123300 flights", "UA had 58665, B6 had 54635.", 0),
    (True, 2, "Delays peak in July at 21.7 minutes", "Month 11 is lowest at 5.4.", 29425),
    (False, 2, "Delays peak in December", "Month 12 has the highest average delay: 16.6.", 28135),
    (True, 3, "EWR has the most late departures: 28,942", "", 0),
    (False, 3, "EWR has the most late departures: 31,942", "", 0),
    (True, 4, "8255 flights were cancelled, 2.5% of all", "Of 336776, 328521 departed.", 8255),
    (False, 4, "8255 flights were cancelled, 4.5% of all", "", 8255),
    (False, 4, "8255 flights were cancelled, 2.5% of all", "", 9255),
    (True, 5, "July 2013 was the busiest month", "", 0),
    (True, 6, "ORD leads with 17283 flights", "There are 105 destinations in total.", 17283),
    (False, 6, "ORD leads with 17283 flights", "There are 155 destinations in total.", 17283),
    (
        True,
        8,
        "United Air Lines Inc. leads with 58665 flights",
        "JetBlue Airways has 54635.",
        58665,
    ),
    (False, 8, "United Air Lines Inc. leads with 59665 flights", "", 58665),
]


async def bundle_for(path: Path, step: int, name: str, text: str, count: int) -> Bundle:
    async with opened(path) as warehouse:
        result = await warehouse.query(STEPS[step])
        rows = rows_of(result.table, 0, 50)
        shown = BundleStep(
            step_id=step,
            sql=STEPS[step],
            columns=result.table.column_names,
            sample_rows=rows,
            original_rows=rows,
            full_row_count=result.row_count,
            truncated=result.row_count > len(rows),
        )
        fields: dict[str, Any] = {"headline": name, "description": text, "affected_count": count}
        doc = BundleDoc(id="x", kind=DocKind.INSIGHT, source_steps=[step], **fields)
        return Bundle(doc=doc, source_steps=[shown], warehouse=described(warehouse.info))


@pytest.mark.parametrize(("true", "step", "name", "text", "count"), CASES)
async def test_a_true_insight_holds_and_a_false_one_is_rejected(
    demo_file: Path, true: bool, step: int, name: str, text: str, count: int
) -> None:
    bundle = await bundle_for(demo_file, step, name, text, count)
    async with tools_over(demo_file) as tools:
        verifier = await judged(bundle, AgentMode.VERIFIER, tools)
        attacked = bundle.model_copy(update={"prior_claims": verifier.claims_considered})
        refuter = await judged(attacked, AgentMode.REFUTER, tools)
    overalls = (verifier.overall, refuter.overall)
    if true:
        assert verifier.overall in {"confirmed", "supported"}, verifier.overall_reason
        assert refuter.overall == "supported", refuter.overall_reason
    else:
        assert overalls == ("rejected", "rejected")
