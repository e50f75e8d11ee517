"""Embedders: the built-in MiniLM, any OpenAI-compatible server, and hashing for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import BadRequest, ModelError, VectorsUnavailable
from pipeline.ports import Embedder
from pipeline.records import LlmConfig
from pipeline.settings import VectorSettings

if TYPE_CHECKING:
    from adapters.llm.failures import Endpoint

__all__ = ["open_embedder"]

DEFAULT_OPENAI_MODEL = "text-embedding-3-small"

_KNOWN_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072}
_PROVIDERS = {"minilm", "openai", "hashing"}


def open_embedder(config: LlmConfig, settings: VectorSettings) -> Embedder:
    """The project's embedder, else the server that EMBEDDING_* name, else the built-in MiniLM.

    A server is asked once for the size of its vectors, unless the project's ``dimensions`` or the
    model's name tell it: that blocks (call this in a thread, not on an event loop). Raises
    ``VectorsUnavailable``, or ``BadRequest`` for a provider that is not known.
    """
    provider = config.provider.strip().lower()
    if provider and provider not in _PROVIDERS:
        raise BadRequest(
            f"The project names the embedding provider {config.provider!r}, which is not known: "
            f"use one of {', '.join(sorted(_PROVIDERS))}."
        )
    if not provider:
        named = settings.EMBEDDING_BASE_URL, settings.EMBEDDING_API_KEY, settings.EMBEDDING_MODEL
        provider = "openai" if any(value.strip() for value in named) else "minilm"
    if provider == "openai":
        return _served(config, settings)
    if provider == "hashing":
        from adapters.embeddings.hashing import HashingEmbedder

        return HashingEmbedder()
    from adapters.embeddings.minilm import MiniLmEmbedder

    return MiniLmEmbedder()


def _served(config: LlmConfig, settings: VectorSettings) -> Embedder:
    from adapters.embeddings.openai import OpenAIEmbedder, probed

    endpoint = _endpoint(config, settings)
    dimensions = _dimensions(config.config)
    dim = dimensions or _KNOWN_DIMS.get(endpoint.model) or probed(endpoint)
    return OpenAIEmbedder(endpoint, dim, dimensions=dimensions)


def _endpoint(config: LlmConfig, settings: VectorSettings) -> Endpoint:
    from adapters.llm.catalog import OPENAI_URL
    from adapters.llm.failures import Endpoint, shown
    from adapters.secrets import sendable, unsendable

    environment = settings.EMBEDDING_BASE_URL.strip() or OPENAI_URL
    url = str(config.config.get("base_url") or "").strip() or environment
    own_server = url.rstrip("/") != OPENAI_URL
    same = url.rstrip("/") == environment.rstrip("/")
    # The operator's key is the operator's: a project may not have it sent to an address of its own.
    secret = settings.EMBEDDING_API_KEY.strip() if same else ""
    if not sendable(secret):
        raise VectorsUnavailable(unsendable("EMBEDDING_API_KEY"))
    if not secret and not own_server:
        raise VectorsUnavailable(
            "OpenAI is chosen for embeddings, but there is no key: set EMBEDDING_API_KEY, set "
            "EMBEDDING_BASE_URL to another server, or unset EMBEDDING_MODEL to use the built-in "
            "model."
        )
    endpoint = Endpoint(
        name=f"The embedding server at {shown(url)}" if own_server else "OpenAI",
        url=url,
        model=config.model.strip() or settings.EMBEDDING_MODEL.strip(),
        secret=secret or "no-key-needed",
        key_variable="EMBEDDING_API_KEY",
        url_variable="EMBEDDING_BASE_URL" if same else "the project's base_url",
        model_variable="EMBEDDING_MODEL",
    )
    if endpoint.model:
        return endpoint
    return replace(endpoint, model=_first_model(endpoint) if own_server else DEFAULT_OPENAI_MODEL)


def _first_model(endpoint: Endpoint) -> str:
    from adapters.llm.transport import listed_models

    try:
        listed = listed_models(endpoint)
    except ModelError as error:
        raise VectorsUnavailable(str(error)) from error
    if not listed or not listed[0].get("id"):
        raise VectorsUnavailable(f"{endpoint.name} offers no model: set EMBEDDING_MODEL.")
    return str(listed[0]["id"])


def _dimensions(options: dict[str, Any]) -> int | None:
    value = options.get("dimensions")
    if value in (None, "", 0):
        return None
    if not str(value).strip().isdecimal() or int(value) <= 0:
        raise BadRequest(
            f"The project's embedding setting dimensions={value!r} is no whole number."
        )
    return int(value)
