"""LLM: one way to one provider, with retry, pacing and accounting, for all who ask."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any, Protocol

from actors.calls import call
from actors.cluster import NAMESPACE
from actors.leased import Leases, acquire
from actors.remote import actor, cancel
from adapters.llm import choose, open_model
from adapters.llm.failures import shown
from adapters.llm.metered import MeteredModel
from pipeline.errors import ModelUnreachable, VeridicalError
from pipeline.ports import ChatReply, ChatRequest, ModelInfo
from pipeline.records import LlmConfig
from pipeline.settings import ModelSettings

log = logging.getLogger(__name__)


class LlmShell(Leases):
    """Opens the model on first use; calls run side by side on the actor's event loop."""

    def __init__(
        self, config: LlmConfig, settings: ModelSettings, learnt_window: int | None
    ) -> None:
        super().__init__()
        self._config, self._settings, self._learnt_window = config, settings, learnt_window
        self._opening = asyncio.Lock()
        self._opened: MeteredModel | None = None

    async def _model(self) -> MeteredModel:
        async with self._opening:
            if self._opened is None:
                model = await asyncio.to_thread(
                    open_model, self._config, self._settings, self._learnt_window
                )
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


class Windows(Protocol):
    """Context windows that providers have stated, by model; see ``adapters.store``."""

    async def learnt(self, model: str) -> int | None: ...

    async def learn(self, model: str, window: int) -> None: ...


def window_name(config: LlmConfig, settings: ModelSettings) -> str:
    """A model at an address, which is what has a window."""
    choice = choose(config, settings)
    return f"{choice.provider} {shown(choice.url)} {choice.model}"


async def start_llm(
    config: LlmConfig, settings: ModelSettings, holder: str, windows: Windows
) -> ModelClient:
    """The cluster's actor for this provider and credential; a paid call is never sent twice."""
    learnt = await windows.learnt(window_name(config, settings))
    named = actor(LlmShell, restarts=2, concurrency=64).options(
        name=actor_name(config, settings),
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
    )
    handle = await acquire(lambda: named.remote(config, settings, learnt), holder)
    return ModelClient(handle, await call(handle.info.remote(), _lost))


async def keep_window(
    config: LlmConfig, settings: ModelSettings, model: ModelClient, windows: Windows
) -> None:
    """Store the window that the provider has stated since ``model`` was started, if it has. The
    run does not depend on it."""
    try:
        now = await call(model.handle.info.remote(), _lost)
        if now.context_window != model.info.context_window:
            await windows.learn(window_name(config, settings), now.context_window)
    except VeridicalError as error:
        log.warning("a learnt context window was not kept: %s", error)
