"""A discovery over two DuckDB files and a cube server: phases 2 to 5 work across datasources."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.embeddings.hashing import HashingEmbedder
from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.discovery import DiscoveryDeps, discover
from pipeline.errors import BadRequest, EmptyWarehouse, WarehouseUnavailable
from pipeline.packs import load_pack, new_project, validate_pack
from pipeline.ports import ChatRequest
from pipeline.prompting import read_block, read_json_block
from pipeline.records import (
    DiscoveryRun,
    KeyColumn,
    KeyPair,
    Project,
    RunStepType,
    RunType,
    Status,
    StepAction,
    WarehouseConfig,
)
from pipeline.schema.cache import CatalogCore
from pipeline.settings import Settings, WarehouseSettings
from pipeline.sql.healing import Healer
from pipeline.step_index import StepIndexCore
from pipeline.testing import Scripted, ScriptedModel
from pipeline.validation.agents import LocalAgents
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools
from tests.pipeline.discovery.conftest import NOW, Desk, analyse, recommend, role_of
from tests.servers.shop import Shop, open_shop

BY_STATUS: dict[str, Any] = {"measures": ["orders.count"], "dimensions": ["orders.status"]}
TOTAL: dict[str, Any] = {"measures": ["orders.count"]}
DECLARED = KeyPair(
    left=KeyColumn(datasource_id="shop", table="main.customers", column="name"),
    right=KeyColumn(datasource_id="sales", table="orders", column="orders.status"),
    rejected=True,
    note="names are no statuses",
)


def explore(request: ChatRequest) -> Scripted:
    """Asks the cube thrice the same and the primary once, then says that it is done."""
    turn = sum(1 for m in request.messages if m.role == "assistant")
    cube = {"query": BY_STATUS, "query_purpose": "trend of orders", "datasource_id": "sales"}
    asked: list[dict[str, Any]] = [
        cube,
        {"query": "SELECT count(*) AS n FROM customers", "datasource_id": "shop"},
        {"done": True, "summary": "too early"},
        cube,
        cube,
        cube,
    ]
    return asked[turn] if turn < len(asked) else {"done": True, "summary": "all asked"}


def judge(request: ChatRequest) -> Scripted:
    """Asks the cube for the total in two ways, then supports the headline with the row."""
    answers = [m for m in request.messages if m.role == "assistant"]
    asked: list[Any] = [TOTAL, json.dumps(TOTAL | {"segments": ["orders.large"]})]
    if len(answers) < len(asked):
        return {"query_warehouse": asked[len(answers)]}
    result = read_json_block(request.messages[-1].content, "tool_result")
    claim = read_json_block(request.messages[0].content, "bundle")["doc"]["headline"]
    evidence = {"kind": "warehouse_query", "query_sql": result["sql"], "row": result["rows"][0]}
    verdict = {"claim_text": claim, "is_headline": True, "status": "supported"}
    return {
        "submit_verdict": {
            "claims_considered": [claim],
            "claim_verdicts": [verdict | {"evidence": evidence}],
            "overall": "supported",
        }
    }


ROLES: dict[str, Callable[[ChatRequest], Scripted]] = {
    "explorer": explore,
    "analyst": analyse,
    "recommender": recommend,
    "verifier": judge,
    "refuter": judge,
}


@dataclass
class World:
    """The shop as a project, and everything that one run of it works with."""

    shop: Shop
    project: Project
    desk: Desk = field(default_factory=Desk)
    roles: dict[str, Callable[[ChatRequest], Scripted]] = field(default_factory=lambda: {**ROLES})
    model: ScriptedModel = field(init=False)
    deps: DiscoveryDeps = field(init=False)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(lambda request: self.roles[role_of(request)](request))
        settings, warehouses = Settings(), self.shop.warehouses
        catalog = CatalogCore(warehouses, HashingEmbedder())
        self.deps = DiscoveryDeps(
            settings=settings,
            model=self.model,
            warehouses=warehouses,
            catalog=catalog,
            index=StepIndexCore(HashingEmbedder()),
            findings=self.desk,
            journal=self.desk,
            memory=self.desk,
            archive=self.desk,
            clock=lambda: NOW,
        )
        rows = StepSnapshot(self.deps.steps, self.deps.results)
        healers = {name: Healer(self.model, each, catalog) for name, each in warehouses.items()}
        tools = WarehouseTools(healers, rows, catalog, settings.validation)
        self.deps.agents = LocalAgents(self.model, tools, settings.validation)

    def run(self) -> DiscoveryRun:
        return DiscoveryRun(
            id="run-1",
            project_id=self.project.id,
            started_at=NOW,
            max_steps=12,
            areas=["trends"],
        )

    def requests(self, role: str) -> list[ChatRequest]:
        return [request for request in self.model.requests if role_of(request) == role]

    @property
    def problems(self) -> list[str]:
        """What the live feed says went wrong."""
        return [row.error for row in self.desk.rows if row.type is RunStepType.ERROR]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_shop(tmp_path) as shop:
        pack = load_pack("general")
        yield World(shop, new_project("Shop", pack, shop.configs, key_pairs=[DECLARED]))


async def test_claims_on_rows_of_a_cube_are_verified_there_in_its_language(world: World) -> None:
    result = await discover(world.run(), world.project, world.deps)
    [insight] = result.insights
    assert insight.validation
    assert insight.validation.combined is Status.SUPPORTED
    assert insight.validation.verifier
    [claim] = insight.validation.verifier.claim_verdicts
    assert json.loads(claim.evidence.query_sql) == TOTAL | {"segments": ["orders.large"]}
    assert claim.evidence.provenance
    assert claim.evidence.provenance.attested
    opening = world.requests("verifier")[0]
    warehouse = read_json_block(opening.messages[0].content, "bundle")["warehouse"]
    assert (warehouse["datasource_id"], warehouse["query_language"]) == (
        "sales",
        "Cube JSON query",
    )
    assert "# The datasource is a cube" in opening.system
    assert result.summary.errors == []


async def test_the_novelty_rule_is_armed_by_the_cube_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await discover(world.run(), world.project, world.deps)
    actions = [step.action for step in world.desk.exploration]
    assert actions[2] is StepAction.COMPLETE_REJECTED
    assert actions[-1] is StepAction.COMPLETE
    assert world.desk.exploration[2].reject_reason.startswith("productive")
    assert "datasources shop (entities), crm (entities), sales (cube)" in caplog.text
    assert "judged by the floor and the novelty rule" in caplog.text


async def test_catalog_contract_and_measured_keys_reach_the_explorer(world: World) -> None:
    await discover(world.run(), world.project, world.deps)
    request = world.requests("explorer")[0]
    catalog = read_block(request.system, "catalog") or ""
    assert "datasource sales | Cube JSON query | 2 cubes and views" in catalog
    opening = request.messages[0].content
    forbidden = read_block(opening, "never_join") or ""
    assert forbidden.splitlines() == [
        "shop: main.customers.name and sales: orders.status: declared never to be joined "
        "(names are no statuses)",
        "shop: main.products.product_id and crm: main.contacts.product_id: 0 of 50 values of the "
        "first exist in the second, 0 of 50 the other way",
    ]
    assert '"get_correlations"' in opening


async def test_a_broken_secondary_is_left_out_with_a_warning(world: World) -> None:
    world.shop.server.token = "another one"
    world.deps.left_out = {"finance": "there is no such file"}
    world.roles["explorer"] = lambda request: (
        {"query": "SELECT count(*) AS n FROM customers", "query_purpose": "trend"}
        if len(request.messages) == 1
        else {"done": True}
    )
    world.roles["verifier"] = world.roles["refuter"] = lambda _: {"submit_verdict": {}}
    result = await discover(world.run(), world.project, world.deps)
    finance, sales = result.summary.errors
    assert finance == "datasource 'finance' is left out: there is no such file"
    assert sales.startswith("datasource 'sales' is left out: the Cube API of datasource 'sales'")
    assert "refuses the token (Invalid token)" in sales
    assert world.problems == [finance, sales]
    assert result.failure == ""
    request = world.requests("explorer")[0]
    assert "sales" not in request.messages[0].content
    assert "datasource sales" not in request.system
    assert [step.action for step in world.desk.exploration][-1] is StepAction.COMPLETE


async def test_a_broken_primary_fails_the_run(world: World, tmp_path: Path) -> None:
    await world.shop.warehouses["shop"].close()
    with pytest.raises(WarehouseUnavailable):
        await discover(world.run(), world.project, world.deps)


async def test_a_cube_alone_is_no_discovery(world: World) -> None:
    sales = next(c for c in world.shop.configs if c.provider == "cube")
    cube = open_warehouse(sales, WarehouseSettings())
    world.deps.warehouses = {"sales": cube}
    with pytest.raises(BadRequest, match="no datasource of the project can anchor a run"):
        await discover(world.run(), world.project, world.deps)
    world.deps.warehouses = {"sales": cube, "shop": world.shop.warehouses["shop"]}
    with pytest.raises(BadRequest, match="'sales' is a cube and cannot anchor a run"):
        await discover(world.run(), world.project, world.deps)
    await cube.close()


# ---------------------------------------------------------------- packs of datasources

CRM_PACK: dict[str, Any] = {
    "pack": {
        "slug": "crm-pack",
        "name": "CRM",
        "categories": [{"id": "b2b", "name": "B2B"}, {"id": "b2c", "name": "B2C"}],
        "prompts": {
            "base": {
                "base_context": "{{PROFILE}}",
                "exploration": "Contacts of {{DATASET}} in {{DIALECT}}, {{REF:contacts}}: "
                "{{SCHEMA_INFO}} {{ANALYSIS_AREAS}}",
                "recommendations": "{{INSIGHTS_DATA}}",
            },
            "categories": {"b2c": {"exploration_context": "They are people."}},
        },
        "analysis_areas": {
            "base": [
                {
                    "id": id_,
                    "name": id_.title(),
                    "keywords": ["trend"],
                    "prompt": f"{id_} of {{{{DATASET}}}}: {{{{QUERY_RESULTS}}}}",
                }
                for id_ in ("contacts", "trends")
            ]
        },
    }
}


def packed(world: World) -> None:
    """The CRM and the cube get packs of their own, the CRM a profile too."""
    shop, crm, sales = world.shop.configs
    crm = crm.model_copy(update={"category": "b2c", "profile": {"since": "<2019>"}})
    packs = {"crm": validate_pack(CRM_PACK), "sales": load_pack("measures")}
    world.project = new_project("Shop", load_pack("general"), [shop, crm, sales], packs=packs)
    world.project.validation_enabled = False
    world.roles["explorer"] = lambda request: (
        {"query": "SELECT count(*) AS n FROM customers", "query_purpose": "trend of mix"}
        if len(request.messages) == 1
        else {"done": True}
    )


def asked_areas(world: World) -> list[dict[str, Any]]:
    requests = world.requests("analyst")
    return [read_json_block(request.messages[0].content, "area") for request in requests]


async def test_a_pack_of_a_datasource_takes_part_in_the_run(world: World) -> None:
    packed(world)
    run = world.run().model_copy(update={"areas": []})
    result = await discover(run, world.project, world.deps)
    system = world.requests("explorer")[0].system
    areas = [line.split(" ")[1] for line in (read_block(system, "areas") or "").splitlines()]
    assert areas == [
        *("trends", "contacts", "crm_trends", "segments", "anomalies", "data_quality"),
        *("measure_movement", "measure_mix"),
    ]
    _, _, crm = system.partition("# The datasource crm")
    assert 'Contacts of all datasets of crm in duckdb, "contacts": (in the block `catalog`' in crm
    assert "(in the block `areas`: contacts, crm_trends)" in crm
    assert crm.index("They are people.") < crm.index("# The datasource sales")
    assert system.count("<catalog>") == 1
    for role in ("explorer", "analyst", "recommender"):
        for request in world.requests(role):
            assert r'"since": "\u003c2019\u003e"' in request.system
    analysed = {area["id"]: area.get("datasource_id", "") for area in asked_areas(world)}
    assert {"trends": "", "contacts": "crm", "measure_mix": "sales"}.items() <= analysed.items()
    told = [request.messages[0].content for request in world.requests("analyst")]
    assert sum("contacts of all datasets of crm:" in text for text in told) == 1
    assert "crm_trends-1" in {insight.ref for insight in result.insights}
    assert result.run_type is RunType.FULL


async def test_areas_of_a_datasource_can_be_selected(world: World) -> None:
    packed(world)
    run = world.run().model_copy(update={"areas": ["crm_trends"]})
    await discover(run, world.project, world.deps)
    assert [area["id"] for area in asked_areas(world)] == ["crm_trends"]


async def test_what_belongs_to_a_broken_datasource_leaves_with_it(world: World) -> None:
    packed(world)
    await world.shop.warehouses["crm"].close()
    result = await discover(world.run().model_copy(update={"areas": []}), world.project, world.deps)
    system = world.requests("explorer")[0].system
    assert "# The datasource crm" not in system
    assert "2019" not in system
    assert "contacts" not in (read_block(system, "areas") or "")
    assert result.run_type is RunType.PARTIAL
    assert result.summary.errors[0].startswith("datasource 'crm' is left out")


async def test_a_run_of_areas_that_nothing_is_left_of_says_why(world: World) -> None:
    packed(world)
    world.deps.left_out = {"crm": "gone"}
    run = world.run().model_copy(update={"areas": ["contacts"]})
    with pytest.raises(BadRequest, match="belongs to a datasource that cannot be read: crm"):
        await discover(run, world.project, world.deps)


@pytest.mark.parametrize("primary", [False, True])
async def test_a_datasource_without_tables_is_left_out_unless_it_is_the_primary(
    world: World, tmp_path: Path, primary: bool
) -> None:
    duckdb.connect(str(tmp_path / "empty.duckdb")).close()
    config = WarehouseConfig(id="empty", config={"path": str(tmp_path / "empty.duckdb")})
    opened, others = open_warehouse(config, WarehouseSettings()), world.shop.warehouses
    both: dict[str, OpenWarehouse] = {"empty": opened}
    world.deps.warehouses = both | others if primary else others | both
    world.deps.catalog = CatalogCore(world.deps.warehouses, HashingEmbedder())
    running = discover(world.run(), world.project, world.deps)
    if primary:
        with pytest.raises(EmptyWarehouse, match="primary datasource 'empty' has no table"):
            await running
    else:
        assert "'empty' is left out: it has no table" in (await running).summary.errors[0]
    await opened.close()


@pytest.mark.parametrize(
    ("query", "source", "advice"),
    [
        ("SELECT 1", "nope", "no datasource 'nope'; the ids are: shop, crm, sales"),
        ("SELECT * FROM contacts", "shop", "not in datasource 'shop' but in crm: main.contacts"),
        ("SELECT * FROM main.contacts", "", "pass the values you need into the other query as a"),
        ("SELECT * FROM crm.contacts", "shop", "but in crm: main.contacts"),
        ("SELECT * FROM crm.main.contacts", "shop", "but in crm: main.contacts"),
        ("SELECT 1 FROM customers, orders", "shop", "but in sales: orders"),
        ("SELECT * FROM customers", "crm", "but in shop: main.customers"),
    ],
)
async def test_another_source_s_table_is_answered_with_advice(
    world: World, query: str, source: str, advice: str
) -> None:
    asked = {"query": query, "datasource_id": source} if source else {"query": query}
    world.roles["explorer"] = lambda request: (
        asked if len(request.messages) == 1 else {"done": True}
    )
    await discover(world.run(), world.project, world.deps)
    assert advice in world.desk.exploration[0].error
    assert world.desk.exploration[0].fix_attempts == 0
    told = read_json_block(world.requests("explorer")[1].messages[-1].content, "step_result")
    assert advice in told["error"]


async def test_a_demoted_warehouse_cannot_be_the_primary(world: World) -> None:
    demoted = WarehouseConfig(id="shop", anchors=False, config=world.shop.configs[0].config)
    opened = open_warehouse(demoted, WarehouseSettings())
    world.deps.warehouses = {"shop": opened}
    with pytest.raises(BadRequest, match="'shop' was set not to anchor a run"):
        await discover(world.run(), world.project, world.deps)
    await opened.close()
