"""The offline analyst behind a provider's protocol: a model server that gives sensible answers.

With it a whole run goes over the wire and through the real SDKs, Chat Completions or Messages.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

from adapters.llm.offline.model import answer
from pipeline.ports import ChatRequest, Message
from tests.servers.model_server import (
    Answer,
    ModelServer,
    Request,
    completion,
    message,
    message_stream,
)


def _text(content: Any) -> str:
    """A content is a text or a list of text blocks."""
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)


def asked(body: dict[str, Any]) -> ChatRequest:
    """The request that a provider's request body carries."""
    turns = body["messages"]
    system = _text(body.get("system", ""))
    if turns and turns[0]["role"] in ("system", "developer"):
        system, turns = _text(turns[0]["content"]), turns[1:]
    messages = tuple(Message(turn["role"], _text(turn["content"])) for turn in turns)
    return ChatRequest(system=system, messages=messages, max_tokens=4096)


class AnalystServer(ModelServer):
    """Scripted answers come first; then the analyst answers."""

    def next_answer(self, request: Request) -> Answer:
        """Log the request and answer it."""
        due = super().next_answer(request)
        if due != Answer() or request.method == "GET":
            return due
        text = answer(asked(request.body))
        if not request.path.endswith("/messages"):
            return completion(text)
        return message_stream(text) if request.body.get("stream") else message(text)


@contextmanager
def analyst_server() -> Generator[AnalystServer]:
    """A server for the length of a ``with`` block."""
    with closing(AnalystServer()) as server:
        yield server
