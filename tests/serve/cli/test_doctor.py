"""``veridical doctor`` on the real parts: when all work, and when none does."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

import duckdb
import pytest

from tests.serve.commands import PATIENCE_S, Commands

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
PARTS = ["home", "store", "warehouse", "vectors", "model", "ray"]
OK, ENVIRONMENT = 0, 3


@pytest.fixture(scope="module")
def home() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="vd-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def warehouse(home: Path) -> Path:
    path = home / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("create table orders as select i as id from range(10) as t(i)")
    return path


@pytest.fixture
def commands(home: Path) -> Commands:
    return Commands(home)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_everything_works_and_nothing_is_left(commands: Commands, warehouse: Path) -> None:
    commands.json("project", "create", "Shop", "--warehouse", str(warehouse))
    done = commands.run("doctor", "--project", "Shop", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"]) == (OK, True), done.stdout
    assert [check["name"] for check in told["checks"]] == PARTS
    details = {check["name"]: check["detail"] for check in told["checks"]}
    assert "1 project" in details["store"]
    assert "1 table" in details["warehouse"]
    assert "384 dimensions" in details["vectors"]
    assert "No language model" in details["model"]
    assert "local cluster" in details["ray"]
    assert commands.left() == []


def test_every_part_that_is_broken_is_told_with_what_to_do(
    commands: Commands, warehouse: Path
) -> None:
    """The project is in the embedded store, so this one is broken in a run of its own."""
    nobody = f"127.0.0.1:{closed_port()}"
    warehouse.rename(warehouse.with_suffix(".away"))
    commands.environment |= {
        "QDRANT_URL": f"http://{nobody}",
        "OPENAI_BASE_URL": f"http://{nobody}/v1",
        "OPENAI_API_KEY": "k",
        "LLM_RETRY_MAX_ATTEMPTS": "1",
        "RAY_ADDRESS": nobody,
    }
    done = commands.run("doctor", "--project", "Shop")
    assert done.returncode == ENVIRONMENT
    lines = done.stdout.splitlines()
    told = {
        line.split()[1]: (line.split()[0], at) for at, line in enumerate(lines) if line[0] > " "
    }
    assert {name: state for name, (state, _) in told.items()} == {
        "home": "ok",
        "store": "ok",
        **dict.fromkeys(PARTS[2:], "FAIL"),
    }
    for name, words in {
        "warehouse": (str(warehouse), "project show"),
        "vectors": (nobody, "QDRANT_URL"),
        "model": (nobody, "address of the model"),
        "ray": (nobody, "RAY_ADDRESS"),
    }.items():
        at = told[name][1]
        said = " ".join(lines[at : at + 2])
        assert all(word in said for word in words), said
    assert "Traceback" not in done.stdout + done.stderr
    assert commands.left() == []


def test_a_store_that_does_not_answer_is_told(commands: Commands) -> None:
    commands.environment["MONGODB_URI"] = f"mongodb://127.0.0.1:{closed_port()}"
    commands.environment["RAY_ADDRESS"] = f"127.0.0.1:{closed_port()}"
    done = commands.run("doctor", "--json")
    told = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == ENVIRONMENT
    assert told["store"]["ok"] is False
    assert "MONGODB_URI" in told["store"]["detail"] + told["store"]["advice"]
    assert told["vectors"]["ok"] is True
