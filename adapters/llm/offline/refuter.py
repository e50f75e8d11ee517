"""The refuter: looks for the row that contradicts a claim, in another way than the verifier."""

from __future__ import annotations

from adapters.llm.offline.judging.court import Court
from adapters.llm.offline.openclaims.open_court import OpenCourt
from adapters.llm.offline.reading import Json, hearing
from pipeline.ports import ChatRequest


def next_move(request: ChatRequest) -> Json:
    """The refuter's next envelope."""
    heard = hearing(request)
    court = Court if heard.bundle.get("source_steps") else OpenCourt
    return court(heard, refute=True).move()
