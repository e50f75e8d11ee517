"""From what a provider answered to one error, in one sentence that says what to do. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from adapters.llm.overflow import OutputTooLarge, Overflow, output_limit, overflow
from pipeline.errors import (
    ContextOverflow,
    ModelAuthError,
    ModelBadReply,
    ModelBusy,
    ModelError,
    ModelUnreachable,
)

_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_BUSY = {500, 502, 503, 529}
_TIMED_OUT = {499, 504}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls go, and which settings a person changes when they fail."""

    name: str
    """As it begins a sentence: ``Anthropic``, ``OpenAI``, ``The model server at http://…``."""
    url: str
    model: str = ""
    secret: str = field(default="", repr=False)
    key_variable: str = ""
    url_variable: str = ""
    model_variable: str = "LLM_MODEL"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer, as read from status, headers and body."""

    status: int
    kind: str = ""
    """The body's ``error.type``; it decides when the status is 200 (an error inside a stream)."""
    code: str = ""
    message: str = ""
    retry_after: float | None = None


def shown(url: str) -> str:
    """The URL without user name, password, query or trailing slash, fit for a log."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that ``retry-after-ms`` or ``retry-after`` (seconds or a date) ask for, or None."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if (seconds := _number(text)) is not None or text is None:
        return seconds
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


def problem(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Problem:
    """Read an error body: ``{"error": {…}}``, the inner object, ``{"detail": …}`` or plain text."""
    outer = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    inner_any = outer.get("error", outer)
    inner = cast("dict[str, Any]", inner_any) if isinstance(inner_any, dict) else {}
    message = inner.get("message") or inner.get("detail") or outer.get("message")
    if not message:
        message = inner_any if isinstance(inner_any, str) else body if isinstance(body, str) else ""
    message = str(message)
    for size in ("n_prompt_tokens", "n_ctx"):  # llama.cpp states them beside the message
        if size in inner and size not in message:
            message = f"{message} {size}={inner[size]}"
    return Problem(
        status=status,
        kind=str(inner.get("type") or ""),
        code=str(inner.get("code") or ""),
        message=message,
        retry_after=retry_after(headers or {}),
    )


def failure(endpoint: Endpoint, found: Problem) -> ModelError:
    """The error to raise for an error answer of a provider."""
    status = found.status
    if status < 400:
        status = _STATUS_OF_KIND.get(found.kind) or _inner_status(found.code)
    if status in {401, 402, 403} or found.code in _QUOTA or found.kind in _QUOTA:
        return _account(endpoint, found, status)
    if status == 404:
        return ModelError(_not_found(endpoint, found))
    if status == 429:
        return _busy(endpoint, found, f"limits the rate of calls ({_detail(endpoint, found, 429)})")
    if told := _too_large(endpoint, found, status):
        return told
    if status in _TIMED_OUT:
        return ModelUnreachable(
            f"{endpoint.name} gave up on the call in time ({_detail(endpoint, found, status)}): "
            "run the command again, or choose a faster model with "
            f"{endpoint.model_variable}."
        )
    if status in _BUSY:
        what = "is overloaded" if status in {503, 529} else "had an error of its own"
        return _busy(endpoint, found, f"{what} ({_detail(endpoint, found, status)})")
    return ModelError(
        f"{endpoint.name} rejected the request ({_detail(endpoint, found, status)}): check "
        f"{endpoint.model_variable} and {_address(endpoint)}."
    )


def bad_reply(endpoint: Endpoint, what: str) -> ModelBadReply:
    """For an answer with status 200 that is no completion."""
    return ModelBadReply(
        f"{endpoint.name} answered with {what}: check that {_address(endpoint)} points to its API "
        f"and that {endpoint.model_variable} names a chat model."
    )


def _account(endpoint: Endpoint, found: Problem, status: int) -> ModelAuthError:
    key = endpoint.key_variable or "the key"
    if status in {401, 403}:
        return ModelAuthError(
            f"{endpoint.name} refused the API key ({status}): set {key} to a valid key that may "
            f"use {endpoint.model or 'the model'}."
        )
    return ModelAuthError(
        f"{endpoint.name} refused the account ({_detail(endpoint, found, status)}): add credit or "
        f"raise the quota of the account that {key} belongs to."
    )


def _not_found(endpoint: Endpoint, found: Problem) -> str:
    text = f"{found.code} {found.message}".lower()
    if "model" in text or found.kind == "not_found_error":
        return (
            f"{endpoint.name} does not know the model {endpoint.model!r} "
            f"({_detail(endpoint, found, 404)}): set {endpoint.model_variable} to one it offers."
        )
    return (
        f"{endpoint.name} has no such address as {shown(endpoint.url)} (404): correct "
        f"{_address(endpoint)}; it usually ends in /v1."
    )


def _too_large(endpoint: Endpoint, found: Problem, status: int) -> ModelError | None:
    text = f"{found.message} {found.code} {found.kind}"
    told = overflow(text)
    if told is None and status == 413:
        told = Overflow()
    if told is not None:
        return ContextOverflow(
            f"The request does not fit the context window of {endpoint.model or endpoint.name} "
            f"({_detail(endpoint, found, status)}): set {endpoint.model_variable} to a model with a"
            " larger window, or run with fewer steps.",
            told.window,
            told.used,
        )
    limit = output_limit(text) if status in {400, 422} else None
    if limit is None:
        return None
    return OutputTooLarge(
        f"{endpoint.model or endpoint.name} writes at most {limit} tokens in one answer: lower "
        f"the output limit, or set {endpoint.model_variable} to another model.",
        limit,
    )


def _busy(endpoint: Endpoint, found: Problem, what: str) -> ModelBusy:
    return ModelBusy(
        f"{endpoint.name} {what}: wait a little and run the command again, or set "
        "LLM_REQUEST_DELAY_MS to space the calls out.",
        found.retry_after,
    )


def _address(endpoint: Endpoint) -> str:
    return endpoint.url_variable or shown(endpoint.url)


def _detail(endpoint: Endpoint, found: Problem, status: int) -> str:
    text = " ".join(found.message.split())
    if endpoint.secret:
        text = text.replace(endpoint.secret, "***")
    if text.lstrip().startswith("<"):
        text = ""  # a proxy's web page says nothing to a reader
    text = text if len(text) <= 200 else text[:199] + "…"
    return f"{status}: {text.rstrip('.')}" if text else str(status or found.kind or "no reason")


def _inner_status(code: str) -> int:
    """Some gateways answer 200 and put the status of the real failure into ``error.code``."""
    return int(code) if code.isdecimal() and 400 <= int(code) < 600 else 0


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) and value >= 0 else None
