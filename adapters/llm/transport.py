"""What both SDKs share below the request: time limits, and why a connection failed."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Any

import httpx2

from adapters.causes import causes
from adapters.llm.failures import Endpoint, failure, problem, shown
from adapters.llm.wire import items, mapping, read_body
from pipeline.errors import ModelError, ModelUnreachable

CONNECT_SECONDS = 10.0
BEFOREHAND_SECONDS = 15.0


def limits(seconds: float) -> httpx2.Timeout:
    """Time limits for an SDK's client. They hold for each read; the whole call is limited above."""
    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def timed_out(endpoint: Endpoint, seconds: float) -> ModelUnreachable:
    """The error for a call without an answer in time."""
    return ModelUnreachable(
        f"{endpoint.name} gave no answer within {seconds:g} seconds: raise LLM_TIMEOUT, or check "
        f"the server at {shown(endpoint.url)}."
    )


def unreachable(endpoint: Endpoint, error: BaseException) -> ModelError:
    """The error for a call that failed below HTTP, with the reason found in its causes."""
    chain = list(causes(error))
    where = shown(endpoint.url)
    fix = f"correct {endpoint.url_variable}" if endpoint.url_variable else "check the network"
    if any(isinstance(c, (httpx2.UnsupportedProtocol, httpx2.InvalidURL)) for c in chain):
        return ModelError(f"{where!r} is no web address: {fix}, for example http://127.0.0.1:8080.")
    if any(isinstance(c, ssl.SSLError) for c in chain):
        return ModelError(
            f"No secure connection to {where} (its certificate or protocol was refused): {fix}."
        )
    if any(isinstance(c, httpx2.TimeoutException) for c in chain):
        what = "did not answer in time"
    elif any(isinstance(c, socket.gaierror) for c in chain):
        what = "has an unknown host name"
    elif any(isinstance(c, OSError) and c.errno == errno.ECONNREFUSED for c in chain):
        what = "refused the connection"
    elif any(isinstance(c, (httpx2.RemoteProtocolError, httpx2.ReadError)) for c in chain):
        what = "dropped the connection"
    else:
        what = "cannot be reached"
    return ModelUnreachable(f"The server at {where} {what}: start it, or {fix}.")


def asked(endpoint: Endpoint, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One question before an SDK is used, to an OpenAI-compatible server: GET, or POST with a body.

    Blocks up to 15 seconds. Raises ``ModelError``.
    """
    try:
        answer = httpx2.request(
            "GET" if body is None else "POST",
            f"{endpoint.url.rstrip('/')}/{path}",
            json=body,
            headers={"authorization": f"Bearer {endpoint.secret}"},
            timeout=BEFOREHAND_SECONDS,
        )
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise unreachable(endpoint, error) from error
    if answer.status_code >= 400:
        raise failure(endpoint, problem(answer.status_code, _body(answer), answer.headers))
    return read_body(endpoint, answer.text)


def listed_models(endpoint: Endpoint) -> list[dict[str, Any]]:
    """``GET /models`` of an OpenAI-compatible server, in its order; see ``asked``."""
    return [mapping(entry) for entry in items(asked(endpoint, "models").get("data"))]


def _body(answer: httpx2.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
