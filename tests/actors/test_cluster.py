# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# What Ray's own job server calls is untyped.
"""Which cluster a command is refused, before Ray is even imported, and which one a job is given."""

import socket
from pathlib import Path

import pytest

from actors.cluster import Cluster, connected
from pipeline.errors import ClusterUnavailable


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "[::1]:{}", "localhost:{}"])
def test_an_address_where_nobody_listens_is_one_sentence_at_once(tmp_path: Path, form: str) -> None:
    address = form.format(closed_port())
    with pytest.raises(ClusterUnavailable) as told, connected(tmp_path, address):
        pass
    assert address in str(told.value)
    assert "unset RAY_ADDRESS" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="no Ray cluster"), connected(tmp_path, "h:99999"):
        pass


def test_a_dashboards_address_is_told_from_a_clusters(tmp_path: Path) -> None:
    address = "http://127.0.0.1:8265"
    with (
        pytest.raises(ClusterUnavailable, match="RAY_API_SERVER_ADDRESS"),
        connected(tmp_path, address),
    ):
        pass


def test_a_job_works_on_the_cluster_that_took_it_whatever_else_runs(cluster: Cluster) -> None:
    """Ray looks it up in the cluster's folder, and takes any of the machine if it finds none."""
    from ray._private.services import find_bootstrap_address
    from ray._private.worker import global_worker

    node = global_worker.node
    assert node is not None
    assert find_bootstrap_address(node.get_temp_dir_path()) == cluster.address
