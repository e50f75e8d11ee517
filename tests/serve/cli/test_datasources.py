"""``veridical project create --also``: further datasources of a project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from pipeline.errors import BadRequest
from serve.cli.datasources import TOKEN_VARIABLE, beside

Invoke = Callable[..., Result]


def test_files_and_cube_deployments_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "let-me-in")
    monkeypatch.chdir(tmp_path)
    crm, sales = beside(["crm=crm.duckdb", "sales = http://127.0.0.1:4000"])
    assert (crm.id, crm.provider, crm.config) == (
        "crm",
        "duckdb",
        {"path": str(tmp_path / "crm.duckdb")},
    )
    assert (sales.id, sales.provider) == ("sales", "cube")
    assert sales.config == {"url": "http://127.0.0.1:4000", "token": "let-me-in"}


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["crm.duckdb"], "write ID=FILE"),
        (["=crm.duckdb"], "write ID=FILE"),
        (["crm="], "write ID=FILE"),
        (["a=1.duckdb", "a=2.duckdb"], "two datasources are called 'a'"),
        (["default=1.duckdb"], "two datasources are called 'default'"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(texts: list[str], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        beside(texts)


def test_a_project_is_created_over_several_warehouses(veridical: Invoke, tmp_path: Path) -> None:
    for name in ("shop", "crm"):
        (tmp_path / f"{name}.duckdb").write_bytes(b"data")
    result = veridical(
        "project", "create", "Both", "--json",
        "--warehouse", tmp_path / "shop.duckdb", "--also", f"crm={tmp_path / 'crm.duckdb'}",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    project = json.loads(result.stdout)["project"]
    assert [w["id"] for w in project["warehouses"]] == ["default", "crm"]
    assert project["primary_warehouse_id"] == "default"


def test_a_broken_further_warehouse_creates_nothing(veridical: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shop.duckdb").write_bytes(b"data")
    result = veridical(
        "project", "create", "Both",
        "--warehouse", tmp_path / "shop.duckdb", "--also", f"crm={tmp_path / 'gone.duckdb'}",
    )  # fmt: skip
    assert result.exit_code == 3
    assert "gone.duckdb" in result.stderr
