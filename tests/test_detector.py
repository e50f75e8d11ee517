"""The detector for blocked event loops detects."""

import asyncio
import time

import pytest
from blockbuster import BlockingError


async def test_a_blocking_call_on_the_loop_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline import deadline

    monkeypatch.setattr(deadline, "blocks", lambda: None, raising=False)
    code = compile("import time\ntime.sleep(0)\n", deadline.__file__, "exec")
    with pytest.raises(BlockingError):
        exec(code, {"__name__": deadline.__name__})


async def test_the_same_call_in_a_thread_does_not() -> None:
    await asyncio.to_thread(time.sleep, 0)
