"""Keeps web pages out: the API has no login, and a browser on this machine can reach it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from serve.api.envelopes import failure

READING = {"GET", "HEAD", "OPTIONS"}


class OwnPagesOnly:
    """Refuses a request that was addressed to a name of the internet, which a page can make lead
    here (DNS rebinding), and one that would change something on behalf of another site's page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = complaint(scope["method"], scope["headers"]) if scope["type"] == "http" else ""
        if why:
            await failure(why, 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def complaint(method: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Why a request with these headers is refused; empty if it is not."""
    given = {name.lower(): value.decode("latin-1") for name, value in headers}
    host, origin = given.get(b"host", ""), given.get(b"origin", "")
    if not _is_local(host):
        return f"{host!r} is not this API's address; ask for it by its IP address or as localhost"
    if origin and method not in READING and _netloc(origin) != host.lower():
        return f"a page of {origin!r} may not use this API"
    return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_local(host: str) -> bool:
    """True for an IP address and for a name that nobody can own in the internet: one without a
    dot, or below localhost."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if "." not in name and ":" not in name:
        return True
    if name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
