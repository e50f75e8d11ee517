"""The doors of the command line lead to real parts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from adapters.embeddings import open_embedder
from adapters.vectors import open_vectors
from adapters.vectors.findings import FindingsIndex
from pipeline.errors import EmptyWarehouse, WarehouseUnavailable
from pipeline.records import LlmConfig, Project, StandaloneDoc, WarehouseConfig
from pipeline.settings import Settings
from serve.cli import outside

HASHING = LlmConfig(provider="hashing")


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings.load()


def warehouse(path: Path) -> WarehouseConfig:
    return WarehouseConfig(config={"path": str(path)})


async def test_tables_of_a_warehouse_are_counted(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE a AS SELECT 1 AS x; CREATE TABLE b AS SELECT 2 AS y")
    assert await outside.count_tables(warehouse(path), settings) == 2


async def test_a_warehouse_without_tables_is_refused(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "empty.duckdb"
    duckdb.connect(str(path)).close()
    with pytest.raises(EmptyWarehouse, match=r"empty\.duckdb"):
        await outside.count_tables(warehouse(path), settings)


@pytest.mark.parametrize("content", [None, b"this is no database, whatever its name says" * 100])
async def test_a_missing_or_wrong_file_is_refused(
    tmp_path: Path, settings: Settings, content: bytes | None
) -> None:
    path = tmp_path / "wrong.duckdb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WarehouseUnavailable, match=r"wrong\.duckdb"):
        await outside.count_tables(warehouse(path), settings)
    assert path.exists() == (content is not None), "nothing is created"


async def test_published_findings_are_found(project: Project, settings: Settings) -> None:
    project.embedding = HASHING
    vectors = open_vectors(settings.vectors, settings.home.path)
    index = FindingsIndex(open_embedder(HASHING, settings.vectors), vectors)
    docs = [
        StandaloneDoc(
            id=f"0f8fad5b-d9cb-469f-a165-7086772895{number}0",
            kind="insight",
            discovery_id="d-1",
            project_id=project.id,
            doc={"name": name},
            created_at=datetime(2026, 11, 30, tzinfo=UTC),
        )
        for number, name in enumerate(["late planes", "missing wind gusts"])
    ]
    await index.publish(docs, exclude_run="")
    await vectors.close()
    hits = await outside.search_findings(settings, project, "missing wind gusts", 1, "insight")
    assert [hit.payload["name"] for hit in hits] == ["missing wind gusts"]
    assert await outside.search_findings(settings, project, "x", 5, "recommendation") == []


async def test_vectors_and_the_offline_analyst_answer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = await outside.probe_vectors(settings, HASHING)
    assert "Qdrant in process" in words
    offline = LlmConfig(provider="offline")
    assert "No language model" in await outside.probe_model(settings, offline)


def test_no_host_is_up_in_a_fresh_home(settings: Settings) -> None:
    assert outside.host_status(settings) is None
    assert outside.host_down(settings) is False
