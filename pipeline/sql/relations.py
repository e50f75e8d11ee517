"""What may stand where a table stands: a table of the warehouse, and nothing outside it."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from pipeline.errors import UnsafeSql
from pipeline.sql.functions import words

_FILE = re.compile(
    r"\.(csv|tsv|txt|psv|json|jsonl|ndjson|geojson|parquet|pq|orc|avro|arrows?|feather|ipc|xlsx?"
    r"|ods|db|ddb|duckdb|sqlite3?|gz|zst|bz2|zip|vortex|lance|blob|shp|gpkg|fgb|kml|gpx|gml|osm"
    r"|pbf|dbf|mdb|nc|h5|sas7bdat|sav|dta|ya?ml|html?)(\?.*)?$",
    re.IGNORECASE,
)
_FILE_OF_FOLDER = re.compile(
    r"\.(csv|tsv|txt|psv|json|jsonl|ndjson|geojson|parquet|pq|avro|arrows?|xlsx?|duckdb)"
    r"(\.(gz|zst|bz2))?$",
    re.IGNORECASE,
)
"""``x.csv``, whose dot parts schema and table: only endings that hardly name a table."""
_PLACE = re.compile(
    r"://|^[/~@]|^\.\.?[/\\]|^[a-z]:[/\\]|^\\\\|\|\s*$"
    r"|^(file|md|s3a?|s3n|gs|gcs|hf|r2|az|abfss?|wasbs?|dbfs|http|https|jdbc|ducklake|sqlite):",
    re.IGNORECASE,
)
_PATH_FORMATS = words(
    """
    csv json parquet delta iceberg orc avro text binaryfile xml hudi image libsvm jdbc kafka
    deltasharing
    """
)
_STATEMENTS = words("show describe desc summarize explain pragma call execute")
"""``FROM (SHOW tables)``: the parser takes the verb for a table with an alias."""
_SECRETS = words(
    """
    pg_authid pg_shadow pg_user_mapping pg_user_mappings pg_hba_file_rules
    pg_file_settings pg_ident_file_mappings pg_largeobject pg_subscription sql_logins
    syslogins credentials database_scoped_credentials linked_logins remote_logins
    duckdb_secrets stv_sessions
    """
)
MAX_PARTS = 3
"""Catalog, schema and table."""
_PLAIN_PARTS = {"format", "pattern", "changes", "partition", "indexed"}
"""Arguments of a table that only stages, change logs and other engines' tables have."""


def check_table(table: exp.Table, dialect: str) -> None:
    """Refuse a file, a stage, a URL, another server, a place by variable, a table of secrets."""
    source = table.this
    if isinstance(source, exp.Func | exp.Values):
        return
    if source is None and table.args.get("rows_from"):
        return
    parts = table.parts
    names = [part.name for part in parts]
    if len(names) > MAX_PARTS or isinstance(source, exp.Dot):
        raise UnsafeSql(
            f"{_shown(names)} has too many parts: a table of this warehouse is named by catalog, "
            "schema and table; a name with a server before it is on another server"
        )
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise UnsafeSql(f"{_shown(names)} is not a table of the warehouse; name a table")
    if any(_PLACE.search(name) for name in names):
        raise UnsafeSql(f"{_shown(names)} looks like a file, a stage or a URL; name a table")
    _check_alias(table, names)
    _check_dialect(names, dialect)
    if names[-1].lower() in _SECRETS:
        raise UnsafeSql(f"{_shown(names)} holds credentials and may not be read")
    if any(table.args.get(part) for part in _PLAIN_PARTS):
        raise UnsafeSql(f"{_shown(names)} is read in a way that is not allowed; name it only")


def _check_alias(table: exp.Table, names: list[str]) -> None:
    alias = table.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return
    if alias.args.get("this") is None and alias.args.get("columns"):
        raise UnsafeSql(f"{_shown(names)}(...) is not a table function that is allowed here")
    word = names[-1].lower()
    bare = len(names) == 1 and not table.this.args.get("quoted")
    if bare and word in _STATEMENTS and isinstance(table.parent, exp.Subquery):
        raise UnsafeSql(f"{word.upper()} is not a query; use lookup_schema or search_tables")


def _check_dialect(names: list[str], dialect: str) -> None:
    file = _FILE if len(names) == 1 else _FILE_OF_FOLDER
    if dialect == "duckdb" and (_FILE.search(names[-1]) or file.search(".".join(names))):
        raise UnsafeSql(f"{_shown(names)} looks like a data file; name a table of the warehouse")
    if dialect == "databricks":
        if len(names) == 2 and names[0].lower() in _PATH_FORMATS:
            raise UnsafeSql(f"{_shown(names)} reads files by path; name a table")
        if any("/" in name for name in names):
            raise UnsafeSql(f"{_shown(names)} looks like a path; name a table")


def _shown(names: list[Any]) -> str:
    return ".".join(str(name) for name in names)[:120]


_SYSTEM_SCHEMAS = frozenset(
    {"information_schema", "pg_catalog", "pg_toast", "sys", "system", "snowflake", "account_usage"}
)
_SYSTEM_NAME = re.compile(
    r"^(pg_|sqlite_|duckdb_|svv_|svl_|stl_|stv_|svcs_|svcl_|sys(objects|columns|tables)$"
    r"|__tables|information_schema\.)",
    re.IGNORECASE,
)


def is_system(parts: tuple[str, ...]) -> bool:
    """True for catalogs and statistics, which describe the data of every tenant."""
    lowered = [part.lower() for part in parts]
    if any(part in _SYSTEM_SCHEMAS for part in lowered[:-1]):
        return True
    return bool(_SYSTEM_NAME.search(lowered[-1]))
