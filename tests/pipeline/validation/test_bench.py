"""The measuring stick: reading claims, mapping, scores, and going on after a stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import BadRequest
from pipeline.ports import WarehouseInfo
from pipeline.records import Status, StructuredVerdict, VerdictStats
from pipeline.validation.bench import (
    PREDICTED,
    ClaimResult,
    Label,
    LabelledClaim,
    ResultsFile,
    claim_bundle,
    read_claims,
    report,
    run_bench,
)
from pipeline.validation.bundle import Bundle, BundleDiscovery
from pipeline.validation.policy import ConcurrentValidation

DISCOVERY = BundleDiscovery(project_id="bench", language="English")
WAREHOUSES = {
    "default": WarehouseInfo(id="default", dialect="duckdb", datasets=("main",)),
    "other": WarehouseInfo(id="other", dialect="postgres", datasets=("public",)),
}
E, C, N = Label.ENTAILED, Label.CONTRADICTED, Label.NOT_ENOUGH


def test_claims_are_read_line_by_line() -> None:
    lines = [
        '{"claim": " There are 5 tables. ", "label": "entailed"}\n',
        "\n",
        '{"id": "q7", "claim": "x", "label": "CONTRADICTED", "database": "other", "source": "me"}',
        '{"claim": "y", "label": "not_enough_info"}',
        '{"claim": "z", "label": "not enough info"}',
    ]
    assert read_claims(lines) == [
        LabelledClaim(id="1", claim="There are 5 tables.", label=E),
        LabelledClaim(id="q7", claim="x", label=C, database="other"),
        LabelledClaim(id="4", claim="y", label=N),
        LabelledClaim(id="5", claim="z", label=N),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 1: not valid JSON"),
        ("[1]", "line 1: expected a JSON object"),
        ('{"label": "entailed"}', "line 1: the field claim is missing"),
        ('{"claim": "x"}', "line 1: the label None is none of entailed, contradicted"),
        ('{"claim": "x", "label": "true"}', "line 1: the label 'true' is none of"),
        ("", "holds no claims"),
    ],
)
def test_a_bad_line_is_named(line: str, why: str) -> None:
    with pytest.raises(BadRequest, match=r"f\.jsonl") as caught:
        read_claims([line], "f.jsonl")
    assert why in str(caught.value)


def test_an_id_may_occur_once_only() -> None:
    with pytest.raises(BadRequest, match="line 2: the id '2' occurs twice"):
        read_claims(
            ['{"id": 2, "claim": "x", "label": "entailed"}', '{"claim": "y", "label": "entailed"}']
        )


def test_a_claims_bundle_has_no_steps_and_its_own_database() -> None:
    claim = LabelledClaim(id="1", claim="There are 5 tables.", label=E)
    bundle = claim_bundle(claim, WAREHOUSES, DISCOVERY)
    assert (bundle.doc.headline, bundle.source_steps) == ("There are 5 tables.", [])
    assert bundle.warehouse.datasource_id == "default"
    elsewhere = claim.model_copy(update={"database": "other"})
    assert claim_bundle(elsewhere, WAREHOUSES, DISCOVERY).warehouse.dialect == "postgres"
    with pytest.raises(BadRequest, match="'nowhere'; known: default, other"):
        claim_bundle(claim.model_copy(update={"database": "nowhere"}), WAREHOUSES, DISCOVERY)


def test_the_mapping_of_statuses() -> None:
    assert PREDICTED == {
        Status.CONFIRMED: E,
        Status.SUPPORTED: E,
        Status.REJECTED: C,
        Status.UNVERIFIABLE: N,
        Status.PARTIAL: N,
    }


def result(
    number: int,
    label: Label,
    combined: Status,
    *,
    queries: int = 0,
    tokens_in: int = 0,
    tokens_out: int = 0,
) -> ClaimResult:
    return ClaimResult(
        id=str(number),
        claim=f"claim {number}",
        label=label,
        predicted=PREDICTED[combined],
        combined=combined,
        queries=queries,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )


def test_scores_by_hand() -> None:
    results = [
        result(1, E, Status.CONFIRMED, queries=1, tokens_in=90, tokens_out=10),
        result(2, E, Status.SUPPORTED, queries=3, tokens_in=180, tokens_out=20),
        result(3, E, Status.PARTIAL),
        result(4, C, Status.REJECTED),
        result(5, C, Status.SUPPORTED),
        result(6, N, Status.UNVERIFIABLE),
    ]
    scored = report(results)
    assert scored.accuracy == 0.6667
    assert scored.confusion == {
        "entailed": {"entailed": 2, "contradicted": 0, "not-enough-info": 1},
        "contradicted": {"entailed": 1, "contradicted": 1, "not-enough-info": 0},
        "not-enough-info": {"entailed": 0, "contradicted": 0, "not-enough-info": 1},
    }
    assert [s.f1 for s in scored.classes.values()] == [0.6667, 0.6667, 0.6667]
    assert scored.macro_f1 == 0.6667
    assert scored.classes["contradicted"].precision == 1.0
    assert scored.classes["contradicted"].recall == 0.5
    assert scored.statuses["entailed"] == {
        "confirmed": 1,
        "supported": 1,
        "rejected": 0,
        "partial": 1,
        "unverifiable": 0,
    }
    assert (scored.queries_per_claim, scored.tokens_per_claim) == (0.6667, 50.0)
    assert [r.id for r in scored.wrong] == ["3", "5"]


def test_a_label_that_never_occurs_does_not_lower_the_macro_score() -> None:
    assert report([result(1, E, Status.CONFIRMED)]).macro_f1 == 1.0
    assert report([]).accuracy == 0.0


class Oracle:
    """Knows the truth of even numbers; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        self.calls.append(bundle.doc.id)
        overall = "confirmed" if int(bundle.doc.id) % 2 == 0 else "rejected"
        stats = VerdictStats(queries_issued=1, llm_tokens_in=50)
        return StructuredVerdict(overall=overall, stats=stats)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        return StructuredVerdict(overall="supported", stats=VerdictStats(queries_issued=2))


def claims_of(count: int) -> list[LabelledClaim]:
    return [
        LabelledClaim(id=str(n), claim=f"claim {n}", label=C if n % 2 else E)
        for n in range(1, count + 1)
    ]


def bundle_of(claim: LabelledClaim) -> Bundle:
    return claim_bundle(claim, WAREHOUSES, DISCOVERY)


async def test_a_bench_goes_on_where_it_stopped(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "out" / "results.jsonl")
    seen: list[tuple[str, int, int]] = []

    async def progress(result: ClaimResult, done: int, total: int) -> None:
        seen.append((result.id, done, total))

    oracle = Oracle()
    await run_bench(claims_of(2), oracle, bundle_of, results=results, progress=progress)
    with (tmp_path / "out" / "results.jsonl").open("a") as file:
        file.write('{"id": "3", "claim": "cut o')
    scored = await run_bench(
        claims_of(4),
        oracle,
        bundle_of,
        results=results,
        progress=progress,
        policy=ConcurrentValidation(2),
    )
    assert sorted(oracle.calls) == ["1", "2", "3", "4"]
    assert seen == [("1", 1, 2), ("2", 2, 2), ("3", 3, 4), ("4", 4, 4)]
    assert (scored.claims, scored.accuracy) == (4, 1.0)
    assert (scored.queries_per_claim, scored.tokens_per_claim) == (3.0, 50.0)
    assert json.loads(scored.model_dump_json())["macro_f1"] == 1.0
    assert set(results.load()) == {"1", "2", "3", "4"}


async def test_a_claim_that_changed_is_judged_again(tmp_path: Path) -> None:
    results, oracle = ResultsFile(tmp_path / "results.jsonl"), Oracle()
    (claim,) = claims_of(1)
    await run_bench([claim], oracle, bundle_of, results=results)
    await run_bench([claim], oracle, bundle_of, results=results)
    assert oracle.calls == ["1"]
    await run_bench([claim.model_copy(update={"label": E})], oracle, bundle_of, results=results)
    assert oracle.calls == ["1", "1"]


async def test_without_a_refuter_only_the_verifier_is_asked() -> None:
    scored = await run_bench(claims_of(2), Oracle(), bundle_of, refuter_disabled=True)
    assert scored.queries_per_claim == 1.0
