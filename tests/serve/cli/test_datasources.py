"""``veridical project create --also``: further datasources of a project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from pipeline.errors import BadRequest
from pipeline.packs import export_pack, load_pack
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
    assert sales.config == {"url": "http://127.0.0.1:4000", "token_env": TOKEN_VARIABLE}


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


@pytest.fixture
def crm_pack(tmp_path: Path) -> Path:
    """The general pack as a file, under another name and with two categories."""
    portable = export_pack(load_pack("general"))
    portable["pack"].update(
        slug="retail", categories=[{"id": "shop", "name": "Shop"}, {"id": "web", "name": "Web"}]
    )
    file = tmp_path / "retail.json"
    file.write_text(json.dumps(portable), encoding="utf-8")
    return file


def created(veridical: Invoke, folder: Path, *more: Any) -> Result:
    """The project "All" over a shop, a CRM and a cube."""
    for name in ("shop", "crm"):
        (folder / f"{name}.duckdb").write_bytes(b"data")
    return veridical(
        "project", "create", "All", "--json", "--warehouse", folder / "shop.duckdb",
        "--also", f"crm={folder / 'crm.duckdb'}", "--also", "sales=http://me:pw@localhost:4000",
        *more,
    )  # fmt: skip


def test_packs_profiles_and_keys_of_datasources(
    veridical: Invoke, world: Any, tmp_path: Path, crm_pack: Path
) -> None:
    (tmp_path / "about.json").write_text('{"since": 2019}')
    result = created(
        veridical, tmp_path, "--also-pack", f"crm={crm_pack}:web", "--also-pack", "sales=measures",
        "--also-profile", f"crm={tmp_path / 'about.json'}", "--profile", tmp_path / "about.json",
        "--key", "default:main.orders.customer=crm:main.contacts.id",
        "--never-join", "crm:main.contacts.id=sales:orders.id",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "pw" not in result.stdout
    made = world.store.projects.kept[json.loads(result.stdout)["project"]["id"]]
    assert [(w.domain, w.category) for w in made.warehouses] == [
        ("", ""),
        ("retail", "web"),
        ("measures", "any"),
    ]
    assert (made.profile, made.warehouses[1].profile) == ({"since": 2019}, {"since": 2019})
    joined, never = made.key_pairs
    assert (joined.left.table, joined.left.column, joined.rejected) == (
        "main.orders",
        "customer",
        False,
    )
    assert (never.right.table, never.right.column, never.rejected) == ("orders", "orders.id", True)
    shown = veridical("project", "show", "All").stdout
    assert "general, retail for crm, measures for sales" in shown
    assert "Movement of measures" in shown
    assert "pw" not in shown + veridical("project", "list").stdout


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            ("--also-pack", "nope=measures"),
            "no datasource 'nope'; the ids are: default, crm",
        ),
        (("--also-pack", "crm"), "write ID=PACK"),
        (("--also-pack", "crm=nope"), "no domain pack 'nope'"),
        (("--also-pack", "crm=measures"), "choose a pack of the shape 'entities'"),
        (("--also-pack", "crm=gone.json"), "gone.json cannot be read as a domain pack: No such"),
        (("--also-pack", "crm={folder}/retail.json:other"), "it has: shop, web"),
        (("--also-pack", "crm={folder}/text.json"), "is no JSON: Expecting value: line 1"),
        (("--also-pack", "crm={folder}/list.json"), "must hold one JSON object"),
        (("--also-pack", "crm={folder}/bare.json"), "holds no domain pack: it must be"),
        (("--pack", "{folder}/broken.json"), "broken.json: not a domain pack: pack.slug: Field"),
        (("--profile", "{folder}/list.json"), "which is a profile"),
        (("--key", "a=b"), "write ID:TABLE.COLUMN"),
        (("--key", "crm:main.a.b=crm:main.c.d"), "joins 'crm' to itself"),
    ],
)
def test_packs_that_cannot_be_used_are_usage_errors(
    veridical: Invoke, tmp_path: Path, crm_pack: Path, more: tuple[str, str], reason: str
) -> None:
    for name, text in (
        ("text", "hello"), ("list", "[]"), ("bare", "{}"), ("broken", '{"pack": {}}')
    ):  # fmt: skip
        (tmp_path / f"{name}.json").write_text(text)
    given = [word.replace("{folder}", str(crm_pack.parent)) for word in more]
    result = created(veridical, tmp_path, *given)
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


def test_a_cube_cannot_be_the_warehouse(veridical: Invoke) -> None:
    result = veridical("project", "create", "Cube", "--warehouse", "http://localhost:4000")
    assert result.exit_code == 2
    assert "no datasource of the project can anchor a run: 'default' is a cube" in result.stderr


def test_a_broken_further_warehouse_creates_nothing(veridical: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shop.duckdb").write_bytes(b"data")
    result = veridical(
        "project", "create", "Both",
        "--warehouse", tmp_path / "shop.duckdb", "--also", f"crm={tmp_path / 'gone.duckdb'}",
    )  # fmt: skip
    assert result.exit_code == 3
    assert "gone.duckdb" in result.stderr
