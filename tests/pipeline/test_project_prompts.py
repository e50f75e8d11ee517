"""Facts, E.2: what the template variables of a project's prompts become."""

from __future__ import annotations

import pytest

from pipeline.analysis.areas import Area
from pipeline.packs import load_pack, new_project
from pipeline.ports import WarehouseInfo
from pipeline.project_prompts import base_context, exploration_text, fill, warehouse_variables
from pipeline.prompting import read_block
from pipeline.records import Project, ProjectPrompts, WarehouseConfig

PLAIN = WarehouseInfo(id="default", dialect="duckdb", datasets=("main", "raw"))
FILTERED = WarehouseInfo(
    id="shop", dialect="postgres", datasets=("s",), filter_field="tenant", filter_value="o'neil"
)
AREAS = [Area("trends", "Trends", "Over time", ("month",))]
CATALOG = "datasource default | dialect duckdb | 1 tables\nmain.flights | 19 columns"


@pytest.fixture
def project() -> Project:
    return new_project("p", load_pack("general"), WarehouseConfig())


def with_text(**prompts: str) -> Project:
    return Project(id="p", name="p", prompts=ProjectPrompts.model_validate(prompts))


def test_the_profile_is_indented_json_in_a_block(project: Project) -> None:
    project.profile = {"industry": "flights", "note": "</profile> & more"}
    profile = read_block(base_context(project, ""), "profile")
    assert profile is not None
    assert profile.startswith('{\n  "industry": "flights"')
    assert "</profile>" not in profile


def test_an_empty_profile_is_a_fixed_sentence(project: Project) -> None:
    assert "No profile was filled in" in base_context(project, "")


def test_previous_context_is_a_block_only_when_there_is_any(project: Project) -> None:
    assert read_block(base_context(project, ""), "previous_context") is None
    assert read_block(base_context(project, "run 2 <x>"), "previous_context") == (
        "run 2 \\u003cx\\u003e"
    )


def test_previous_context_reaches_a_pack_that_does_not_place_it() -> None:
    text = base_context(with_text(base_context="About {{PROFILE}}"), "earlier")
    assert read_block(text, "previous_context") == "earlier"


@pytest.mark.parametrize(("language", "written"), [("", "English"), ("Turkish", "Turkish")])
def test_the_language_is_english_unless_given(
    project: Project, language: str, written: str
) -> None:
    project.language = language
    assert f"in {written}." in base_context(project, "")


def test_exploration_holds_catalog_and_areas_as_blocks(project: Project) -> None:
    text = exploration_text(project, AREAS, CATALOG, [PLAIN])
    assert read_block(text, "catalog") == CATALOG
    assert read_block(text, "areas") == "1. trends - Trends: Over time"
    assert read_block(text, "filter") is None
    assert "Datasets: main, raw" in text
    assert "{{" not in text


@pytest.mark.parametrize("template", ["", "{{FILTER_CONTEXT}}", "{{FILTER}}"])
def test_a_filter_is_explained_whatever_the_pack_says(template: str) -> None:
    project = with_text(exploration=template)
    text = exploration_text(project, AREAS, CATALOG, [FILTERED])
    assert read_block(text, "filter") == "tenant = 'o''neil'"
    assert text.count("<filter>") == 1
    assert read_block(text, "catalog") == CATALOG


def test_filters_of_several_datasources_name_theirs() -> None:
    variables = warehouse_variables([PLAIN, FILTERED])
    assert read_block(variables["FILTER"], "filter") == "datasource shop: tenant = 'o''neil'"
    assert variables["DATASET"] == "main, raw, s"
    assert variables["DIALECT"] == "duckdb, postgres"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("FROM {{REF:flights}}", 'FROM "main"."flights"'),
        ("FROM {{REF:a b}}", "FROM {{REF:a b}}"),
        ("FROM {{REF:x;drop}}", "FROM {{REF:x;drop}}"),
        ("{{DATASET}} {{UNKNOWN}}", "main {{UNKNOWN}}"),
    ],
)
def test_table_references_are_quoted_for_the_dialect(template: str, text: str) -> None:
    assert fill(template, {"DATASET": "main"}, [PLAIN]) == text
