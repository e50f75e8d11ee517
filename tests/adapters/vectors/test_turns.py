"""Processes of a home take turns at its vectors."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import vectors
from adapters.vectors import borrowed_vectors
from pipeline.errors import VectorsBusy
from pipeline.settings import VectorSettings

HOLDER = """
import sys
from pathlib import Path
from adapters.vectors import open_vectors
from pipeline.settings import VectorSettings
held = open_vectors(VectorSettings(QDRANT_URL=""), Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
SETTINGS = VectorSettings(QDRANT_URL="")


def holder(home: Path) -> subprocess.Popen[str]:
    """Another process that has the vectors of ``home`` open until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


async def test_who_comes_second_waits_for_its_turn(tmp_path: Path) -> None:
    with await asyncio.to_thread(holder, tmp_path) as other:

        async def borrow() -> None:
            async with borrowed_vectors(SETTINGS, tmp_path) as mine:
                await mine.ping()

        waiting = asyncio.ensure_future(borrow())
        done, _ = await asyncio.wait([waiting], timeout=vectors.BUSY_POLL_S * 3)
        assert not done
        assert other.stdin is not None
        other.stdin.close()
        await asyncio.wait_for(waiting, 60)


async def test_who_waits_for_too_long_is_told_who_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "BUSY_S", 0.0)
    with await asyncio.to_thread(holder, tmp_path) as other:
        with pytest.raises(VectorsBusy, match=str(other.pid)):
            async with borrowed_vectors(SETTINGS, tmp_path):
                pass
        assert other.stdin is not None
        other.stdin.close()
