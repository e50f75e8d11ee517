"""What can be known of the deployment without Ray."""

from __future__ import annotations

import socket

import pytest

from pipeline.errors import ClusterUnavailable
from serve.deployment import HOST, check_port


def test_a_port_in_use_is_one_sentence_with_the_next_step() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterUnavailable, match=f"port {port} .* is in use; choose another"):
            check_port(port)
    check_port(port)
