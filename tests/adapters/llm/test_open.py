"""Which model is opened, and what is said about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapters.llm import choose, open_model
from adapters.llm.catalog import DEFAULT_ANTHROPIC, DEFAULT_OPENAI, Limits, limits, listed_window
from pipeline.errors import BadRequest, ModelAuthError, ModelError, ModelUnreachable
from pipeline.records import LlmConfig
from pipeline.settings import ModelSettings
from tests.adapters.conftest import Freshly
from tests.adapters.llm.conftest import SECRET, ask, opened, opened_at
from tests.servers.model_server import MODEL, ModelServer

BOTH = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}
HERE = "http://127.0.0.1:8080/v1"


@pytest.mark.parametrize(
    ("config", "environment", "expected"),
    [
        # the project wins, then LLM_PROVIDER, then a key, then an address, else the analyst
        ({"provider": "openai"}, BOTH, ("openai", DEFAULT_OPENAI)),
        ({"provider": "offline"}, BOTH, ("offline", "offline-analyst")),
        ({"provider": "claude"}, {}, ("anthropic", DEFAULT_ANTHROPIC)),
        ({"provider": "OpenAI", "model": "m"}, {}, ("openai", "m")),
        ({}, BOTH | {"LLM_PROVIDER": "openai"}, ("openai", DEFAULT_OPENAI)),
        ({}, BOTH | {"LLM_PROVIDER": "offline"}, ("offline", "offline-analyst")),
        ({}, BOTH, ("anthropic", DEFAULT_ANTHROPIC)),
        ({}, {"OPENAI_API_KEY": "o"}, ("openai", DEFAULT_OPENAI)),
        ({}, {"OPENAI_BASE_URL": HERE}, ("openai", "")),
        ({}, {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": HERE}, ("openai", "")),
        ({}, {"OPENAI_BASE_URL": HERE, "LLM_MODEL": "m"}, ("openai", "m")),
        ({}, {"ANTHROPIC_BASE_URL": HERE}, ("offline", "offline-analyst")),
        ({}, {"ANTHROPIC_API_KEY": "  "}, ("offline", "offline-analyst")),
        ({}, {}, ("offline", "offline-analyst")),
        # LLM_MODEL names a model of the environment's provider
        ({}, {"ANTHROPIC_API_KEY": "a", "LLM_MODEL": "m"}, ("anthropic", "m")),
        ({"provider": "openai"}, BOTH | {"LLM_MODEL": "m"}, ("openai", DEFAULT_OPENAI)),
        ({"provider": "openai", "model": "p"}, {"LLM_MODEL": "m"}, ("openai", "p")),
        ({"provider": "ollama", "config": {"base_url": HERE}}, {}, ("openai", "")),
    ],
)
def test_the_model_is_chosen_by_project_then_environment(
    config: dict[str, Any], environment: dict[str, str], expected: tuple[str, str]
) -> None:
    choice = choose(LlmConfig(**config), ModelSettings.model_validate(environment))
    assert (choice.provider, choice.model) == expected


def test_what_will_be_used_is_said_in_plain_words() -> None:
    def said(**environment: str) -> str:
        return choose(LlmConfig(), ModelSettings.model_validate(environment)).sentence

    assert said().startswith("No language model is involved: the offline analyst")
    assert said(ANTHROPIC_API_KEY="a") == (
        f"Statements come from the model {DEFAULT_ANTHROPIC} of Anthropic, because "
        "ANTHROPIC_API_KEY is set."
    )
    assert said(OPENAI_BASE_URL="http://me:pw@here/v1") == (
        "Statements come from the first model offered at http://here/v1, because OPENAI_BASE_URL "
        "is set."
    )


def test_a_provider_that_is_not_known_is_refused() -> None:
    with pytest.raises(BadRequest, match="'gemini'"):
        choose(LlmConfig(provider="gemini"), ModelSettings())


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_missing_key_names_the_variable(provider: str) -> None:
    with pytest.raises(ModelAuthError, match=f"set {provider.upper()}_API_KEY"):
        await opened(LLM_PROVIDER=provider)


@pytest.mark.parametrize("key", ["k\u00e9y", "two\nlines", "k\u2603"])
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_key_that_no_header_carries_is_refused_without_showing_it(
    provider: str, key: str
) -> None:
    variable = f"{provider.upper()}_API_KEY"
    with pytest.raises(ModelAuthError, match=f"{variable} holds a character") as refused:
        await opened(**{variable: key})
    assert key not in str(refused.value)


async def test_the_offline_analyst_is_opened_when_nothing_is_set() -> None:
    model = await opened()
    assert model.info.offline
    await model.ping()
    await model.close()


async def test_an_openai_compatible_server_needs_no_key_and_names_its_model(
    server: ModelServer,
) -> None:
    model = await opened(OPENAI_BASE_URL=server.openai_url)
    assert (model.info.provider, model.info.model) == ("openai", MODEL)
    assert (await model.chat(ask())).text == "hello"
    await model.close()
    assert server.chats[0].headers["authorization"] == "Bearer no-key-needed"
    assert server.chats[0].body["max_tokens"] == 100


async def test_the_environments_key_goes_to_the_environments_address_only(
    server: ModelServer,
) -> None:
    other = LlmConfig(provider="openai", model=MODEL, config={"base_url": server.openai_url})
    settings: dict[str, object] = {"OPENAI_API_KEY": SECRET, "ANTHROPIC_API_KEY": SECRET}
    for config, extra in (
        (other, {}),
        (LlmConfig(provider="openai"), {"OPENAI_BASE_URL": server.openai_url + "/"}),
    ):
        model = await opened(config, **settings, **extra)
        await model.chat(ask())
        await model.close()
    assert [r.headers["authorization"] for r in server.chats] == [
        "Bearer no-key-needed",
        f"Bearer {SECRET}",
    ]


async def test_an_anthropic_compatible_server_is_reached(server: ModelServer) -> None:
    model = await opened_at(server, "anthropic", ANTHROPIC_API_KEY=SECRET, LLM_MODEL="m")
    assert (await model.chat(ask())).text == "hello"
    await model.ping()
    await model.close()
    assert server.chats[0].body["model"] == "m"
    assert SECRET in "".join(server.chats[0].headers.values())


@pytest.mark.parametrize("extra", [{"max_model_len": 4096}, {"meta": {"n_ctx": 4096}}])
async def test_the_window_that_the_server_lists_is_used(
    server: ModelServer, extra: dict[str, Any]
) -> None:
    server.models = [{"id": "other"}, {"id": "small", **extra}]
    model = await opened(OPENAI_BASE_URL=server.openai_url, LLM_MODEL="small")
    assert (model.info.context_window, model.info.max_output) == (4096, 2048)
    await model.close()


async def test_the_operators_limits_win(server: ModelServer) -> None:
    server.models = [{"id": MODEL, "max_model_len": 4096}]
    config = LlmConfig(config={"max_input_tokens": "9000", "max_output_tokens": 700})
    model = await opened(config, OPENAI_BASE_URL=server.openai_url)
    assert (model.info.context_window, model.info.max_output) == (9000, 700)
    await model.close()


async def test_a_learnt_window_wins_over_the_servers_and_not_over_the_operators(
    server: ModelServer,
) -> None:
    settings = ModelSettings.model_validate({"OPENAI_BASE_URL": server.openai_url})
    server.models = [{"id": MODEL, "max_model_len": 32_768}]
    cases: list[tuple[dict[str, Any], int]] = [({}, 4096), ({"max_input_tokens": 9000}, 9000)]
    for config, window in cases:
        model = await asyncio.to_thread(open_model, LlmConfig(config=config), settings, 4096)
        await model.close()
        assert model.info.context_window == window


@pytest.mark.parametrize("value", [-1, "many", [], {}])
async def test_limits_that_make_no_sense_are_refused(value: object) -> None:
    config = LlmConfig(config={"max_input_tokens": value})
    with pytest.raises(BadRequest, match="max_input_tokens"):
        await opened(config, ANTHROPIC_API_KEY="a")


async def test_a_server_that_lists_nothing_has_its_model_asked_for(server: ModelServer) -> None:
    server.models = []
    with pytest.raises(ModelError, match="set LLM_MODEL"):
        await opened(OPENAI_BASE_URL=server.openai_url)


async def test_a_server_that_is_down_is_told_when_it_is_needed() -> None:
    with pytest.raises(ModelUnreachable, match=r"http://127.0.0.1:9/v1 refused the connection"):
        await opened(OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    model = await opened(OPENAI_BASE_URL="http://127.0.0.1:9/v1", LLM_MODEL="m")
    with pytest.raises(ModelUnreachable, match="OPENAI_BASE_URL"):
        await model.ping()
    await model.close()


async def test_calls_are_paced_when_a_delay_is_set(server: ModelServer) -> None:
    model = await opened_at(server, "openai", LLM_REQUEST_DELAY_MS=1)
    await model.chat(ask())
    await model.close()
    assert len(server.chats) == 1


async def test_an_effort_is_passed_on(server: ModelServer, provider: str) -> None:
    config = LlmConfig(config={"effort": "low"})
    url = server.anthropic_url if provider == "anthropic" else server.openai_url
    environment: dict[str, object] = {f"{provider.upper()}_BASE_URL": url}
    model = await opened(config, LLM_PROVIDER=provider, **environment)
    await model.chat(ask())
    await model.close()
    sent = server.chats[0].body
    assert (sent.get("output_config"), sent.get("reasoning_effort")) in (
        ({"effort": "low"}, None),
        (None, "low"),
    )


def test_the_default_models_are_not_on_the_way_out() -> None:
    from anthropic._data import DEPRECATED_MODELS

    assert DEFAULT_ANTHROPIC not in DEPRECATED_MODELS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (DEFAULT_ANTHROPIC, Limits(1_000_000, 128_000, reasons=True)),
        (DEFAULT_OPENAI, Limits(1_050_000, 128_000, reasons=True)),
        ("anthropic/claude-haiku-4-5", Limits(200_000, 64_000)),
        ("gpt-5.6-terra", Limits(1_050_000, 128_000, reasons=True)),
        ("GPT-5-mini", Limits(400_000, 128_000, reasons=True)),
        ("qwen3-coder", Limits(128_000, 64_000)),
        ("", Limits(128_000, 64_000)),
    ],
)
def test_limits_by_name_fall_back_to_the_references_default(name: str, expected: Limits) -> None:
    assert limits(name) == expected


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({}, None),
        ({"context_length": 8192}, 8192),
        ({"context_window": 0}, None),
        ({"max_model_len": "8192"}, None),
        ({"max_model_len": True}, None),
        ({"meta": None}, None),
        ({"meta": {"n_ctx_train": 32768}}, None),  # what it was trained on is not what it runs with
    ],
)
def test_listed_windows_are_read(entry: dict[str, Any], window: int | None) -> None:
    assert listed_window(entry) == window


def test_opening_the_offline_analyst_imports_no_sdk(freshly: Freshly) -> None:
    code = (
        "import sys; from adapters.llm import open_model;"
        "from pipeline.records import LlmConfig; from pipeline.settings import ModelSettings;"
        "open_model(LlmConfig(provider='offline'), ModelSettings());"
        "print(sorted({'anthropic', 'openai', 'httpx2', 'tenacity'} & set(sys.modules)))"
    )
    assert freshly(code) == "[]"
