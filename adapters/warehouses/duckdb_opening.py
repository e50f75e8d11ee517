"""Opening a DuckDB file: read-only, without other files, network or extensions, and locked."""
# pyright: reportUnknownMemberType=false
# The driver's stubs type rows as Any.

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import WarehouseUnavailable
from pipeline.records import WarehouseConfig

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SETTING_UP = threading.Lock()
MAGIC = b"DUCK"
"""Bytes 8 to 12 of every DuckDB file."""
OWN_NAME = "_warehouse_file"
PATH_CHARS = 300
_REMEDIES = (
    ("encrypted", "Veridical takes no key: copy the data into a file that is not encrypted"),
    ("lock on file", "close the program that writes to it, or name a copy of the file"),
    ("permission denied", "allow this user to read it"),
    ("newer version", "install a newer duckdb, or write the file with an older one"),
    ("older version", "export the data with the DuckDB that wrote it, and import it anew"),
    ("corrupt", "restore it from a backup, or name another file"),
    ("could not read", "the file is cut off: copy it again, or name another file"),
)
"""What to do about an error that holds these words, when a file cannot be opened."""
_Config = dict[str, str | bool | int | float | list[str]]


def configured_path(config: WarehouseConfig) -> Path:
    """Raises ``WarehouseUnavailable`` when none is configured."""
    path = str(config.config.get("path") or "").strip()
    if not path:
        raise WarehouseUnavailable(
            f"datasource {config.id!r} names no file; set its config to "
            '{"path": "/where/the/file.duckdb"}'
        )
    return Path(path).expanduser()


def _check_file(path: Path) -> None:
    """Refuse what cannot be a warehouse before DuckDB sees it; nothing is ever created."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise WarehouseUnavailable(f"{path} is a folder; name the DuckDB file in it")
        if not stat.S_ISREG(kind):  # a pipe would be waited for without end
            raise WarehouseUnavailable(f"{path} is no ordinary file; name a DuckDB file")
        with path.open("rb") as file:
            head = file.read(12)
    except FileNotFoundError:
        raise WarehouseUnavailable(
            f"there is no warehouse file {path}; check the path, or run `veridical demo` "
            "to build the demo warehouse"
        ) from None
    except PermissionError:
        raise WarehouseUnavailable(
            f"the warehouse file {path} may not be read; allow user {os.getuid()} to read it"
        ) from None
    except (OSError, ValueError) as error:  # a path with a NUL, or in half characters
        reason = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise WarehouseUnavailable(
            f"the warehouse file {str(path)[:PATH_CHARS]!r} cannot be read ({reason}); "
            "check the path"
        ) from None
    if head[8:12] != MAGIC:
        raise WarehouseUnavailable(
            f"{path} is not a DuckDB file; name a file that DuckDB made, "
            "or import the data with `duckdb new.duckdb`"
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that was opened for reading."""

    connection: DuckDBPyConnection
    catalog: str = ""
    """What the file is called inside of DuckDB, where that is not its connection's default."""

    def cursor(self) -> DuckDBPyConnection:
        """A new cursor on the file."""
        cursor = self.connection.cursor()
        if self.catalog:
            cursor.execute(f'USE "{self.catalog}"')
        return cursor

    def close(self) -> None:
        self.connection.close()


def open_file(path: Path, given: Mapping[str, Any]) -> Opened:
    """Open a file for reading, with no way out of it. Raises ``WarehouseUnavailable``."""
    import duckdb

    _check_file(path)
    config: _Config = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "",
        "memory_limit": str(given.get("memory_limit") or "1GB"),
    }
    if given.get("threads"):
        config["threads"] = str(given["threads"])
    try:
        with _SETTING_UP:
            locked_in = {**config, "enable_external_access": "false"}
            connection = duckdb.connect(str(path), read_only=True, config=locked_in)
            if _schema_of_its_name(connection):
                connection.close()
                return _attached(path, config)
            _lock(connection)
    except duckdb.Error as error:
        raise WarehouseUnavailable(
            f"the warehouse file {path} cannot be opened ({short(error)}); {_remedy(error)}"
        ) from error
    return Opened(connection)


def _schema_of_its_name(connection: DuckDBPyConnection) -> bool:
    """True when a schema has the name that DuckDB takes from the file's: ``shop.orders`` is then an
    error, because shop might be either."""
    row = connection.execute(
        "SELECT count(*) FROM duckdb_schemas() WHERE database_name = current_database()"
        " AND lower(schema_name) = lower(current_database())"
    ).fetchone()
    return row is not None and row[0] > 0


def _attached(path: Path, config: _Config) -> Opened:
    """Open a file under a name that none of its schemas has."""
    import duckdb

    connection = duckdb.connect(":memory:", config=config)
    try:
        place = str(path).replace("'", "''")
        connection.execute(f"ATTACH '{place}' AS \"{OWN_NAME}\" (TYPE duckdb, READ_ONLY)")
        connection.execute("SET GLOBAL enable_external_access = false")
        _lock(connection)
    except duckdb.Error:
        connection.close()
        raise
    return Opened(connection, OWN_NAME)


def _lock(connection: DuckDBPyConnection) -> None:
    """Fix the time zone and lock the configuration, unless another connection did already: all
    connections of a process to one file share their engine."""
    row = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
    if row is not None and not row[0]:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute("SET GLOBAL lock_configuration = true")


def _remedy(error: Exception) -> str:
    told = str(error).lower()
    fits = (remedy for words, remedy in _REMEDIES if words in told)
    return next(fits, "close other programs that write to it, or name another file")


def short(error: Exception) -> str:
    """The first line of an error."""
    return str(error).strip().splitlines()[0][:300]
