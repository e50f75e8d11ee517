"""The cluster launcher files, judged by Ray's own validation."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# Ray's launcher is not typed.

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[2]
FILES = ["cluster.yaml", "cluster.aws.yaml"]


def prepared(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return prepare_config(config)


@pytest.mark.parametrize("name", FILES)
def test_ray_accepts_the_cluster_file(name: str) -> None:
    validate_config(prepared(name))


@pytest.mark.parametrize("name", FILES)
def test_workers_scale_up_from_nothing_and_down_again(name: str) -> None:
    config = prepared(name)
    assert config["max_workers"] > 0
    assert config["idle_timeout_minutes"] > 0
    workers = {
        k: t for k, t in config["available_node_types"].items() if k != config["head_node_type"]
    }
    assert all(t.get("min_workers", 0) == 0 for t in workers.values())


@pytest.mark.parametrize("name", FILES)
def test_every_node_starts_with_token_authentication(name: str) -> None:
    config = prepared(name)
    for commands in ("head_start_ray_commands", "worker_start_ray_commands"):
        start = next(c for c in config[commands] if "ray start" in c)
        assert "RAY_AUTH_MODE=token" in start
        assert "RAY_AUTH_TOKEN_PATH=" in start


@pytest.mark.parametrize("name", FILES)
def test_the_locked_packages_are_installed(name: str) -> None:
    config = prepared(name)
    assert any(
        "make .venv/.demo" in command
        for command in config["setup_commands"] + config["worker_setup_commands"]
    )


@pytest.mark.parametrize("name", FILES)
def test_the_dashboard_stays_on_loopback(name: str) -> None:
    start = next(c for c in prepared(name)["head_start_ray_commands"] if "ray start" in c)
    assert "--dashboard-host=127.0.0.1" in start
