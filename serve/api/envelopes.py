"""The two envelopes: ``{"data": …}`` for every success and ``{"error": "…"}`` for every failure."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from pipeline.errors import Conflict, ForCaller, ForOperator, NotFound

log = logging.getLogger(__name__)


class Answer(JSONResponse):
    """JSON in UTF-8; half a character, which UTF-8 cannot carry, is written as its JSON escape."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def data(
    payload: BaseModel | Sequence[BaseModel] | dict[str, Any], status: int = 200
) -> JSONResponse:
    """A success: a record, a list of records, or a plain object."""
    if isinstance(payload, BaseModel):
        content: Any = payload.model_dump(mode="json")
    elif isinstance(payload, dict):
        content = payload
    else:
        content = [item.model_dump(mode="json") for item in payload]
    return Answer({"data": content}, status)


def failure(
    error: str, code: int, *, headers: dict[str, str] | None = None, **more: object
) -> JSONResponse:
    """A failure in one sentence; ``more`` stands beside the sentence."""
    return Answer({"error": error, **more}, code, headers)


def status_of(error: ForCaller) -> int:
    if isinstance(error, NotFound):
        return 404
    return 409 if isinstance(error, Conflict) else 400


async def _caller(request: Request, error: ForCaller) -> JSONResponse:
    return failure(str(error), status_of(error))


async def _operator(request: Request, error: ForOperator) -> JSONResponse:
    log.error("%s %s: %s", request.method, request.url.path, error)
    return failure(str(error), 503)


async def _http(request: Request, error: HTTPException) -> JSONResponse:
    sentences = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.url.path} does not take {request.method}",
    }
    message = sentences.get(error.status_code, str(error.detail))
    return failure(message, error.status_code, headers=dict(error.headers or {}))


async def _validation(request: Request, error: RequestValidationError) -> JSONResponse:
    return failure("; ".join(_complaint(item) for item in error.errors()), 400)


def _complaint(item: dict[str, Any]) -> str:
    where, *path = (str(part) for part in item["loc"])
    if item["type"] == "json_invalid":
        return f"the body is not JSON: {item.get('ctx', {}).get('error', 'unreadable')}"
    message = str(item["msg"]).removeprefix("Value error, ")
    if not path:
        own = item["type"] == "value_error"
        return message if own else f"the {where} is missing or not an object"
    if item["type"] == "missing":
        return f"{'.'.join(path)} is missing"
    return f"{'.'.join(path)}: {message[:1].lower()}{message[1:]}"


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    number = uuid4().hex[:12]
    log.error("%s %s failed (%s)", request.method, request.url.path, number, exc_info=error)
    return failure(f"something unexpected went wrong; the server's log has it as {number}", 500)


def install(app: FastAPI) -> None:
    """Make every way of failing answer with the error envelope."""
    app.exception_handler(ForCaller)(_caller)
    app.exception_handler(ForOperator)(_operator)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(RequestValidationError)(_validation)
    app.exception_handler(Exception)(_unexpected)
