"""Facts, section D: the portable form, its rules, and what a project copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.errors import BadRequest, NotFound
from pipeline.packs import (
    effort_steps,
    export_pack,
    load_pack,
    new_project,
    packs_named,
    shipped_packs,
    validate_pack,
)
from pipeline.planning import plan_areas
from pipeline.project_prompts import base_context
from pipeline.records import DomainPack, KeyColumn, KeyPair, ProjectPrompts, WarehouseConfig

Change = Callable[[dict[str, Any]], Any]


def pair(left: str, right: str) -> KeyPair:
    sides = [KeyColumn(datasource_id=side, table="t", column="c") for side in (left, right)]
    return KeyPair(left=sides[0], right=sides[1])


@pytest.fixture
def portable() -> dict[str, Any]:
    return export_pack(load_pack("general"))


def area(pack: dict[str, Any]) -> dict[str, Any]:
    return pack["analysis_areas"]["base"][0]


def base(pack: dict[str, Any]) -> dict[str, Any]:
    return pack["prompts"]["base"]


@pytest.mark.parametrize("slug", shipped_packs())
def test_every_shipped_pack_keeps_the_rules(slug: str) -> None:
    pack = load_pack(slug)
    assert pack.slug == slug
    assert validate_pack(export_pack(pack)) == pack


def test_the_general_pack_has_the_four_areas() -> None:
    areas = load_pack("general").analysis_areas.base
    assert [a.id for a in areas] == ["trends", "segments", "anomalies", "data_quality"]


@pytest.mark.parametrize("slug", ["nope", "../general", "", "general.json", "GENERAL"])
def test_a_pack_that_does_not_exist_is_not_found(slug: str) -> None:
    with pytest.raises(NotFound, match="general"):
        load_pack(slug)


BROKEN: dict[str, tuple[Change, str]] = {
    "slug of one letter": (lambda p: p.update(slug="a"), "slug"),
    "slug in capitals": (lambda p: p.update(slug="Abc"), "slug"),
    "slug that ends in a dash": (lambda p: p.update(slug="abc-"), "slug"),
    "slug with a line break": (lambda p: p.update(slug="abc\n"), "slug"),
    "no name": (lambda p: p.update(name=" "), "name is missing"),
    "no category": (lambda p: p.update(categories=[]), "at least one category"),
    "category without id": (lambda p: p["categories"][0].update(id=""), "needs an id"),
    "category without name": (lambda p: p["categories"][0].update(name=""), "needs an id"),
    "unknown shape": (lambda p: p.update(shape="graph"), "shape"),
    "no base context": (lambda p: base(p).update(base_context=""), "base_context is missing"),
    "no exploration": (lambda p: base(p).pop("exploration"), "exploration"),
    "no recommendations": (lambda p: base(p).update(recommendations=" "), "is missing"),
    "base context without profile": (lambda p: base(p).update(base_context="x"), "{{PROFILE}}"),
    "exploration without dataset": (
        lambda p: base(p).update(exploration="{{SCHEMA_INFO}} {{ANALYSIS_AREAS}}"),
        "must contain {{DATASET}}",
    ),
    "exploration without catalog": (
        lambda p: base(p).update(exploration="{{DATASET}} {{ANALYSIS_AREAS}}"),
        "{{SCHEMA_INFO}}",
    ),
    "exploration without areas": (
        lambda p: base(p).update(exploration="{{DATASET}} {{SCHEMA_INFO}}"),
        "{{ANALYSIS_AREAS}}",
    ),
    "recommendations without insights": (
        lambda p: base(p).update(recommendations="x"),
        "{{INSIGHTS_DATA}}",
    ),
    "no base area": (lambda p: p["analysis_areas"].update(base=[]), "at least one base"),
    "area without id": (lambda p: area(p).update(id=""), "lacks id"),
    "area without name": (lambda p: area(p).update(name=""), "lacks name"),
    "area without keywords": (lambda p: area(p).update(keywords=[" "]), "lacks keywords"),
    "area without prompt": (lambda p: area(p).update(prompt=""), "lacks prompt"),
    "category area without prompt": (
        lambda p: p["analysis_areas"]["categories"].update(any=[{**area(p), "prompt": ""}]),
        "lacks prompt",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_pack_that_breaks_a_rule_is_refused(name: str, portable: dict[str, Any]) -> None:
    change, message = BROKEN[name]
    broken = copy.deepcopy(portable)
    change(broken["pack"])
    with pytest.raises(BadRequest, match=message):
        validate_pack(broken)


@pytest.mark.parametrize(
    "change", [{"format": "other"}, {"format_version": 2}, {"pack": None}, {"pack": {}}]
)
def test_another_format_is_refused(change: dict[str, Any], portable: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="not a domain pack"):
        validate_pack(portable | change)


def test_every_missing_field_is_named(portable: dict[str, Any]) -> None:
    del portable["pack"]["name"]
    del area(portable["pack"])["keywords"]
    with pytest.raises(
        BadRequest, match=r"pack\.name: .*; pack\.analysis_areas\.base\.0\.keywords"
    ):
        validate_pack(portable)


def test_every_broken_rule_is_named_at_once(portable: dict[str, Any]) -> None:
    portable["pack"].update(name="", categories=[])
    with pytest.raises(BadRequest, match=r"name is missing; at least one category"):
        validate_pack(portable)


def test_a_cube_pack_needs_no_dataset(portable: dict[str, Any]) -> None:
    portable["pack"]["shape"] = "cube"
    base(portable["pack"])["exploration"] = "{{SCHEMA_INFO}} {{ANALYSIS_AREAS}}"
    assert validate_pack(portable).shape == "cube"


def test_a_project_copies_the_prompts_of_its_category(portable: dict[str, Any]) -> None:
    pack = portable["pack"]
    pack["prompts"]["categories"]["any"] = {"exploration_context": "Look at shops."}
    own = {**area(pack), "id": "shops", "name": "Shops"}
    pack["analysis_areas"]["categories"] = {"any": [own], "other": [{**own, "id": "no"}]}
    parsed = validate_pack(portable)
    warehouse = WarehouseConfig(id="main", config={"path": "x.duckdb"})
    project = new_project(" Demo ", parsed, warehouse, language="German")
    prompts = project.prompts
    assert prompts.exploration == base(pack)["exploration"] + "\n\nLook at shops."
    assert (prompts.base_context, prompts.recommendations) == (
        base(pack)["base_context"],
        base(pack)["recommendations"],
    )
    copied = prompts.analysis_areas
    assert list(copied) == ["trends", "segments", "anomalies", "data_quality", "shops"]
    assert all(a.enabled and not a.is_custom for a in copied.values())
    assert (copied["trends"].is_base, copied["shops"].is_base) == (True, False)
    assert (project.name, project.domain, project.category) == ("Demo", "general", "any")
    assert (project.primary_warehouse_id, project.language) == ("main", "German")
    assert project.datasources() == [warehouse]


def test_later_edits_of_a_pack_do_not_reach_a_project() -> None:
    pack = load_pack("general")
    project = new_project("p", pack, WarehouseConfig())
    pack.analysis_areas.base[0].keywords.append("late")
    assert "late" not in project.prompts.analysis_areas["trends"].keywords


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"category": "x"}, "no category"), ({"name": " "}, "a name"), ({"warehouse": []}, "wareh")],
)
def test_a_project_that_cannot_be_made_is_a_bad_request(
    fields: dict[str, Any], message: str
) -> None:
    general = load_pack("general")
    given: dict[str, Any] = {"name": "p", "pack": general, "warehouse": WarehouseConfig()}
    with pytest.raises(BadRequest, match=message):
        new_project(**(given | fields))


# ---------------------------------------------------------------- packs of datasources

TABLES = WarehouseConfig(id="shop", config={"path": "shop.duckdb"})
CRM = WarehouseConfig(id="crm", label="CRM", config={"path": "crm.duckdb"})
CUBE = WarehouseConfig(id="sales", provider="cube", config={"url": "http://localhost:4000"})


def renamed(portable: dict[str, Any], slug: str, **changes: Any) -> DomainPack:
    """The pack under another name; ``changes`` to its first area."""
    pack = copy.deepcopy(portable)
    pack["pack"]["slug"] = slug
    area(pack["pack"]).update(changes)
    return validate_pack(pack)


def test_a_datasource_copies_its_own_pack(portable: dict[str, Any]) -> None:
    own = renamed(portable, "retail", prompt="Ours")
    project = new_project("p", load_pack("general"), [TABLES, CRM], packs={"crm": own})
    shop, crm = project.warehouses
    assert (shop.domain, shop.prompts.analysis_areas) == ("", {})
    assert (crm.domain, crm.category) == ("retail", "any")
    assert crm.prompts.exploration == own.prompts.base.exploration
    areas = project.areas()
    assert list(areas) == [*project.prompts.analysis_areas, "crm_trends"]
    assert (areas["crm_trends"].name, areas["crm_trends"].prompt) == ("Trends (CRM)", "Ours")
    assert {area.datasource_id for area in areas.values()} == {"", "crm"}
    assert list(project.areas(left_out=["crm"])) == list(project.prompts.analysis_areas)
    assert plan_areas(project, ["crm_trends"]) == ["crm_trends"]


def test_the_project_s_area_wins_a_name_collision(portable: dict[str, Any]) -> None:
    own = renamed(portable, "retail", id="other")
    project = new_project("p", load_pack("general"), [TABLES, CRM], packs={"crm": own})
    assert list(project.areas()) == [*project.prompts.analysis_areas, "other"]
    assert project.areas()["segments"].datasource_id == ""


def test_a_cube_gets_a_pack_of_shape_cube() -> None:
    project = new_project(
        "p", load_pack("general"), [TABLES, CUBE], packs={"sales": load_pack("measures")}
    )
    assert project.warehouses[1].prompts.analysis_areas["measure_mix"].enabled


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pack": load_pack("measures")}, "has the shape 'cube', and datasource 'shop' holds tab"),
        ({"packs": {"crm": load_pack("measures")}}, "datasource 'crm' holds tables"),
        ({"packs": {"sales": load_pack("general")}}, "'sales' is a cube; choose a pack of the sh"),
        ({"packs": {"nope": load_pack("general")}}, "no datasource 'nope'; the ids are: shop, cr"),
        ({"warehouse": [TABLES, TABLES]}, "two datasources are called 'shop'"),
        ({"key_pairs": [pair("shop", "nope")]}, "names the datasource 'nope'"),
        ({"key_pairs": [pair("crm", "crm")]}, "joins 'crm' to itself"),
        (
            {
                "warehouse": [TABLES, CRM.model_copy(update={"category": "x"})],
                "packs": {"crm": load_pack("general")},
            },
            "no category 'x'; it has: any",
        ),
    ],
)
def test_packs_and_keys_must_fit_the_datasources(fields: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "name": "p",
        "pack": load_pack("general"),
        "warehouse": [TABLES, CRM, CUBE],
    }
    with pytest.raises(BadRequest, match=message):
        new_project(**(given | fields))


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({}, []),
        ({"domain": "general"}, []),
        ({"domain": "general", "category": "any"}, []),
        ({"domain": "measures"}, ["crm"]),
        ({"domain": "measures", "prompts": ProjectPrompts(exploration="mine")}, []),
    ],
)
def test_a_datasource_names_a_pack_unless_the_project_s_speaks_for_it(
    source: dict[str, Any], named: list[str]
) -> None:
    given = CRM.model_copy(update=source)
    assert list(packs_named(load_pack("general"), "any", [TABLES, given])) == named


@pytest.mark.parametrize(
    ("effort", "steps"),
    [("lower", 20), ("low", 40), ("medium", 60), ("high", 80), ("higher", 100), (" High ", 80)],
)
def test_effort_is_a_number_of_steps(effort: str, steps: int) -> None:
    assert effort_steps(effort) == steps


def test_an_unknown_effort_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="lower, low, medium, high, higher"):
        effort_steps("heroic")


def test_discipline_is_the_engine_s_and_never_a_pack_s() -> None:
    project = new_project("p", load_pack("general"), WarehouseConfig())
    discipline = "Rules that hold for everything you write"
    assert discipline in base_context(project, "")
    assert discipline not in project.model_dump_json()
