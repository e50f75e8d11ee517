"""The two calls of the Cube REST API that are made: ``/meta`` and ``/load``. Nothing else is ever
sent, so the datasource can only be read."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from pipeline.errors import QueryFailed, WarehouseUnavailable

CONNECT_SECONDS = 10.0
CONNECTIONS = 5
FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds between two polls of a query that is still running; the server itself waits too."""
ERROR_CHARS = 2_000
CONTINUE = "continue wait"
_AUTH = (401, 403)
_LATER = (502, 503, 504)


def api_root(url: str) -> str:
    """The address of the API below a deployment's: ``http://host:4000`` becomes
    ``http://host:4000/cubejs-api/v1``; a base path that is given stays. Raises ``ValueError``."""
    bare = url.strip().rstrip("/")
    parts = urlsplit(bare)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an address of the web")
    if bare.endswith("/v1"):
        return bare
    return f"{bare}/v1" if parts.path.strip("/") else f"{bare}/cubejs-api/v1"


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: Mapping[str, Any] | None
    """None when it is no JSON object."""

    @property
    def error(self) -> str:
        found = (self.body or {}).get("error", "")
        text = found if isinstance(found, str) else json.dumps(found, default=str)
        return text.strip()[:ERROR_CHARS]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A good answer to a query."""

    rows: list[Mapping[str, Any]]
    query: Mapping[str, Any]
    """The query as the deployment ran it; empty when it does not say."""


class CubeApi:
    """One deployment, with the token of one datasource."""

    def __init__(self, datasource_id: str, url: str, token: str, max_bytes: int) -> None:
        """Raises ``WarehouseUnavailable`` for a url that is none."""
        self._owner = datasource_id
        try:
            self.root = api_root(url)
        except ValueError as error:
            raise WarehouseUnavailable(
                f"the url of datasource {datasource_id!r} is no web address; set one such as "
                "http://localhost:4000"
            ) from error
        self._headers = {"Authorization": token} if token else {}
        self._max_bytes = max_bytes
        self._client: httpx2.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def meta(self) -> Mapping[str, Any]:
        """The data model. Raises ``WarehouseUnavailable``."""
        answer = await self._answer("GET", "meta", None)
        if answer.status == 200 and isinstance((answer.body or {}).get("cubes"), list):
            return answer.body or {}
        self._check_reachable(answer)
        if answer.error:
            raise WarehouseUnavailable(
                f"{self._at} cannot give its data model ({answer.error}); mend the model there, "
                "then start again"
            )
        raise self._no_cube(answer.status)

    async def load(self, body: Mapping[str, Any], text: str) -> Loaded:
        """The answer to a query. Polls while the server says that it is still working, without end:
        the caller limits the time. ``text`` names the query in errors.

        Raises ``QueryFailed`` or ``WarehouseUnavailable``.
        """
        wait = FIRST_WAIT
        while True:
            answer = await self._answer("POST", "load", {"query": body}, text)
            if answer.status == 200 and answer.error.lower() == CONTINUE:
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, 2 * wait)
                continue
            if answer.status == 200 and not answer.error:
                return self._loaded(answer)
            self._check_reachable(answer)
            if not answer.error:
                raise self._no_cube(answer.status)
            raise QueryFailed(answer.error, text)

    async def close(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # ------------------------------------------------------------ one request

    async def _answer(
        self, method: str, path: str, payload: Mapping[str, Any] | None, text: str = ""
    ) -> _Answer:
        content = None if payload is None else json.dumps(payload).encode()
        try:
            return await self._sent(method, path, content, text)
        except (httpx2.RemoteProtocolError, httpx2.ReadError):
            pass  # a kept connection that the server has closed; reading again changes nothing
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._unreachable(error) from error
        try:
            return await self._sent(method, path, content, text)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._unreachable(error) from error

    async def _sent(self, method: str, path: str, content: bytes | None, text: str) -> _Answer:
        headers = {"content-type": "application/json"} if content is not None else {}
        client = await self._opened()
        async with client.stream(
            method, f"{self.root}/{path}", content=content, headers=headers
        ) as response:
            raw = bytearray()
            async for piece in response.aiter_bytes():
                raw += piece
                if len(raw) > self._max_bytes:
                    raise QueryFailed(
                        f"the answer is larger than {self._max_bytes} bytes; ask for fewer rows "
                        "or members",
                        text,
                    )
            return _Answer(response.status_code, await asyncio.to_thread(_read, bytes(raw)))

    async def _opened(self) -> httpx2.AsyncClient:
        """The client, made in a thread: it reads certificates."""
        async with self._opening:
            if self._closed:
                raise WarehouseUnavailable(f"datasource {self._owner!r} was closed; open it again")
            if self._client is None:
                self._client = await asyncio.to_thread(self._new_client)
            return self._client

    def _new_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=CONNECTIONS),
            follow_redirects=False,
        )

    def _loaded(self, answer: _Answer) -> Loaded:
        body: Mapping[str, Any] = answer.body or {}
        results = _objects(body.get("results"))
        if len(results) == 1:
            body = results[0]
        if not isinstance(body.get("data"), list):
            raise self._no_cube(answer.status)
        ran: Any = body.get("query")
        (query, *_) = [*_objects([ran]), dict[str, Any]()]
        return Loaded(_objects(body["data"]), query)

    # ------------------------------------------------------------ what went wrong

    @property
    def _at(self) -> str:
        return f"the Cube API of datasource {self._owner!r} at {shown(self.root)}"

    def _check_reachable(self, answer: _Answer) -> None:
        if answer.status in _AUTH:
            raise WarehouseUnavailable(
                f"{self._at} refuses the token ({answer.error or f'HTTP {answer.status}'}); "
                'set a valid one as "token" in the config of the datasource, or in the environment '
                'variable that its "token_env" names'
            )
        if answer.status in _LATER or answer.status == 429:
            raise WarehouseUnavailable(
                f"{self._at} cannot answer now (HTTP {answer.status}); try again later"
            )

    def _no_cube(self, status: int) -> WarehouseUnavailable:
        return WarehouseUnavailable(
            f"what answers at {shown(self.root)} (HTTP {status}) is not a Cube API; set the url of "
            f"datasource {self._owner!r} to a deployment, for example http://localhost:4000"
        )

    def _unreachable(self, error: BaseException) -> WarehouseUnavailable:
        causes = list(_causes(error))
        if any(isinstance(c, OSError) and c.errno == errno.ECONNREFUSED for c in causes):
            what = "refused the connection"
        elif any(isinstance(c, socket.gaierror) for c in causes):
            what = "has an unknown host name"
        elif any(isinstance(c, httpx2.TimeoutException) for c in causes):
            what = "did not answer in time"
        elif any(isinstance(c, httpx2.RemoteProtocolError | httpx2.ReadError) for c in causes):
            what = "dropped the connection"
        else:
            what = "cannot be reached"
        return WarehouseUnavailable(f"{self._at} {what}; start it, or correct its url")


def shown(url: str) -> str:
    """An address without the user and password that may be in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _objects(value: Any) -> list[Mapping[str, Any]]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in found if isinstance(item, dict)]


def _read(raw: bytes) -> Mapping[str, Any] | None:
    """A JSON object, its fractions exact."""
    try:
        value: Any = json.loads(raw, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, each once."""
    queue, seen = [error], set[int]()
    while queue:
        one = queue.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        queue += [one.__cause__, one.__context__]
