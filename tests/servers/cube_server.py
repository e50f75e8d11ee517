"""A small server of the Cube REST API on loopback, over a DuckDB file.

It speaks what ``/cubejs-api/v1/meta`` and ``/cubejs-api/v1/load`` speak: the token in the
``Authorization`` header, numbers and times as texts, ``Continue wait`` while a query runs, errors
as ``{"error": …}``. Its data model is one cube over a table, with a view of some of its members.

In a test::

    with cube_server(path) as server:
        server.waits(2)                       # the next query is answered after two polls
        server.play(Answer(500, {"error": "…"}))
        ... config {"url": server.url, "token": TOKEN}
        assert server.loads[0]["measures"] == ["orders.count"]
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import duckdb

from tests.servers.cube_model import (
    HIDDEN,
    ORDERS,
    ORDERS_VIEW,
    ModelledCube,
    QueryRefused,
    Translation,
    sent,
)
from tests.servers.loopback import Exchange, LoopbackServer

TOKEN = "let-me-in"
CONTINUE = {"error": "Continue wait"}
HIGHEST_LIMIT = 50_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets instead of its good answer."""

    status: int = 200
    body: Any = None
    """Sent as JSON."""
    raw: str | None = None
    """Sent as it is, as HTML."""
    hang: bool = False
    """Keep the connection open without an answer until the server stops."""
    drop: bool = False
    """Close the connection without an answer."""


SALES = """
    CREATE TABLE sales AS SELECT
        i AS id, i % 40 AS customer_id, (i % 150)::DECIMAL(9, 2) + 0.25 AS amount,
        CASE i % 3 WHEN 0 THEN 'shipped' WHEN 1 THEN 'open' ELSE 'returned' END AS status,
        i % 2 = 0 AS paid, TIMESTAMP '2024-01-01' + to_hours(i) AS ordered_at
    FROM range(1, 1201) r(i);
"""
"""The table that the default model is over: 1,200 orders of 40 customers, an hour apart."""


def build_sales(path: Path) -> Path:
    """A DuckDB file with the ``sales`` table."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(SALES)
    return path


class CubeServer(LoopbackServer):
    """What tests hold: where it listens, what it plays, what it was asked."""

    def __init__(self, path: Path, cubes: Sequence[ModelledCube], token: str) -> None:
        self.cubes, self.token = list(cubes), token
        self.requests: list[tuple[str, str]] = []
        """Method and path, in order."""
        self.loads: list[dict[str, Any]] = []
        """The queries that ``/load`` was asked, polls included."""
        self.highest_limit = HIGHEST_LIMIT
        self.hanging = threading.Event()
        """Set when a request hangs."""
        self._script: deque[Answer] = deque()
        self._guard = threading.Lock()
        self._connection = duckdb.connect(str(path), read_only=True)
        super().__init__(_Exchange)

    @property
    def url(self) -> str:
        """As a datasource's configuration wants it."""
        return self.address

    def play(self, *answers: Answer) -> None:
        """Queue answers for the next requests whose token is right."""
        with self._guard:
            self._script.extend(answers)

    def waits(self, polls: int) -> None:
        """Say so often that the query is still running."""
        self.play(*[Answer(200, CONTINUE)] * polls)

    def next_answer(self, method: str, path: str, query: Any) -> Answer:
        """Log a request and take the answer that is due, or the good one."""
        with self._guard:
            self.requests.append((method, path))
            if isinstance(query, dict):
                self.loads.append(cast("dict[str, Any]", query))
            if self._script:
                return self._script.popleft()
            if path == "/cubejs-api/v1/meta" and method == "GET":
                return Answer(200, {"cubes": [cube.described() for cube in self.cubes]})
            if path == "/cubejs-api/v1/load":
                return self._load(query)
            return Answer(404, raw=f"<pre>Cannot {method} {path}</pre>")

    def _load(self, query: Any) -> Answer:
        if not isinstance(query, dict):
            return Answer(400, {"error": "Query param is required"})
        asked = cast("dict[str, Any]", query)
        try:
            sql = Translation(self.cubes, self.highest_limit).sql(asked)
            cursor = self._connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            rows = [dict(zip(names, map(sent, row), strict=True)) for row in cursor.fetchall()]
        except QueryRefused as error:
            return Answer(400, {"error": f"Error: {error}"})
        except duckdb.Error as error:
            return Answer(500, {"error": f"Error: {error}"})
        for row in rows:  # as Cube does, for clients of old: the time without its granularity too
            row |= {k.rpartition(".")[0]: v for k, v in row.items() if k.count(".") == 2}
        return Answer(200, {"query": asked, "data": rows, "annotation": {}, "slowQuery": False})

    def close(self) -> None:
        """Stop; requests that hang are let go."""
        super().close()
        self._connection.close()


@contextmanager
def cube_server(
    path: Path,
    cubes: Sequence[ModelledCube] = (ORDERS, ORDERS_VIEW, HIDDEN),
    token: str = TOKEN,
) -> Generator[CubeServer]:
    """A server for the length of a ``with`` block, over a file of ``build_sales``."""
    with closing(CubeServer(path, cubes, token)) as server:
        yield server


# ------------------------------------------------------------ the HTTP side


class _Exchange(Exchange):
    @property
    def _owner(self) -> CubeServer:
        return cast("CubeServer", self.owner)

    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query).get("query", ["null"])[0]
        self._reply("GET", json.loads(asked))

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.received() or "{}")
        self._reply("POST", body.get("query"))

    def _reply(self, method: str, query: Any) -> None:
        token = self.headers.get("authorization")
        if token is None:
            self.send_json(403, {"error": "Authorization header isn't set"})
        elif token.removeprefix("Bearer ") != self._owner.token:
            self.send_json(403, {"error": "Invalid token"})
        else:
            self._send(self._owner.next_answer(method, urlsplit(self.path).path, query))

    def _send(self, answer: Answer) -> None:
        if answer.hang or answer.drop:
            if answer.hang:
                self._owner.hanging.set()
            self.break_off(hang=answer.hang)
        elif answer.raw is not None:
            self.send_text(answer.status, answer.raw, "text/html")
        else:
            self.send_json(answer.status, answer.body)
