"""One retry rule for every provider: which failures pass, and how long to wait for it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from pipeline.errors import ModelBusy, ModelUnreachable
from pipeline.ports import ChatReply, ChatRequest, LanguageModel, ModelInfo
from pipeline.settings import ModelSettings

log = logging.getLogger(__name__)

LONGEST_WAIT = 60.0
JITTER = 0.25

Sleep = Callable[[float], Awaitable[None]]


class OpenedModel(LanguageModel, Protocol):
    """A language model that holds connections."""

    async def ping(self) -> None:
        """Check that it can be used, without a retry. Raises ``ModelError``."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Reference A.1: total tries, and seconds before the second one; 1 means no retry."""

    attempts: int = 3
    base: float = 5.0

    @classmethod
    def of(cls, settings: ModelSettings) -> RetryPolicy:
        """From LLM_RETRY_MAX_ATTEMPTS (below 1 counts as 1) and LLM_RETRY_BASE_BACKOFF."""
        return cls(max(1, settings.LLM_RETRY_MAX_ATTEMPTS), settings.LLM_RETRY_BASE_BACKOFF)


def transient(error: BaseException) -> bool:
    """True for rate limits, overload, server errors, time-outs and lost connections.

    Never for credentials, other client errors, unreadable replies or a cancellation.
    """
    return isinstance(error, (ModelBusy, ModelUnreachable))


def wait_seconds(
    policy: RetryPolicy, tries: int, error: BaseException | None, spread: float
) -> float:
    """Seconds to wait after try number ``tries`` (from 1); ``spread`` is -1 to 1.

    What the provider asks for (at most 60 s), else ``base * 2 ** (tries - 1)``, at most 60 s,
    moved by up to a quarter.
    """
    if isinstance(error, ModelBusy) and error.retry_after_s is not None:
        return min(max(error.retry_after_s, 0.0), LONGEST_WAIT)
    backoff = min(policy.base * 2.0 ** min(tries - 1, 32), LONGEST_WAIT)
    return backoff * (1 + JITTER * spread)


def retrying(policy: RetryPolicy, sleep: Sleep = asyncio.sleep) -> AsyncRetrying:
    """A tenacity loop over this module's rule; the last error comes out as it is."""

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return wait_seconds(policy, state.attempt_number, error, random.uniform(-1, 1))

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning(
            "try %d of %d failed, the next one is in %.1f s: %s",
            state.attempt_number,
            policy.attempts,
            state.upcoming_sleep,
            error,
        )

    return AsyncRetrying(
        stop=stop_after_attempt(max(1, policy.attempts)),
        wait=wait,
        retry=retry_if_exception(transient),
        before_sleep=tell,
        sleep=sleep,
        reraise=True,
    )


class RetryingModel:
    """A ``LanguageModel`` that calls another again when a failure may pass."""

    def __init__(
        self, inner: OpenedModel, policy: RetryPolicy, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._inner = inner
        self._retrying = retrying(policy, sleep)

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer, with up to the policy's number of tries. Raises ``ModelError``."""
        return await self._retrying.copy()(self._inner.chat, request)

    async def ping(self) -> None:
        """See ``OpenedModel``."""
        await self._inner.ping()

    async def close(self) -> None:
        """See ``OpenedModel``."""
        await self._inner.close()
