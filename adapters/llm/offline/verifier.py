"""The verifier: lists the claims, asks the warehouse again in another way, and judges each."""

from __future__ import annotations

from adapters.llm.offline.judging.court import Court
from adapters.llm.offline.openclaims.open_court import OpenCourt
from adapters.llm.offline.reading import Json, hearing
from pipeline.ports import ChatRequest


def next_move(request: ChatRequest) -> Json:
    """The verifier's next envelope."""
    heard = hearing(request)
    court = Court if heard.bundle.get("source_steps") else OpenCourt
    return court(heard, refute=False).move()
