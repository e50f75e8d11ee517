"""VerifierAgent and RefuterAgent as actors: pooled, replaced when lost, reading shared rows."""

import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from actors.cluster import Cluster
from actors.llm import ModelClient
from actors.remote import actor, kill
from actors.validators import AgentLost, AgentPool, agent_maker
from actors.warehouse import start_warehouse
from pipeline.ports import ChatReply, ChatRequest, ModelInfo, QueryResult
from pipeline.records import AgentMode, DocKind, SchemaLookup, WarehouseConfig
from pipeline.settings import ValidationSettings, WarehouseSettings
from pipeline.testing import ScriptedModel
from pipeline.validation.bundle import Bundle, BundleDoc, BundleWarehouse

pytestmark = pytest.mark.usefixtures("cluster")
SETTINGS = ValidationSettings()
HEADLINE = "Altona has 3600 orders"
BUNDLE = Bundle(
    doc=BundleDoc(id="d1", kind=DocKind.INSIGHT, headline=HEADLINE),
    warehouse=BundleWarehouse(datasource_id="default", dialect="duckdb"),
)
READ = {"read_step_rows": {"step_id": 1, "offset": 0, "limit": 5}}


def verdict(row: Mapping[str, Any]) -> dict[str, Any]:
    evidence = {"kind": "step_row", "step_id": 1, "row": row}
    claim = {
        "claim_text": HEADLINE,
        "is_headline": True,
        "status": "supported",
        "evidence": evidence,
    }
    return {
        "submit_verdict": {
            "claims_considered": [HEADLINE],
            "claim_verdicts": [claim],
            "overall": "supported",
        }
    }


class ScriptShell:
    """A scripted model in an actor of its own."""

    def __init__(self, replies: list[dict[str, Any]]) -> None:
        self._model = ScriptedModel(replies)

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await self._model.chat(request)


class FatalModel:
    """A model whose every call ends the calling process."""

    info = ModelInfo("scripted", "fatal")

    async def chat(self, request: ChatRequest) -> ChatReply:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


class NoCatalog:
    async def tables(self) -> list[Any]:
        return []

    async def lookup(self, tables: Any, datasource_id: str = "") -> SchemaLookup:
        return SchemaLookup()

    async def search(self, text: str, k: int) -> list[Any]:
        return []


def scripted(*replies: dict[str, Any]) -> ModelClient:
    handle = actor(ScriptShell, concurrency=4).remote(list(replies))
    return ModelClient(handle, ModelInfo("scripted", "scripted"))


async def pool_for(
    model: Any, shop: WarehouseConfig, *, slots: int = 1
) -> tuple[AgentPool, list[AgentMode]]:
    """A pool over the shop with step 1 run, and a list of the agents that were made."""
    warehouse = await start_warehouse(shop, WarehouseSettings())
    step = await warehouse.query("select shop_id, count(*) as n from orders group by 1 order by 1")
    results: dict[int, QueryResult] = {1: step}
    make = agent_maker(model, {"default": warehouse}, NoCatalog(), SETTINGS)
    made: list[AgentMode] = []

    def counted(mode: AgentMode) -> Any:
        made.append(mode)
        return make(mode)

    return AgentPool(counted, slots, results), made


async def test_an_agent_reads_the_rows_of_a_step_that_the_run_shares(shop: WarehouseConfig) -> None:
    pool, _ = await pool_for(scripted(READ, verdict({"shop_id": 1, "n": 3600})), shop)
    found = await pool.verify(BUNDLE)
    assert found.overall == "supported"
    assert found.stats.step_reads_used == 1
    provenance = found.claim_verdicts[0].evidence.provenance
    assert provenance is not None
    assert provenance.attested


async def test_a_row_that_nobody_returned_is_caught_across_processes(shop: WarehouseConfig) -> None:
    pool, _ = await pool_for(scripted(READ, verdict({"shop_id": 1, "n": 3700})), shop)
    found = await pool.verify(BUNDLE)
    assert found.overall == "partial"
    assert "evidence row was not returned by any tool" in found.overall_reason


async def test_an_agent_serves_one_document_after_the_other(shop: WarehouseConfig) -> None:
    rounds = [READ, verdict({"shop_id": 1, "n": 3600})]
    pool, made = await pool_for(scripted(*rounds, *rounds, *rounds), shop)
    for _ in range(3):
        assert (await pool.verify(BUNDLE)).overall == "supported"
    assert made == [AgentMode.VERIFIER]


async def test_an_agent_that_dies_is_lost_and_its_slot_is_filled_again(
    shop: WarehouseConfig,
) -> None:
    pool, made = await pool_for(FatalModel(), shop)
    for _ in range(2):
        with pytest.raises(AgentLost, match="verifier was lost"):
            await pool.verify(BUNDLE)
    assert made == [AgentMode.VERIFIER, AgentMode.VERIFIER]


async def test_a_lost_model_is_a_reason_in_the_verdict(shop: WarehouseConfig) -> None:
    model = scripted()
    kill(model.handle)
    pool, _ = await pool_for(model, shop)
    found = await pool.refute(BUNDLE)
    assert found.overall == "unverifiable"
    assert found.overall_reason.startswith("chat failed: the model's actor was lost")


def test_the_cluster_is_this_process_own(cluster: Cluster) -> None:
    assert cluster.owned
    assert cluster.dashboard_url.startswith("http://127.0.0.1:")
