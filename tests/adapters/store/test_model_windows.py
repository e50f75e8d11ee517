"""Reference F.6: the learnt window is stored in ``llm_model_windows``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from adapters.store.client import Collection
from adapters.store.model_windows import COUNTS_FOR, ModelWindowRepository
from adapters.store.store import Store

NAME = "openai http://localhost:8000/v1 qwen3"


async def test_a_learnt_window_is_kept_by_model_and_address(store: Store) -> None:
    assert await store.model_windows.learnt(NAME) is None
    await store.model_windows.learn(NAME, 8192)
    await store.model_windows.learn(NAME, 4096)
    assert await store.model_windows.learnt(NAME) == 4096
    assert await store.model_windows.learnt(f"{NAME}-coder") is None


async def test_a_window_learnt_long_ago_does_not_count(raw: Callable[[str], Collection]) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = raw("llm_model_windows")
    await ModelWindowRepository(rows, lambda: now).learn(NAME, 8192)
    later = now + COUNTS_FOR
    assert await ModelWindowRepository(rows, lambda: later).learnt(NAME) is None
    assert await ModelWindowRepository(rows, lambda: later - timedelta(days=1)).learnt(NAME) == 8192
