"""Any server with OpenAI's ``POST /v1/embeddings``, through the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import openai

from adapters.embeddings.unit import unit_rows
from adapters.llm import transport
from adapters.llm.failures import Endpoint, bad_reply, failure, problem
from adapters.llm.retry import RetryPolicy, Sleep, retrying
from adapters.llm.wire import items, mapping, read_body
from pipeline.errors import ModelError, VectorsUnavailable

BATCH = 96
TIMEOUT = 60.0
POLICY = RetryPolicy(attempts=3, base=1.0)


class OpenAIEmbedder:
    """``dim`` is what the server's vectors have; see ``probed``."""

    def __init__(
        self,
        endpoint: Endpoint,
        dim: int,
        *,
        dimensions: int | None = None,
        policy: RetryPolicy = POLICY,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """``dimensions`` is sent along when given: some models shorten their vectors on demand."""
        self.id = f"openai/{endpoint.model}"
        self.dim = dim
        self._endpoint = endpoint
        self._extra = {"dimensions": dimensions} if dimensions else {}
        self._retrying = retrying(policy, sleep)
        self._client = openai.AsyncOpenAI(
            api_key=endpoint.secret,
            base_url=endpoint.url,
            max_retries=0,
            timeout=transport.limits(TIMEOUT),
        )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit vectors, in order. Raises ``VectorsUnavailable`` when the server does not serve."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            batch = [text if text.strip() else " . " for text in texts[start : start + BATCH]]
            try:
                rows: list[list[float]] = await self._retrying.copy()(self._call, batch)
            except ModelError as error:
                raise VectorsUnavailable(str(error)) from error
            vectors += rows
        return vectors

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _call(self, texts: list[str]) -> list[list[float]]:
        create: Any = self._client.embeddings.with_raw_response.create
        try:
            async with asyncio.timeout(TIMEOUT):
                raw = await create(
                    model=self._endpoint.model, input=texts, encoding_format="float", **self._extra
                )
        except (TimeoutError, openai.APITimeoutError) as error:
            raise transport.timed_out(self._endpoint, TIMEOUT) from error
        except openai.APIStatusError as error:
            told = problem(error.status_code, error.body, error.response.headers)
            raise failure(self._endpoint, told) from error
        except openai.OpenAIError as error:
            raise transport.unreachable(self._endpoint, error) from error
        return read_vectors(
            self._endpoint, read_body(self._endpoint, raw.text), len(texts), self.dim
        )


def probed(endpoint: Endpoint) -> int:
    """How long the server's vectors are, found by embedding one word. Blocks up to 15 seconds.

    Raises ``VectorsUnavailable``.
    """
    body = {"model": endpoint.model, "input": ["size"], "encoding_format": "float"}
    try:
        answer = transport.asked(endpoint, "embeddings", body)
        return len(read_vectors(endpoint, answer, 1, 0)[0])
    except ModelError as error:
        raise VectorsUnavailable(str(error)) from error


def read_vectors(
    endpoint: Endpoint, payload: dict[str, Any], expected: int, dim: int
) -> list[list[float]]:
    """Unit vectors in the order of their ``index``; ``dim`` 0 accepts any length.

    Raises ``ModelBadReply`` unless there are ``expected`` vectors of one length.
    """
    entries = [mapping(entry) for entry in items(payload.get("data"))]
    order = [entry.get("index", place) for place, entry in enumerate(entries)]
    if sorted(order, key=str) != sorted(range(expected), key=str):
        raise bad_reply(endpoint, f"{len(entries)} vectors instead of {expected}")
    by_index = dict(zip(order, entries, strict=True))
    try:
        rows = np.array([items(by_index[at].get("embedding")) for at in range(expected)], float)
    except (TypeError, ValueError):
        raise bad_reply(endpoint, "vectors that are no lists of numbers of one length") from None
    if rows.ndim != 2 or rows.shape[1] == 0 or (dim and rows.shape[1] != dim):
        raise bad_reply(endpoint, f"vectors of another size than {dim or 'one or more'}")
    return unit_rows(rows).tolist()
