"""What holds for the engine in a folder only: it lasts, and one process has it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from adapters.vectors import OpenedVectors, open_vectors
from pipeline.errors import VectorsUnavailable
from pipeline.ports import Point
from pipeline.settings import VectorSettings
from tests.adapters.conftest import Freshly

OTHER_PROCESS = """
import asyncio, sys, threading
from pathlib import Path
from uuid import uuid4
from adapters.vectors import open_vectors
from pipeline.ports import Point
from pipeline.settings import VectorSettings

async def main():
    vectors = open_vectors(VectorSettings(QDRANT_URL=""), Path(sys.argv[1]))
    await vectors.ensure("c", "e", 2, ["k"])
    await vectors.upsert("c", [Point(str(uuid4()), [1, 0], {"k": "v"})])
    print("READY", flush=True)
    threading.Event().wait()

asyncio.run(main())
"""


def _open(home: Path) -> OpenedVectors:
    return open_vectors(VectorSettings(QDRANT_URL=""), home)


async def _count(vectors: OpenedVectors) -> int:
    return len(await vectors.search("c", [1, 0], 100, {}))


async def _reopened(home: Path) -> int:
    vectors = _open(home)
    try:
        return await _count(vectors)
    finally:
        await vectors.close()


async def _fill(home: Path) -> None:
    vectors = _open(home)
    await vectors.ensure("c", "e", 2, ["k"])
    await vectors.upsert("c", [Point(str(uuid4()), [1, 0], {"k": "v"})])
    await vectors.close()


async def test_vectors_last(tmp_path: Path) -> None:
    await _fill(tmp_path)
    vectors = _open(tmp_path)
    assert await _count(vectors) == 1
    with pytest.raises(VectorsUnavailable, match=f"remove {tmp_path}"):
        await vectors.ensure("c", "other", 2, [])
    await vectors.close()


def test_a_second_process_is_told_who_holds_the_store_and_a_dead_one_does_not_block(
    tmp_path: Path,
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "READY\n"
        with pytest.raises(VectorsUnavailable, match=f"in use by process {other.pid}: stop it"):
            _open(tmp_path)
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
        if other.stdout is not None:
            other.stdout.close()
    assert asyncio.run(_reopened(tmp_path)) == 1, "what was written is there after a kill"


async def test_a_collection_cut_off_while_it_was_made_is_made_again(tmp_path: Path) -> None:
    await _fill(tmp_path)
    (tmp_path / "vectors" / "c.json").unlink()
    vectors = _open(tmp_path)
    assert await _count(vectors) == 0
    await vectors.ensure("c", "e", 2, ["k"])
    assert await _count(vectors) == 0
    await vectors.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"embedder": "e"}', '{"embedder":"e","dim":"x"}'])
async def test_a_damaged_meta_file_is_told(tmp_path: Path, text: str) -> None:
    await _fill(tmp_path)
    (tmp_path / "vectors" / "c.json").write_text(text)
    vectors = _open(tmp_path)
    with pytest.raises(VectorsUnavailable, match="is damaged"):
        await vectors.ensure("c", "e", 2, [])
    await vectors.close()


async def test_a_damaged_collection_is_told(tmp_path: Path) -> None:
    await _fill(tmp_path)
    for file in (tmp_path / "vectors" / "c").rglob("*.json"):
        file.write_text("nonsense")
    vectors = _open(tmp_path)
    with pytest.raises(VectorsUnavailable, match="remove the folder to start afresh"):
        await vectors.search("c", [1, 0], 1, {})
    await vectors.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_text("a file")
    with pytest.raises(VectorsUnavailable, match="set VERIDICAL_HOME to another one"):
        _open(tmp_path)


async def test_after_closing_nothing_is_served_and_closing_again_is_fine(tmp_path: Path) -> None:
    vectors = _open(tmp_path)
    await vectors.close()
    await vectors.close()
    with pytest.raises(VectorsUnavailable, match="is closed"):
        await vectors.ping()


async def test_a_cancelled_write_does_not_disturb_the_next(tmp_path: Path) -> None:
    vectors = _open(tmp_path)
    await vectors.ensure("c", "e", 2, [])
    many = [Point(str(uuid4()), [1, n]) for n in range(500)]
    write = asyncio.create_task(vectors.upsert("c", many))
    await asyncio.sleep(0)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    await vectors.upsert("c", [Point(str(uuid4()), [1, 0])])
    assert len(await vectors.search("c", [1, 0], 1000, {})) in {1, 501}
    await vectors.close()


def test_opening_imports_no_client(tmp_path: Path, freshly: Freshly) -> None:
    code = (
        "import sys, pathlib; from adapters.vectors import open_vectors;"
        "from pipeline.settings import VectorSettings;"
        "open_vectors(VectorSettings(QDRANT_URL=''), pathlib.Path(sys.argv[1]));"
        "print(sorted({'qdrant_client', 'grpc', 'qdrant_edge'} & set(sys.modules)))"
    )
    assert freshly(code, tmp_path) == "[]"
