"""Models of both SDKs against the scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from adapters.llm import open_model
from adapters.llm.anthropic import AnthropicModel
from adapters.llm.failures import Endpoint
from adapters.llm.openai import OpenAIModel
from adapters.llm.retry import OpenedModel
from pipeline.ports import ChatRequest, Message, ModelInfo
from pipeline.records import LlmConfig
from pipeline.settings import ModelSettings
from tests.servers.model_server import MODEL, ModelServer

SECRET = "sk-test-0123456789"


def endpoint(url: str, provider: str) -> Endpoint:
    vendor = provider.upper()
    return Endpoint(
        name=f"The model server at {url}",
        url=url,
        model=MODEL,
        secret=SECRET,
        key_variable=f"{vendor}_API_KEY",
        url_variable=f"{vendor}_BASE_URL",
    )


def single(server: ModelServer, provider: str, *, timeout: float = 20.0) -> OpenedModel:
    """A model that calls once."""
    info = ModelInfo(provider, MODEL, max_output=32_000)
    if provider == "anthropic":
        return AnthropicModel(endpoint(server.anthropic_url, provider), info, timeout=timeout)
    return OpenAIModel(endpoint(server.openai_url, provider), info, timeout=timeout)


@pytest.fixture(params=["anthropic", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def model(server: ModelServer, provider: str) -> AsyncGenerator[OpenedModel]:
    opened = single(server, provider)
    yield opened
    await opened.close()


@pytest.fixture
async def claude(server: ModelServer) -> AsyncGenerator[OpenedModel]:
    opened = single(server, "anthropic")
    yield opened
    await opened.close()


@pytest.fixture
async def gpt(server: ModelServer) -> AsyncGenerator[OpenedModel]:
    opened = single(server, "openai")
    yield opened
    await opened.close()


def ask(text: str = "hi", *, max_tokens: int = 100, system: str = "be brief") -> ChatRequest:
    return ChatRequest(system, (Message("user", text),), max_tokens, label="test")


async def opened(config: LlmConfig | None = None, /, **settings: object) -> OpenedModel:
    """As a run opens it, with settings by name and without waits between retries."""
    given = {"LLM_RETRY_BASE_BACKOFF": 0.0} | settings
    chosen = config or LlmConfig()
    return await asyncio.to_thread(open_model, chosen, ModelSettings.model_validate(given))


async def opened_at(server: ModelServer, provider: str, **settings: object) -> OpenedModel:
    """The scripted server's model, as a run opens it."""
    url = server.anthropic_url if provider == "anthropic" else server.openai_url
    address: dict[str, object] = {f"{provider.upper()}_BASE_URL": url}
    return await opened(None, LLM_PROVIDER=provider, **address, **settings)
