"""Language models. SDKs are imported only when one of them is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from adapters.llm.choice import ModelChoice, choose
from pipeline.errors import BadRequest, ModelAuthError, ModelError
from pipeline.ports import ChatReply, ChatRequest, LanguageModel, ModelInfo
from pipeline.records import LlmConfig
from pipeline.settings import ModelSettings

if TYPE_CHECKING:
    from adapters.llm.catalog import Limits
    from adapters.llm.failures import Endpoint
    from adapters.llm.retry import OpenedModel

__all__ = ["ModelChoice", "choose", "open_model"]

T = TypeVar("T", int, float)

NO_KEY = "no-key-needed"
"""Sent to servers that need no key: the SDKs insist on one."""


def open_model(
    config: LlmConfig, settings: ModelSettings, learnt_window: int | None = None
) -> OpenedModel:
    """The model that ``choose`` decides on, with retry, pacing and fitted output limits.

    Asks a server that is not the provider's own once for its list of models (up to 15 s, blocking:
    call this in a thread when on an event loop). ``learnt_window``, in tokens, is what the model's
    provider stated in an earlier run. Raises ``ModelError`` when a key is missing or the
    server must name its model and cannot, ``BadRequest`` for settings that make no sense.
    """
    choice = choose(config, settings)
    if choice.provider == "offline":
        from adapters.llm.offline import OfflineAnalyst

        return WithoutConnection(OfflineAnalyst())
    return _hosted(choice, config, settings, learnt_window)


class WithoutConnection:
    """A model in this process, with the methods of one that holds connections."""

    def __init__(self, inner: LanguageModel) -> None:
        self._inner = inner

    @property
    def info(self) -> ModelInfo:
        return self._inner.info

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer as the inner model does."""
        return await self._inner.chat(request)

    async def ping(self) -> None:
        """Nothing can be out of reach."""

    async def close(self) -> None:
        """Nothing to close."""


def _hosted(
    choice: ModelChoice, config: LlmConfig, settings: ModelSettings, learnt: int | None
) -> OpenedModel:
    from adapters.llm.fitting import FittedModel
    from adapters.llm.pacing import PacedModel, Pacer
    from adapters.llm.retry import RetryingModel, RetryPolicy

    endpoint = _endpoint(choice, settings)
    endpoint, limits = _limits(endpoint, choice, config, learnt)
    info = ModelInfo(choice.provider, endpoint.model, limits.window, limits.output)
    timeout = _positive(config.config, "timeout_seconds", float) or settings.LLM_TIMEOUT
    effort = str(config.config.get("effort") or "")
    model: OpenedModel
    if choice.provider == "anthropic":
        from adapters.llm.anthropic import AnthropicModel

        model = AnthropicModel(endpoint, info, timeout=timeout, effort=effort)
    else:
        from adapters.llm.openai import OpenAIModel

        name = "max_tokens" if choice.own_server else "max_completion_tokens"
        model = OpenAIModel(endpoint, info, timeout=timeout, effort=effort, limit_name=name)
    if settings.LLM_REQUEST_DELAY_MS > 0:
        model = PacedModel(model, Pacer(settings.LLM_REQUEST_DELAY_MS / 1000))
    model = RetryingModel(model, RetryPolicy.of(settings))
    return FittedModel(model, reasons=limits.reasons)


def _endpoint(choice: ModelChoice, settings: ModelSettings) -> Endpoint:
    from adapters.llm.failures import Endpoint, shown
    from adapters.secrets import sendable, unsendable

    vendor, key_variable, key, url_variable = {
        "anthropic": (
            "Anthropic",
            "ANTHROPIC_API_KEY",
            settings.ANTHROPIC_API_KEY,
            "ANTHROPIC_BASE_URL",
        ),
        "openai": ("OpenAI", "OPENAI_API_KEY", settings.OPENAI_API_KEY, "OPENAI_BASE_URL"),
    }[choice.provider]
    # The operator's key is the operator's: a project may not have it sent to an address of its own.
    secret = key.strip() if choice.environment_url else ""
    if not sendable(secret):
        raise ModelAuthError(unsendable(key_variable))
    if not secret and not choice.own_server:
        raise ModelAuthError(
            f"{vendor} is chosen because {choice.reason}, but there is no key: set {key_variable}, "
            "or LLM_PROVIDER=offline to go without a model."
        )
    return Endpoint(
        name=f"The model server at {shown(choice.url)}" if choice.own_server else vendor,
        url=choice.url,
        model=choice.model,
        secret=secret or NO_KEY,
        key_variable=key_variable,
        url_variable=url_variable if choice.environment_url else "the project's base_url",
    )


def _limits(
    endpoint: Endpoint, choice: ModelChoice, config: LlmConfig, learnt: int | None
) -> tuple[Endpoint, Limits]:
    """The endpoint with its model settled, and limits: the operator's word, else what was learnt,
    else the server's, else what is known by name (reference A.3)."""
    from adapters.llm import catalog

    listed: list[dict[str, Any]] = []
    if choice.provider == "openai" and choice.own_server:
        listed = _listed(endpoint)
    if not endpoint.model:
        endpoint = replace(endpoint, model=str(listed[0].get("id") or ""))
    found = catalog.limits(endpoint.model)
    entry = next((e for e in listed if e.get("id") == endpoint.model), dict[str, Any]())
    if window := learnt or catalog.listed_window(entry):
        found = replace(found, window=window, output=min(found.output, max(1, window // 2)))
    window = _positive(config.config, "max_input_tokens", int) or found.window
    output = _positive(config.config, "max_output_tokens", int) or found.output
    return endpoint, replace(found, window=window, output=output)


def _listed(endpoint: Endpoint) -> list[dict[str, Any]]:
    from adapters.llm.transport import listed_models

    try:
        listed = listed_models(endpoint)
    except ModelError:
        if endpoint.model:
            return []  # the list would only tell the window; a real failure shows in the first call
        raise
    if not endpoint.model and not (listed and listed[0].get("id")):
        raise ModelError(
            f"{endpoint.name} offers no model by itself: set {endpoint.model_variable}."
        )
    return listed


def _positive(options: dict[str, Any], name: str, kind: type[T]) -> T | None:
    value = options.get(name)
    if value in (None, "", 0):
        return None
    try:
        number = kind(value)
    except (TypeError, ValueError):
        number = kind(0)
    if number <= 0:
        raise BadRequest(f"The project's llm setting {name}={value!r} is no positive number.")
    return number
