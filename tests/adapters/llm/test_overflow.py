from __future__ import annotations

import pickle

import pytest

from adapters.llm.overflow import OutputTooLarge, Overflow, output_limit, overflow, smaller_output

STATED = {
    "anthropic": ("prompt is too long: 213462 tokens > 200000 maximum", 200000, 213462),
    "anthropic with max_tokens": (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease "
        "input length or `max_tokens` and try again",
        200000,
        188240,
    ),
    "openai": (
        "This model's maximum context length is 8192 tokens. However, you requested 8203 tokens "
        "(7691 in the messages, 512 in the completion). Please reduce the length of the messages.",
        8192,
        7691,
    ),
    "openai messages only": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "172152 tokens. Please reduce the length of the messages.",
        128000,
        172152,
    ),
    "openai legacy": (
        "This model's maximum context length is 4097 tokens, however you requested 10346 tokens "
        "(10341 in your prompt; 5 for the completion). Please reduce your prompt.",
        4097,
        10341,
    ),
    "azure": (
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You "
        "requested a total of 9000 tokens: 8000 tokens from the input messages and 1000 tokens "
        "for the completion.",
        8192,
        8000,
    ),
    "openrouter": (
        "This endpoint's maximum context length is 262144 tokens. However, you requested about "
        "600000 tokens (200000 of text input, 400000 in the output).",
        262144,
        200000,
    ),
    "vllm": (
        "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context "
        "length is 40960 tokens and your request has 1,234 input tokens (64000 > 40960 - 1234).",
        40960,
        1234,
    ),
    "vllm prompt": (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        4096,
        5000,
    ),
    "sglang": (
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        4096,
        5000,
    ),
    "llama.cpp": (
        "request (5013 tokens) exceeds the available context size (4096 tokens), try increasing it",
        4096,
        5013,
    ),
    "llama.cpp with sizes beside": (
        "the request exceeds the available context size. n_prompt_tokens=1407 n_ctx=256",
        256,
        1407,
    ),
    "llama-cpp-python": ("Requested tokens (2285) exceed context window of 2048", 2048, 2285),
    "gemini": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1048575,
        1196265,
    ),
    "xai": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131072,
        537812,
    ),
    "mistral": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        32768,
        40000,
    ),
    "kimi": ("Your request exceeded model token limit: 262144 (requested: 300000)", 262144, 300000),
    "copilot": ("prompt token count of 90000 exceeds the limit of 64000", 64000, 90000),
    "tgi": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 "
        "`inputs` tokens and 512 `max_new_tokens`",
        4097,
        4000,
    ),
    "lm studio": (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens",
        4096,
        5000,
    ),
    "cohere": (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081",
        4081,
        None,
    ),
    "openai configured": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "300111 tokens. Please reduce the length of the messages.",
        272000,
        300111,
    ),
    "vllm parts": (
        "You passed 4097 input tokens and requested 1024 output tokens. However, the model's "
        "context length is only 4096 tokens, resulting in a maximum input length of 3072 tokens. "
        "Please reduce the length of the input prompt.",
        4096,
        4097,
    ),
    "bedrock titan": (
        "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token "
        "count: 9512",
        8192,
        9512,
    ),
    "bedrock nova": (
        "The model returned the following errors: Input Tokens Exceeded: Number of input tokens "
        "exceeds maximum length. Please update the input to try again.",
        None,
        None,
    ),
    "bedrock claude": (
        "ValidationException: The model returned the following errors: prompt is too long: "
        "205010 tokens > 200000 maximum",
        200000,
        205010,
    ),
    "vertex": (
        "Unable to submit request because the input token count is 40000 but model only supports "
        "up to 32768. Reduce the input token count and try again.",
        32768,
        40000,
    ),
    "gemini without parentheses": (
        "The input token count exceeds the maximum number of tokens allowed 1048576.",
        1048576,
        None,
    ),
    "fireworks": (
        "The prompt is too long: 150000, model maximum context length: 131071",
        131071,
        150000,
    ),
    "cerebras": (
        "Please reduce the length of the messages or completion. Current length is 9000 while "
        "limit is 8192",
        8192,
        9000,
    ),
    "dashscope": ("Range of input length should be [1, 98304]", 98304, None),
    "tgi inputs": (
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
        4096,
        5000,
    ),
    "ollama truncation off": (
        "prompt too long; exceeded max context length by 123 tokens",
        None,
        None,
    ),
    "zhipu": ("Prompt exceeds max length", None, None),
    "litellm": ("litellm.ContextWindowExceededError: OpenAIException", None, None),
    "reference": ("Please reduce the length of the input prompt", None, None),
    "openai responses": ("Your input exceeds the context window of this model", None, None),
    "bedrock": ("Input is too long for requested model.", None, None),
    "groq": ("Please reduce the length of the messages or completion.", None, None),
    "ollama": ("the input length exceeds the context length", None, None),
    "minimax": ("invalid params, context window exceeds limit (2013)", None, None),
    "code only": ("context_length_exceeded", None, None),
    "type only": ("exceed_context_size_error", None, None),
}


@pytest.mark.parametrize(("message", "window", "used"), STATED.values(), ids=STATED.keys())
def test_overflow_is_recognised_and_its_numbers_are_read(
    message: str, window: int | None, used: int | None
) -> None:
    assert overflow(message) == Overflow(window, used)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "invalid x-api-key",
        "Rate limit reached for gpt-6-sol: Limit 30000, Requested 45000",
        "The model `x` does not exist",
        "max_tokens is too large: 64000. This model supports at most 16384 completion tokens",
        "Too many tokens, please wait before trying again.",
        "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "messages: text content blocks must be non-empty",
    ],
)
def test_other_errors_are_no_overflow(message: str) -> None:
    assert overflow(message) is None


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        (
            "max_tokens is too large: 64000. This model supports at most 16384 completion tokens, "
            "whereas you provided 64000.",
            16384,
        ),
        (
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for "
            "claude-haiku-4-5",
            64000,
        ),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("`max_tokens` must be less than or equal to `32768`", 32768),
        ("max_tokens is not supported", None),
        ("", None),
    ],
)
def test_the_output_limit_is_read(message: str, limit: int | None) -> None:
    assert output_limit(message) == limit


@pytest.mark.parametrize(
    ("requested", "window", "used", "expected"),
    [
        # window - input - 2 % margin, if at least 512 and smaller than before
        (4096, 8192, 6000, 2028),
        (4096, 8192, 7690, 2048),  # only 338 are left: half
        (1000, 8192, 8000, None),  # neither the rest nor the half reaches 512
        # else half, if at least 512
        (4096, None, None, 2048),
        (4096, 8192, None, 2048),
        (1024, None, None, 512),
        (1023, None, None, None),
        (4096, 100_000, 10_000, 2048),  # what is left is no smaller than before
        # stated together, prompt and output are more than the window: half
        (4096, 8192, 8192, 2048),
        (4096, 8192, 9000, 2048),
        (512, 8192, 8203, None),
    ],
)
def test_one_retry_after_an_overflow_with_what_the_window_leaves_or_half(
    requested: int, window: int | None, used: int | None, expected: int | None
) -> None:
    assert smaller_output(requested, window, used) == expected


def test_output_too_large_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(OutputTooLarge("too much", 4096)))
    assert (str(error), error.limit) == ("too much", 4096)
