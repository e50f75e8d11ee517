"""Which model is used, decided from the project and the environment, without any call."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.llm.catalog import ANTHROPIC_URL, DEFAULT_ANTHROPIC, DEFAULT_OPENAI, OPENAI_URL
from adapters.llm.failures import shown
from pipeline.errors import BadRequest
from pipeline.records import LlmConfig
from pipeline.settings import ModelSettings

_PROVIDERS = {
    "anthropic": "anthropic",
    "claude": "anthropic",
    "openai": "openai",
    "openai-compatible": "openai",
    "litellm": "openai",
    "ollama": "openai",
    "offline": "offline",
}


@dataclass(frozen=True, slots=True)
class ModelChoice:
    provider: str
    """``anthropic``, ``openai`` or ``offline``."""
    model: str
    """Empty when the server is asked for the first model that it offers."""
    url: str
    """Empty for the offline analyst."""
    reason: str
    """What decided, to end a sentence with ``because …``."""
    own_server: bool = False
    """True when the address is not the provider's own."""
    environment_url: bool = True
    """False when a project names an address of its own; the environment's key is not sent there."""

    @property
    def sentence(self) -> str:
        """What will be used and why, in plain words."""
        if self.provider == "offline":
            return (
                "No language model is involved: the offline analyst writes all statements from "
                f"rules, because {self.reason}. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or "
                "OPENAI_BASE_URL to use a model."
            )
        model = f"the model {self.model}" if self.model else "the first model offered"
        vendor = {"anthropic": "Anthropic", "openai": "OpenAI"}[self.provider]
        where = f"at {shown(self.url)}" if self.own_server else f"of {vendor}"
        return f"Statements come from {model} {where}, because {self.reason}."


def choose(config: LlmConfig, settings: ModelSettings) -> ModelChoice:
    """The project's provider, else LLM_PROVIDER, else what the environment has a key or an address
    for, else the offline analyst. Raises ``BadRequest`` for a provider that is not known."""
    provider, reason = _provider(config, settings)
    if provider == "offline":
        return ModelChoice(provider, "offline-analyst", "", reason)
    own, environment, default = {
        "anthropic": (ANTHROPIC_URL, settings.ANTHROPIC_BASE_URL.strip(), DEFAULT_ANTHROPIC),
        "openai": (OPENAI_URL, settings.OPENAI_BASE_URL.strip(), DEFAULT_OPENAI),
    }[provider]
    named = str(config.config.get("base_url") or "").strip()
    url = named or environment or own
    own_server = url.rstrip("/") != own
    model = config.model.strip() or _environment_model(provider, settings)
    if not model and not (provider == "openai" and own_server):
        model = default
    return ModelChoice(
        provider,
        model,
        url,
        reason,
        own_server=own_server,
        environment_url=url.rstrip("/") == (environment or own).rstrip("/"),
    )


def _provider(config: LlmConfig, settings: ModelSettings) -> tuple[str, str]:
    if name := config.provider.strip().lower():
        if name not in _PROVIDERS:
            raise BadRequest(
                f"The project names the model provider {config.provider!r}, which is not known: "
                "use anthropic, openai (any compatible server, with base_url) or offline."
            )
        return _PROVIDERS[name], "the project says so"
    return _environment_provider(settings)


def _environment_provider(settings: ModelSettings) -> tuple[str, str]:
    if settings.LLM_PROVIDER:
        return settings.LLM_PROVIDER, "LLM_PROVIDER says so"
    if settings.ANTHROPIC_API_KEY.strip():
        return "anthropic", "ANTHROPIC_API_KEY is set"
    if settings.OPENAI_API_KEY.strip():
        return "openai", "OPENAI_API_KEY is set"
    if settings.OPENAI_BASE_URL.strip():
        return "openai", "OPENAI_BASE_URL is set"
    return "offline", "no key and no address of a model is set"


def _environment_model(provider: str, settings: ModelSettings) -> str:
    """LLM_MODEL, unless the environment means it for another provider than the project's."""
    meant = _environment_provider(settings)[0]
    return settings.LLM_MODEL.strip() if meant in {provider, "offline"} else ""
