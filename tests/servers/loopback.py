"""What the tests' own servers share: a thread that serves on loopback, and how a reply is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast


class LoopbackServer:
    """Serves as soon as it is made, until it is closed. A subclass sets its own fields first."""

    def __init__(self, exchange: type[Exchange], port: int = 0) -> None:
        """``port`` 0 takes a free one."""
        self.stopping = threading.Event()
        """Set when it stops: what a reply that hangs waits for."""
        self._http = _Http(("127.0.0.1", port), exchange, self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """Stop; requests that hang are let go."""
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], exchange: type[Exchange], owner: LoopbackServer
    ) -> None:
        self.owner = owner
        super().__init__(address, exchange)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Exchange(BaseHTTPRequestHandler):
    """One request and its reply."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    @property
    def owner(self) -> LoopbackServer:
        """The server that is asked."""
        return cast("_Http", self.server).owner

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the servers keep logs of their own."""

    def received(self) -> str:
        """The request's body."""
        return self.rfile.read(int(self.headers.get("content-length", 0))).decode()

    def break_off(self, *, hang: bool) -> None:
        """End the connection without a reply: now, or when the server stops."""
        if hang:
            self.owner.stopping.wait()
        self.close_connection = True

    def send_json(self, code: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """Reply with JSON."""
        self.send_text(code, json.dumps(body), "application/json", headers)

    def send_text(
        self, code: int, text: str, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Reply with a text of the content type ``kind``."""
        data = text.encode()
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
