from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest

from adapters.vectors.server import address, connect
from pipeline.errors import VectorsUnavailable


@pytest.fixture
def collected() -> Generator[None]:
    """A gRPC channel waits for its thread when it is collected: here, not inside a later test."""
    yield
    gc.collect()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:6333", {"host": "127.0.0.1", "port": 6333, "https": False}),
        ("http://qdrant", {"host": "qdrant", "port": 6333, "https": False}),
        ("https://x.cloud.qdrant.io", {"host": "x.cloud.qdrant.io", "port": 443, "https": True}),
        ("https://x:6333/", {"host": "x", "port": 6333, "https": True}),
        ("https://x/qdrant/", {"host": "x", "port": 443, "https": True, "prefix": "qdrant"}),
        (
            "qdrant:6334",
            {
                "host": "qdrant",
                "port": 6333,
                "https": False,
                "grpc_port": 6334,
                "prefer_grpc": True,
            },
        ),
        ("qdrant:6333", {"host": "qdrant", "port": 6333, "https": False}),
    ],
)
def test_the_url_is_http_unless_its_port_is_that_of_grpc(
    url: str, expected: dict[str, Any]
) -> None:
    assert address(url) == expected


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:port", "http://[x"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(VectorsUnavailable, match="QDRANT_URL"):
        connect(url, "")


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "127.0.0.1:6334"])
async def test_a_server_that_is_down_is_told(url: str) -> None:
    vectors = connect(url, "")
    for work in (vectors.ping(), vectors.search("c", [1.0], 1, {}), vectors.drop("c")):
        with pytest.raises(VectorsUnavailable, match="cannot be reached: start it"):
            await work
    await vectors.close()
