"""One real local Ray for all tests of this folder, and small DuckDB files."""

from collections.abc import Generator
from pathlib import Path

import duckdb
import pytest

from actors.cluster import Cluster, connected
from pipeline.records import WarehouseConfig


@pytest.fixture(scope="session")
def ray_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def cluster(ray_home: Path) -> Generator[Cluster]:
    with connected(ray_home) as cluster:
        yield cluster


@pytest.fixture
def shop(tmp_path: Path) -> WarehouseConfig:
    """Orders of three shops over a year: enough for rankings, a trend and missing values."""
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute(
            """
            create table shops (id integer primary key, name varchar);
            insert into shops values (1, 'Altona'), (2, 'Barmbek'), (3, 'Dulsberg');
            create table orders as
            select i as id,
                   1 + (case when i % 10 < 6 then 0 when i % 10 < 9 then 1 else 2 end) as shop_id,
                   date '2025-01-01' + cast(i % 365 as integer) as ordered_on,
                   cast(5 + (i * 7919) % 4000 / 100.0 as decimal(10, 2)) as amount,
                   case when i % 50 = 0 then null else 'card' end as payment
            from range(6000) as t(i);
            """
        )
    return WarehouseConfig(config={"path": str(path)})
