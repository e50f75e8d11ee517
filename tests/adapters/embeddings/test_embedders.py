from __future__ import annotations

import asyncio
import math
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.embeddings import minilm, open_embedder
from adapters.embeddings.hashing import HashingEmbedder
from adapters.embeddings.minilm import MiniLmEmbedder
from adapters.embeddings.openai import OpenAIEmbedder
from adapters.embeddings.unit import unit_rows
from adapters.llm.failures import Endpoint
from adapters.llm.retry import RetryPolicy
from pipeline.errors import BadRequest, VectorsUnavailable
from pipeline.ports import Embedder
from pipeline.records import LlmConfig
from pipeline.settings import VectorSettings
from tests.adapters.conftest import Freshly
from tests.servers.model_server import (
    BAD_JSON,
    DROP,
    HTML,
    MODEL,
    Answer,
    ModelServer,
    embeddings,
    status,
)

TEXTS = ["departure delays by carrier", "", "wind and rain", "retards au départ ✈", "x" * 5000]


@pytest.fixture(scope="module")
def built_in() -> MiniLmEmbedder:
    return MiniLmEmbedder()


def _served(
    server: ModelServer, dim: int = 8, *, attempts: int = 3, dimensions: int | None = None
) -> OpenAIEmbedder:
    url = server.openai_url
    endpoint = Endpoint(
        f"The embedding server at {url}",
        url,
        MODEL,
        "secret",
        "EMBEDDING_API_KEY",
        "EMBEDDING_BASE_URL",
        "EMBEDDING_MODEL",
    )
    return OpenAIEmbedder(
        endpoint, dim, dimensions=dimensions, policy=RetryPolicy(attempts, base=0.0)
    )


async def opened(config: LlmConfig, settings: VectorSettings | None = None) -> OpenAIEmbedder:
    """A served embedder, opened as a run opens it: in a thread, because its server is asked."""
    embedder = await asyncio.to_thread(open_embedder, config, settings or VectorSettings())
    assert isinstance(embedder, OpenAIEmbedder)
    return embedder


@pytest.mark.parametrize("name", ["minilm", "hashing", "openai"])
async def test_vectors_have_length_one_come_in_order_and_do_not_depend_on_the_batch(
    name: str, built_in: MiniLmEmbedder, server: ModelServer
) -> None:
    served = _served(server)
    embedder: Embedder = {"minilm": built_in, "hashing": HashingEmbedder(), "openai": served}[name]
    together = await embedder.embed(TEXTS * 5)
    assert len(together) == len(TEXTS) * 5
    assert np.allclose(together[: len(TEXTS)], together[-len(TEXTS) :], atol=1e-5)
    for text, vector in zip(TEXTS, together, strict=False):
        assert len(vector) == embedder.dim
        assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)
        [alone] = await embedder.embed([text])
        assert np.dot(alone, vector) == pytest.approx(1, abs=1e-3)
    assert await embedder.embed([]) == []
    await served.close()


async def test_the_built_in_model_knows_meaning(built_in: MiniLmEmbedder) -> None:
    question, right, wrong = await built_in.embed(
        ["how late do planes leave", "flights: departure delay in minutes", "airlines: full name"]
    )
    assert np.dot(question, right) > np.dot(question, wrong) + 0.1


async def test_the_built_in_model_works_in_threads_never_on_the_loop(
    built_in: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[threading.Thread] = []
    work = built_in._embed  # pyright: ignore[reportPrivateUsage] - the thread shows only inside

    def watched(texts: list[str]) -> list[list[float]]:
        seen.append(threading.current_thread())
        return work(texts)

    monkeypatch.setattr(built_in, "_embed", watched)
    await asyncio.gather(built_in.embed(["a"]), built_in.embed(["b"]))
    assert len(seen) == 2
    assert threading.main_thread() not in seen


def test_the_built_in_model_reports_to_nobody(tmp_path: Path, freshly: Freshly) -> None:
    code = (
        "import asyncio, os; from adapters.embeddings.minilm import MiniLmEmbedder as M;"
        "[vector] = asyncio.run(M().embed(['delay']));"
        "print(len(vector), os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    assert freshly(code, TMPDIR=str(tmp_path)) == "384 1"
    assert not list(tmp_path.iterdir()), "the library would keep a session of its events there"


def test_spelling_decides_for_the_hashing_embedder_in_every_process(freshly: Freshly) -> None:
    a, b, c = asyncio.run(HashingEmbedder(64).embed(["delay", "delays", "weather"]))
    assert np.dot(a, b) > 0.5 > np.dot(a, c)
    assert HashingEmbedder(64).id != HashingEmbedder().id
    code = (
        "import asyncio; from adapters.embeddings.hashing import HashingEmbedder as H;"
        "print(asyncio.run(H(64).embed(['delay']))[0])"
    )
    assert freshly(code, PYTHONHASHSEED="1") == str(a)


def test_rows_without_length_become_the_first_axis() -> None:
    rows = unit_rows(np.array([[0.0, 0.0], [3.0, 4.0], [np.nan, 1.0], [np.inf, 1.0]]))
    assert rows.tolist() == pytest.approx(np.array([[1, 0], [0.6, 0.8], [1, 0], [1, 0]]))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> object:
        return None if name == "tokenizers" else object()

    monkeypatch.setattr(minilm, "find_spec", found)
    with pytest.raises(VectorsUnavailable, match=r"\(tokenizers\): install"):
        MiniLmEmbedder()


def test_a_changed_or_missing_model_file_is_refused(tmp_path: Path) -> None:
    fake = tmp_path / "model.onnx"
    with pytest.raises(VectorsUnavailable, match="cannot be read"):
        minilm.check(fake, minilm.MODEL_SHA256)
    fake.write_bytes(b"no model")
    with pytest.raises(VectorsUnavailable, match="not the one that was tested"):
        minilm.check(fake, minilm.MODEL_SHA256)


async def test_many_texts_are_sent_in_batches_and_empty_ones_as_something(
    server: ModelServer,
) -> None:
    embedder = _served(server)
    assert len(await embedder.embed(["a"] * 100 + [""])) == 101
    await embedder.close()
    sent = [r.body["input"] for r in server.requests]
    assert [len(batch) for batch in sent] == [96, 5]
    assert all(text for batch in sent for text in batch)


async def test_vectors_are_put_in_the_order_of_their_index(server: ModelServer) -> None:
    answer = embeddings([[1.0, 0.0], [0.0, 1.0]])
    answer.body["data"].reverse()
    server.play(answer)
    embedder = _served(server, 2)
    assert await embedder.embed(["a", "b"]) == [[1, 0], [0, 1]]
    await embedder.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (status(401, "no"), "EMBEDDING_API_KEY"),
        (status(404, "model x not found"), "EMBEDDING_MODEL"),
        (status(400, "what?"), "what"),
        (HTML, "web page"),
        (BAD_JSON, "broken JSON"),
        (embeddings([]), "0 vectors instead of 1"),
        (embeddings([[1.0] * 8] * 2), "2 vectors instead of 1"),
        (embeddings([[1.0] * 7]), "another size than 8"),
        (Answer(body={"data": [{"index": 0, "embedding": "AAAA"}]}), "another size"),
        (Answer(body={"data": [{"index": 0, "embedding": ["x"] * 8}]}), "no lists of numbers"),
        (Answer(body={"data": [{"index": None, "embedding": [1.0] * 8}]}), "instead of 1"),
        (Answer(body={"data": None}), "0 vectors"),
    ],
)
async def test_failures_are_told_in_one_sentence(
    server: ModelServer, answer: Answer, says: str
) -> None:
    server.play(answer)
    embedder = _served(server)
    with pytest.raises(VectorsUnavailable, match=says) as caught:
        await embedder.embed(["a"])
    await embedder.close()
    assert str(caught.value).endswith(".")
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [status(429), status(503), DROP])
async def test_transient_failures_are_tried_again(server: ModelServer, answer: Answer) -> None:
    server.play(answer)
    embedder = _served(server)
    assert len(await embedder.embed(["a"])) == 1
    await embedder.close()


async def test_dimensions_are_asked_for_when_the_project_says_so(server: ModelServer) -> None:
    config = LlmConfig(
        provider="openai",
        model="m",
        config={"base_url": server.openai_url, "dimensions": "8"},
    )
    embedder = await opened(config)
    await embedder.embed(["a"])
    await embedder.close()
    assert embedder.dim == 8
    assert [r.body["dimensions"] for r in server.requests] == [8]


async def test_model_and_size_are_asked_for_when_nothing_tells_them(server: ModelServer) -> None:
    server.dim = 5
    settings = VectorSettings(EMBEDDING_BASE_URL=server.openai_url, EMBEDDING_API_KEY="k")
    embedder = await opened(LlmConfig(), settings)
    assert (embedder.id, embedder.dim) == (f"openai/{MODEL}", 5)
    await embedder.close()
    assert {r.headers["authorization"] for r in server.requests} == {"Bearer k"}


async def test_the_environments_key_goes_to_the_environments_address_only(
    server: ModelServer,
) -> None:
    config = LlmConfig(provider="openai", config={"base_url": server.openai_url})
    embedder = await opened(config, VectorSettings(EMBEDDING_API_KEY="k"))
    await embedder.close()
    assert {r.headers["authorization"] for r in server.requests} == {"Bearer no-key-needed"}


@pytest.mark.parametrize(
    ("config", "environment", "expected"),
    [
        ({}, {}, (minilm.MODEL_ID, 384)),
        ({"provider": "minilm"}, {"EMBEDDING_API_KEY": "k"}, (minilm.MODEL_ID, 384)),
        ({"provider": "hashing"}, {}, ("hashing-char-3-5-384", 384)),
        ({}, {"EMBEDDING_API_KEY": "k"}, ("openai/text-embedding-3-small", 1536)),
        (
            {"model": "text-embedding-3-large"},
            {"EMBEDDING_API_KEY": "k"},
            ("openai/text-embedding-3-large", 3072),
        ),
    ],
)
def test_the_embedder_is_chosen_by_project_then_environment(
    config: dict[str, Any], environment: dict[str, str], expected: tuple[str, int]
) -> None:
    embedder = open_embedder(LlmConfig(**config), VectorSettings.model_validate(environment))
    assert (embedder.id, embedder.dim) == expected


@pytest.mark.parametrize(
    ("config", "environment", "error", "says"),
    [
        ({"provider": "cohere"}, {}, BadRequest, "'cohere'"),
        ({"provider": "openai"}, {}, VectorsUnavailable, "set EMBEDDING_API_KEY"),
        (
            {"config": {"dimensions": "many"}, "model": "m"},
            {"EMBEDDING_API_KEY": "k"},
            BadRequest,
            "dimensions",
        ),
        (
            {},
            {"EMBEDDING_BASE_URL": "http://127.0.0.1:9/v1"},
            VectorsUnavailable,
            "http://127.0.0.1:9/v1 refused the connection",
        ),
    ],
)
def test_what_cannot_be_opened_says_what_to_set(
    config: dict[str, Any], environment: dict[str, str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        open_embedder(LlmConfig(**config), VectorSettings.model_validate(environment))


def test_a_server_without_models_has_its_model_asked_for(server: ModelServer) -> None:
    server.models = []
    with pytest.raises(VectorsUnavailable, match="set EMBEDDING_MODEL"):
        open_embedder(LlmConfig(), VectorSettings(EMBEDDING_BASE_URL=server.openai_url))


def test_hashes_of_neighbouring_texts_differ() -> None:
    vectors = asyncio.run(HashingEmbedder().embed([f"step {n}" for n in range(20)]))
    assert all(a != b for a, b in pairwise(vectors))
