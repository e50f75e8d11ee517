"""LLM: one way to one provider, with retry, pacing and accounting, for all who ask."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from actors.calls import call
from actors.cluster import NAMESPACE
from actors.leased import Leases, acquire
from actors.remote import actor, cancel
from adapters.llm import open_model
from adapters.llm.metered import MeteredModel
from pipeline.errors import ModelUnreachable
from pipeline.ports import ChatReply, ChatRequest, ModelInfo
from pipeline.records import LlmConfig
from pipeline.settings import ModelSettings


class LlmShell(Leases):
    """Opens the model on first use; calls run side by side on the actor's event loop."""

    def __init__(self, config: LlmConfig, settings: ModelSettings) -> None:
        super().__init__()
        self._config, self._settings = config, settings
        self._opening = asyncio.Lock()
        self._opened: MeteredModel | None = None

    async def _model(self) -> MeteredModel:
        async with self._opening:
            if self._opened is None:
                model = await asyncio.to_thread(open_model, self._config, self._settings)
                self._opened = MeteredModel(model)
            return self._opened

    async def info(self) -> ModelInfo:
        return (await self._model()).info

    async def chat(self, request: ChatRequest) -> ChatReply:
        return await (await self._model()).chat(request)


class ModelClient:
    """The ``LanguageModel`` port over an actor."""

    def __init__(self, handle: Any, info: ModelInfo) -> None:
        self.handle, self.info = handle, info

    async def chat(self, request: ChatRequest) -> ChatReply:
        ref = self.handle.chat.remote(request)
        try:
            return await call(ref, _lost)
        except asyncio.CancelledError:
            cancel(ref)
            raise


def _lost(why: str) -> ModelUnreachable:
    return ModelUnreachable(f"the model's actor was lost ({why}); the call was not sent again")


def actor_name(config: LlmConfig, settings: ModelSettings) -> str:
    """One name a provider and credential; the credential itself never shows."""
    secret = repr((config.model_dump(), settings.model_dump()))
    return f"llm:{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


async def start_llm(config: LlmConfig, settings: ModelSettings, holder: str) -> ModelClient:
    """The cluster's actor for this provider and credential; a paid call is never sent twice."""
    named = actor(LlmShell, restarts=2, concurrency=64).options(
        name=actor_name(config, settings),
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
    )
    handle = await acquire(lambda: named.remote(config, settings), holder)
    return ModelClient(handle, await call(handle.info.remote(), _lost))
