"""Tokens, passwords and keys of a project are shown to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.records import LlmConfig, Project, WarehouseConfig
from serve.secrets import masked, shown


@pytest.mark.parametrize(
    ("config", "seen"),
    [
        ({"url": "http://h:4000", "token": "abc"}, {"url": "http://h:4000", "token": "***"}),
        ({"token_env": "CUBE_API_TOKEN"}, {"token_env": "CUBE_API_TOKEN"}),
        ({"token": ""}, {"token": ""}),
        ({"url": "https://me:pw@h/x"}, {"url": "https://***@h/x"}),
        ({"apiKey": "k", "key": "k"}, {"apiKey": "***", "key": "***"}),
        ({"tokens": ["t"]}, {"tokens": "***"}),
        ({"auth": {"Password": "p", "user": "u"}}, {"auth": {"Password": "***", "user": "u"}}),
        ({"parts": [{"client_secret": 1}]}, {"parts": [{"client_secret": "***"}]}),
        ({"credentials": {"a": "b"}}, {"credentials": "***"}),
        ({"path": "token.duckdb", "keyword": "x"}, {"path": "token.duckdb", "keyword": "x"}),
    ],
)  # fmt: skip
def test_settings_that_hold_secrets_are_masked(config: dict[str, Any], seen: Any) -> None:
    assert masked(config) == seen


def test_no_configuration_of_a_project_shows_a_secret() -> None:
    source = WarehouseConfig(id="sales", provider="cube", config={"url": "u", "token": "s3cret"})
    model = LlmConfig(provider="openai", config={"api_key": "s3cret", "max_input_tokens": 9})
    project = Project(
        id="p", name="p", warehouse=source, warehouses=[source], llm=model, embedding=model
    )
    assert "s3cret" not in shown(project).model_dump_json()
    assert project.warehouses[0].config["token"] == "s3cret"
