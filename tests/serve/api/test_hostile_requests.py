"""Requests made to do harm: what no store or answer can carry, and pages of other sites."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

PROJECTS = "/api/v1/projects"
DUCKDB: dict[str, Any] = {"provider": "duckdb", "config": {"path": "/data/shop.duckdb"}}


def post(client: TestClient, **fields: Any) -> Any:
    """Ask for a project; the body is ASCII, so that it can hold half a character."""
    body = json.dumps({"name": "Shop", "warehouse": DUCKDB} | fields).encode()
    return client.post(PROJECTS, content=body, headers={"content-type": "application/json"})


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("text", ["half \ud800", "\udcff", "nul \x00", "\u202eevil", "\x1b[31m"])
@pytest.mark.parametrize("field", ["description", "profile"])
def test_odd_text_is_answered_and_never_an_error_of_the_server(
    client: TestClient, field: str, text: str
) -> None:
    answer = post(client, **{field: text if field == "description" else {"note": text}})
    assert answer.status_code == 201, answer.text
    value = json.loads(answer.content)["data"][field]
    assert text in (value, value["note"] if field == "profile" else "")


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x00b", "\x1b[31mred", "\u202eevil", "\ud800", "z" * 201]
)
def test_a_name_that_nobody_could_type_is_400(client: TestClient, name: str) -> None:
    answer = post(client, name=name)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


@pytest.mark.parametrize(("levels", "status"), [(50, 201), (100, 400), (400, 400)])
def test_a_body_that_is_nested_too_deep_is_400(
    client: TestClient, levels: int, status: int
) -> None:
    assert post(client, profile=nested(levels)).status_code == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("10.1.2.3", 200),
        ("localhost:8080", 200),
        ("api.localhost", 200),
        ("veridical:8080", 200),
        ("evil.com", 403),
        ("127.0.0.1.evil.com:8080", 403),
        ("evil.com.", 403),
        ("[bad", 403),
    ],
)
def test_only_an_address_or_a_local_name_is_answered(
    client: TestClient, host: str, status: int
) -> None:
    assert client.get(PROJECTS, headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8080", 404),
        ("http://evil.com", 403),
        ("http://localhost:9999", 403),
        ("null", 403),
    ],
)
def test_a_page_of_another_site_changes_nothing(
    client: TestClient, origin: str, status: int
) -> None:
    headers = {"host": "localhost:8080", "origin": origin}
    assert client.post(f"{PROJECTS}/nope/discover", headers=headers).status_code == status
    assert client.get(PROJECTS, headers=headers).status_code == 200
