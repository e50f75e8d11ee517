"""Reference facts F.5: a claim is judged in its own datasource, and in that one's language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.errors import EnvelopeError
from pipeline.ports import WarehouseInfo
from pipeline.records import DocKind, Shape
from pipeline.settings import ValidationSettings
from pipeline.validation.briefing import rules
from pipeline.validation.bundle import Bundle, BundleDoc, described
from pipeline.validation.envelope import parse_envelope

REQUEST = {"measures": ["orders.count"]}
TABLES = WarehouseInfo("shop", "duckdb")
CUBE = WarehouseInfo("sales", "", shape=Shape.CUBE, query_language="Cube JSON query")


def bundle(info: WarehouseInfo) -> Bundle:
    doc = BundleDoc(id="d", kind=DocKind.INSIGHT, headline="h")
    return Bundle(doc=doc, warehouse=described(info))


def test_the_bundle_names_a_language_that_is_not_sql() -> None:
    assert bundle(CUBE).payload()["warehouse"]["query_language"] == "Cube JSON query"
    assert "query_language" not in bundle(TABLES).payload()["warehouse"]


def test_the_rules_say_how_to_ask_a_cube() -> None:
    settings = ValidationSettings()
    told = rules(bundle(CUBE), settings)
    assert "takes no SQL" in told
    assert "the text of a Cube JSON query" in told
    assert "{{" not in told
    assert "The datasource is a cube" not in rules(bundle(TABLES), settings)


@pytest.mark.parametrize("written", [REQUEST, json.dumps(REQUEST)])
def test_an_object_and_its_text_are_the_same_query_of_a_cube(written: Any) -> None:
    envelope = parse_envelope(json.dumps({"query_warehouse": written}), object_queries=True)
    assert json.loads(envelope.body) == REQUEST


@pytest.mark.parametrize(
    ("written", "object_queries"), [(REQUEST, False), ({}, True), ([REQUEST], True), ("", True)]
)
def test_everything_else_is_refused(written: Any, object_queries: bool) -> None:
    with pytest.raises(EnvelopeError, match="must be the bare SQL text"):
        parse_envelope(json.dumps({"query_warehouse": written}), object_queries=object_queries)
