"""A scripted model server on loopback: Chat Completions, Messages, embeddings, model list.

The test double for providers. It plays a list of ``Answer`` one a request, then goes on with plain
good answers, and keeps a log of what it was asked.

In a test::

    with model_server() as server:
        server.play(status(429, retry_after="2"), completion("hello"))
        ... OPENAI_BASE_URL = server.openai_url, ANTHROPIC_BASE_URL = server.anthropic_url
        assert server.requests[0].body["model"] == "test-model"

As a process of its own: ``python -m tests.servers.model_server [--port N] [--script FILE]``, where
FILE holds a JSON list of answers (the fields of ``Answer``). It prints ``READY <address>``. More
answers are queued by ``POST /_script``; ``GET /_log`` shows the requests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from tests.servers.loopback import Exchange, LoopbackServer

MODEL = "test-model"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets. The first of drop, hang, events, raw, body that is set is sent."""

    status: int = 200
    body: Any = None
    """Sent as JSON; None sends a good answer of the kind that the path asks for."""
    raw: str | None = None
    """Sent as it is, with ``content_type``."""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    events: list[tuple[str, Any]] | None = None
    """A stream of server-sent events (name, data); then the connection ends."""
    drop: bool = False
    """Close the connection without an answer."""
    hang: bool = False
    """Keep the connection open without an answer until the server stops."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    raw: str = ""
    """The body as it was on the wire."""


class ModelServer(LoopbackServer):
    """What tests hold: where it listens, what it plays, what it was asked."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.models: list[dict[str, Any]] = [{"id": MODEL, "object": "model"}]
        self.dim = 8
        """Size of the vectors of good embedding answers."""
        self._script: deque[Answer] = deque()
        self._guard = threading.Lock()
        super().__init__(_Exchange, port)

    @property
    def anthropic_url(self) -> str:
        """As ANTHROPIC_BASE_URL wants it."""
        return self.address

    @property
    def openai_url(self) -> str:
        """As OPENAI_BASE_URL and EMBEDDING_BASE_URL want it."""
        return f"{self.anthropic_url}/v1"

    @property
    def chats(self) -> list[Request]:
        """The requests for a completion or a message."""
        return [r for r in self.requests if r.path.endswith(("/chat/completions", "/messages"))]

    def play(self, *answers: Answer) -> None:
        """Queue answers for the next requests that are not for the model list."""
        with self._guard:
            self._script.extend(answers)

    def next_answer(self, request: Request) -> Answer:
        """Log the request and take the answer that is due."""
        with self._guard:
            self.requests.append(request)
            if request.method == "GET" or not self._script:
                return Answer()
            return self._script.popleft()


@contextmanager
def model_server(port: int = 0) -> Generator[ModelServer]:
    """A server for the length of a ``with`` block."""
    with closing(ModelServer(port)) as server:
        yield server


# ------------------------------------------------------------ answers, as providers shape them


def completion(
    text: str | None = "hello",
    *,
    finish: str | None = "stop",
    refusal: str | None = None,
    reasoning: str | None = None,
    prompt: int = 10,
    output: int = 5,
    cached: int = 0,
) -> Answer:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": refusal}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    return Answer(
        body={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, "finish_reason": finish, "message": message}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": output,
                "total_tokens": prompt + output,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }
    )


def message(
    text: str = "hello",
    *,
    stop: str | None = "end_turn",
    thinking: str = "",
    category: str = "",
    prompt: int = 10,
    output: int = 5,
    cached: int = 0,
    written: int = 0,
) -> Answer:
    """A message of the Messages API; ``category`` fills ``stop_details`` of a refusal."""
    content: list[dict[str, Any]] = []
    if thinking:
        content.append({"type": "thinking", "thinking": thinking, "signature": "s"})
    if text:
        content.append({"type": "text", "text": text})
    return Answer(
        body={
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "stop_details": {"type": "refusal", "category": category} if category else None,
            "usage": {
                "input_tokens": prompt,
                "output_tokens": output,
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": written,
            },
        }
    )


def message_stream(text: str = "hello", *, stop: str | None = "end_turn") -> Answer:
    """A streamed message; ``stop=None`` ends it before its end."""
    start = message("", stop=None).body
    events: list[tuple[str, Any]] = [
        ("message_start", {"type": "message_start", "message": start}),
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    ]
    events += [
        _event("content_block_delta", index=0, delta={"type": "text_delta", "text": part})
        for part in (text[:2], text[2:])
    ]
    if stop is not None:
        delta = {"stop_reason": stop, "stop_sequence": None}
        events += [
            _event("content_block_stop", index=0),
            _event("message_delta", delta=delta, usage={"output_tokens": 7}),
            _event("message_stop"),
        ]
    return Answer(events=events)


def status(
    code: int,
    text: str = "",
    *,
    kind: str = "",
    error_code: str | None = None,
    retry_after: str | None = None,
    param: str | None = None,
) -> Answer:
    """An error answer that suits both APIs."""
    error = {"message": text, "type": kind, "code": error_code, "param": param}
    return Answer(
        status=code,
        body={"type": "error", "error": error},
        headers={} if retry_after is None else {"retry-after": retry_after},
    )


def embeddings(vectors: Iterable[list[float]]) -> Answer:
    """Vectors, in order."""
    data = [
        {"object": "embedding", "index": place, "embedding": vector}
        for place, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Answer(body={"object": "list", "model": MODEL, "data": data, "usage": usage})


HTML = Answer(raw="<!doctype html><title>Welcome</title>", content_type="text/html")
BAD_JSON = Answer(raw='{"id": "chatcmpl-1", "choices": [{"ind')
NO_CHOICES = Answer(body={"id": "chatcmpl-1", "object": "chat.completion"})
DROP = Answer(drop=True)
HANG = Answer(hang=True)


def _event(name: str, **data: Any) -> tuple[str, Any]:
    return name, {"type": name, **data}


def _vector(text: str, dim: int) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return [digest[place % len(digest)] / 255 - 0.5 for place in range(dim)]


# ------------------------------------------------------------ the HTTP side


class _Exchange(Exchange):
    @property
    def _owner(self) -> ModelServer:
        return cast("ModelServer", self.owner)

    def do_GET(self) -> None:
        if self.path == "/_log":
            self.send_json(200, [asdict(request) for request in self._owner.requests])
        else:
            self._play(self._request({}, ""))

    def do_POST(self) -> None:
        text = self.received()
        body = json.loads(text or "{}")
        if self.path == "/_script":
            self._owner.play(*map(answer_from, body))
            self.send_json(200, {"queued": len(body)})
        else:
            self._play(self._request(body, text))

    def _request(self, body: dict[str, Any], raw: str) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, self.path.partition("?")[0], headers, body, raw)

    def _play(self, request: Request) -> None:
        answer = self._owner.next_answer(request)
        if answer.drop or answer.hang:
            self.break_off(hang=answer.hang)
        elif answer.events is not None:
            self._stream(answer.events)
        elif answer.raw is not None:
            self.send_text(answer.status, answer.raw, answer.content_type, answer.headers)
        elif answer.body is not None:
            self.send_json(answer.status, answer.body, answer.headers)
        else:
            self.send_json(answer.status, self._good(request), answer.headers)

    def _good(self, request: Request) -> Any:
        path = request.path
        if path.endswith("/messages"):
            return message().body
        if path.endswith("/embeddings"):
            given = request.body.get("input", "")
            texts = [given] if isinstance(given, str) else list(given)
            return embeddings(_vector(text, self._owner.dim) for text in texts).body
        if "/models/" in path:
            name = path.rpartition("/")[2]
            return {"id": name, "type": "model", "display_name": name}
        if path.endswith("/models"):
            return {"object": "list", "data": self._owner.models}
        return completion().body

    def _stream(self, events: list[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"event: {name}\ndata: {text}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True


def answer_from(described: dict[str, Any]) -> Answer:
    """An ``Answer`` from JSON; fields that it does not have are refused."""
    unknown = set(described) - {known.name for known in fields(Answer)}
    if unknown:
        raise ValueError(f"no such fields of an answer: {', '.join(sorted(unknown))}")
    return Answer(**described)


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="A scripted model server on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, help="a JSON list of answers")
    options = parser.parse_args(arguments)
    with model_server(options.port) as server:
        if options.script:
            server.play(*map(answer_from, json.loads(options.script.read_text())))
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stop.set())
        print("READY", server.anthropic_url, flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
