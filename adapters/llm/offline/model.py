"""The offline analyst: a ``LanguageModel`` made of rules. No language model is involved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from adapters.llm.offline import refuter, verifier
from adapters.llm.offline.analyst import insights
from adapters.llm.offline.explorer import next_action
from adapters.llm.offline.fixer import repair
from adapters.llm.offline.reading import Json, role_of
from adapters.llm.offline.recommender import recommendations
from pipeline.ports import ChatReply, ChatRequest, ModelInfo, Usage

_CHARS_PER_TOKEN = 3.5


def _json(reply: Json) -> str:
    return json.dumps(reply, ensure_ascii=False, allow_nan=False)


_ROLES: dict[str, Callable[[ChatRequest], str]] = {
    "explorer": lambda request: _json(next_action(request)),
    "analyst": lambda request: _json(insights(request)),
    "recommender": lambda request: _json(recommendations(request)),
    "sql_fixer": repair,
    "verifier": lambda request: _json(verifier.next_move(request)),
    "refuter": lambda request: _json(refuter.next_move(request)),
}


class OfflineAnalyst:
    """Plays every role from the prompt alone: the same request always gives the same reply."""

    info = ModelInfo(provider="offline", model="offline-analyst")

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer once; never raises. Usage is an estimate, so that token budgets still bite."""
        text = await asyncio.to_thread(answer, request)
        read = len(request.system) + sum(len(m.content) for m in request.messages)
        usage = Usage(int(read / _CHARS_PER_TOKEN), int(len(text) / _CHARS_PER_TOKEN))
        return ChatReply(text=text, usage=usage)


def answer(request: ChatRequest) -> str:
    """The reply's text; plain words instead of JSON when no role can be played."""
    role = role_of(request)
    play = _ROLES.get(role)
    if play is None:
        known = ", ".join(sorted(_ROLES))
        asked = f"the role {role!r}" if role else "a prompt that names no role"
        return f"The offline analyst cannot play {asked}; it knows: {known}."
    try:
        return play(request)
    except Exception as error:  # noqa: BLE001 - an odd prompt must end in words, not in a crash
        return f"The offline analyst could not use this prompt ({type(error).__name__}: {error})."
