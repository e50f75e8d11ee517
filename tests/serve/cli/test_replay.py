"""``validation replay`` over a real store and a real warehouse."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from adapters.store import embedded
from adapters.store.store import Store
from pipeline.records import DiscoveryResult, Insight, Recommendation, Status, ValidationResult
from tests.serve.cli.shop import Shop, build_shop, veridical
from tests.servers.model_server import Answer, model_server


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Shop, DiscoveryResult]]:
    """One store for all tests of this file, and the discovery as it was at first."""
    folder = tmp_path_factory.mktemp("replay")
    lease = embedded.acquire(folder / "home")
    try:
        shop = asyncio.run(build_shop(folder))
        yield shop, shop.discovery()
    finally:
        lease.release()
        assert embedded.settled(folder / "home", timeout=60)


@pytest.fixture
def shop(built: tuple[Shop, DiscoveryResult], monkeypatch: pytest.MonkeyPatch) -> Generator[Shop]:
    """The shop; what a test changes in the discovery is undone."""
    shop, first = built
    monkeypatch.setenv("VERIDICAL_HOME", str(shop.home))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    yield shop
    shop.keep(first)


def spoiled(shop: Shop) -> Insight:
    """The insight with the most figures, made false while its stored verdict says confirmed."""
    result = shop.discovery()
    insight = next(
        i for i in result.insights if i.validation and i.validation.combined == "confirmed"
    )
    insight.name = re.sub(r"\d[\d.]*", lambda m: str(float(m[0]) * 2 + 7), insight.name, count=1)
    shop.keep(result)
    return insight


def replayed(*words: object) -> list[dict[str, Any]]:
    done = veridical("validation", "replay", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["replayed"]


def test_every_document_is_judged_again_and_verdicts_repeat(shop: Shop) -> None:
    done = veridical("validation", "replay", "--discovery", shop.discovery_id, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    stored = {i.id: i.validation for i in shop.discovery().insights}
    assert document["model"] == {"provider": "offline", "model": "offline-analyst"}
    assert document["saved"] is False
    assert {each["id"] for each in document["replayed"]} == set(stored)
    assert [each["changes"] for each in document["replayed"]] == [[] for _ in stored]
    assert "no Ray, no exploration" in done.stderr
    assert f"{len(stored)}/{len(stored)}" in done.stderr


def test_what_changed_is_shown_side_by_side(shop: Shop) -> None:
    false = spoiled(shop)
    done = veridical("validation", "replay", "--insight", false.ref, "--concurrency", 3)
    assert done.exit_code == 0, done.output
    assert "confirmed → rejected" in done.stdout
    assert "What changed" in done.stdout
    assert re.search(rf"{false.ref} +verifier claim: ", done.stdout)
    assert "1 of 1 document came out differently. Nothing was saved" in done.stdout
    assert shop.discovery().insights != []
    (kept,) = (i.validation for i in shop.discovery().insights if i.id == false.id)
    assert kept
    assert kept.combined is Status.CONFIRMED


@pytest.mark.parametrize("form", ["ref", "id", "start"])
def test_an_insight_is_picked_by_ref_id_or_the_start_of_its_id(shop: Shop, form: str) -> None:
    insight = shop.discovery().insights[1]
    key = {"ref": insight.ref, "id": insight.id, "start": insight.id[:13]}[form]
    (only,) = replayed("--discovery", shop.discovery_id[:8], "--insight", key)
    assert (only["id"], only["ref"]) == (insight.id, insight.ref)


def test_save_stamps_the_judged_document_alone_and_adds_a_log_row(shop: Shop) -> None:
    false = spoiled(shop)
    before = shop.discovery()
    (only,) = replayed("--insight", false.id, "--save", "--project", "Shop")
    after = shop.discovery()
    assert only["after"]["combined"] == "rejected"
    for was, now in zip(before.insights, after.insights, strict=True):
        if now.id == false.id:
            assert now.validation
            assert now.validation.combined is Status.REJECTED
            assert now.affected_count == was.affected_count
        else:
            assert now == was

    async def rows(store: Store) -> list[ValidationResult]:
        return list(await store.validation_results.of(shop.discovery_id))

    row = shop.with_store(rows)[-1]
    assert (row.insight_id, row.combined) == (false.id, Status.REJECTED)
    assert (row.discovery_id, row.project_id) == (shop.discovery_id, shop.project_id)


def test_a_recommendation_is_judged_by_the_steps_of_its_insights(shop: Shop) -> None:
    result = shop.discovery()
    advice = Recommendation(
        id="5d3703b7-aaaa", title="Look north", related_insight_ids=[result.insights[0].id]
    )
    result.recommendations.append(advice)
    shop.keep(result)
    (only,) = replayed("--recommendation", "5d3703b7", "--save")
    assert (only["kind"], only["before"]) == ("recommendation", None)
    (kept,) = shop.discovery().recommendations
    assert kept.validation
    assert kept.validation.combined == only["after"]["combined"]


def test_a_model_that_fails_is_no_verdict_to_save(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shop.discovery().insights[0]
    with model_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("LLM_RETRY_MAX_ATTEMPTS", "1")
        server.play(*[Answer(status=400, body={"error": {"message": "bad prompt"}})] * 9)
        (only,) = replayed("--insight", first.ref, "--model", "openai:test-model", "--save")
        assert server.chats[0].body["model"] == "test-model"
    assert "bad prompt" in only["breakdown"]
    assert shop.discovery().insights[0] == first


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--discovery", "nope"), 2, "no discovery 'nope'"),
        (("--project", "Nobody"), 2, "no project 'Nobody'"),
        (("--insight", "nope-1"), 2, "no insight 'nope-1'"),
        (("--recommendation", "nope"), 2, "no recommendation 'nope'"),
        (("--model", "acme:big"), 2, "'acme'"),
        (("--model", ":big"), 2, "names no provider"),
        (("--concurrency", "0"), 2, "--concurrency"),
        (("--model", "anthropic"), 3, "ANTHROPIC_API_KEY"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    shop: Shop, words: tuple[str, ...], status: int, said: str
) -> None:
    done = veridical("validation", "replay", *words)
    assert (done.exit_code, done.stdout) == (status, "")
    assert said in done.stderr


def test_a_warehouse_that_is_gone_is_the_environments_fault(shop: Shop, tmp_path: Path) -> None:
    elsewhere = shop.warehouse.rename(tmp_path / "moved.duckdb")
    try:
        done = veridical("validation", "replay", "--json")
    finally:
        elsewhere.rename(shop.warehouse)
    assert done.exit_code == 3
    assert "shop.duckdb" in json.loads(done.stdout)["error"]


def test_a_bench_takes_a_project_for_a_warehouse(shop: Shop, tmp_path: Path) -> None:
    claim = {"claim": "The moon is made of cheese.", "label": "not-enough-info"}
    (tmp_path / "claims.jsonl").write_text(json.dumps(claim))
    done = veridical(
        "bench", "claims", "--claims", tmp_path / "claims.jsonl", "--warehouse", "Shop", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["accuracy"] == 1.0
