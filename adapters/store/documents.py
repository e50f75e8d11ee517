"""Records as documents and back, so that no value that a warehouse can yield fails a save.

Rows of a result are kept as ``{"columns": […], "rows": [[…], …]}``: names with dots, dollars or
nothing in them are values there, not keys. Every other mapping with a name that the store could
misread is kept as ``{"~pairs": [[name, value], …]}``. Integers beyond 64 bits and text that is not
Unicode are kept as readable text; all else comes back as it was (datetimes in milliseconds, UTC).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from pipeline.errors import StoreUnavailable
from pipeline.records import ExplorationStep

Document = dict[str, Any]
Record = TypeVar("Record", bound=BaseModel)

PAIRS, MISSING = "~pairs", "~missing"
INT64 = 2**63
MAX_DEPTH = 80
"""The store takes a hundred levels; what a record itself has around a value fits in the rest."""
STEP_BYTES = 12 * 1024 * 1024
"""A document may have 16 MB; the rest is room for the record around the step."""
TEXT_KEPT = 100_000


def to_document(record: BaseModel, **extra: Any) -> Document:
    """The record's fields, made safe; ``id`` becomes ``_id`` (left out when empty)."""
    document: Document = {key: _safe(value) for key, value in record.model_dump().items()}
    if "id" in document:
        identity = document.pop("id")
        if identity:
            document = {"_id": identity, **document}
    return document | {key: _safe(value) for key, value in extra.items()}


def from_document(kind: type[Record], document: Mapping[str, Any]) -> Record:
    """The record that ``to_document`` was given. Raises ``StoreUnavailable`` when it is none."""
    plain = {key: _plain(value) for key, value in document.items()}
    if "id" in kind.model_fields and "_id" in plain:
        plain["id"] = str(plain["_id"])
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreUnavailable(
            f"the stored {kind.__name__} {document.get('_id')!r} cannot be read "
            f"({where}: {first['msg']}); it was written by another version"
        ) from error


def all_from(kind: type[Record], documents: Iterable[Mapping[str, Any]]) -> list[Record]:
    return [from_document(kind, document) for document in documents]


# ---------------------------------------------------------------- exploration steps


def step_document(step: ExplorationStep, size: Callable[[Document], int]) -> Document:
    """A step that fits into a document.

    One that is too large keeps fewer rows (``row_count`` stays what it was), then no repair log,
    then shorter texts.
    """
    while size(document := _step(step)) > STEP_BYTES:
        smaller = _smaller(step)
        if smaller is None:
            break
        step = smaller
    return document


def step_from(document: Mapping[str, Any]) -> ExplorationStep:
    """The step that ``step_document`` was given."""
    table = document.get("query_result")
    if isinstance(table, Mapping):
        document = {**document, "query_result": rows_of(cast("Mapping[str, Any]", table))}
    return from_document(ExplorationStep, document)


def _step(step: ExplorationStep) -> Document:
    document = to_document(step.model_copy(update={"query_result": []}))
    return document | {"query_result": table_of(step.query_result, step.result_columns)}


def _smaller(step: ExplorationStep) -> ExplorationStep | None:
    if step.query_result:
        kept = step.query_result[: len(step.query_result) // 2]
        return step.model_copy(update={"query_result": kept})
    if step.fix_history:
        return step.model_copy(update={"fix_history": []})
    texts = ("llm_request", "llm_response", "thinking", "query", "error", "reject_reason")
    long = {
        name: getattr(step, name)[:TEXT_KEPT]
        for name in texts
        if len(getattr(step, name)) > TEXT_KEPT
    }
    if long:
        return step.model_copy(update=long)
    return step.model_copy(update={"compact_result": None}) if step.compact_result else None


def table_of(rows: Sequence[Mapping[str, Any]], order: Sequence[str] = ()) -> Document:
    """Rows as columns and lists; ``order`` puts columns that occur in the rows first."""
    seen = dict.fromkeys(name for row in rows for name in row)
    columns = [name for name in dict.fromkeys(order) if name in seen]
    columns += [name for name in seen if name not in set(columns)]
    absent = {MISSING: True}
    return {
        "columns": [_safe(name) for name in columns],
        "rows": [[_safe(row[name]) if name in row else absent for name in columns] for row in rows],
    }


def rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that ``table_of`` was given."""
    columns = [str(name) for name in table.get("columns", [])]
    return [
        {
            name: _plain(cell)
            for name, cell in zip(columns, row, strict=False)
            if cell != {MISSING: True}
        }
        for row in table.get("rows", [])
    ]


# ---------------------------------------------------------------- values


def _safe(value: Any, depth: int = 0) -> Any:
    if isinstance(value, Enum):
        value = value.value
    match value:
        case None | bool() | float() | bytes():
            return value
        case int():
            return value if -INT64 <= value < INT64 else str(value)
        case str():
            return safe_text(value)
        case datetime():
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return value.isoformat()
        case Mapping() | list() | tuple() | set() | frozenset() if depth >= MAX_DEPTH:
            return safe_text(json.dumps(value, default=str))
        case Mapping():
            return _mapping(cast("Mapping[Any, Any]", value), depth)
        case list() | tuple() | set() | frozenset():
            return [_safe(item, depth + 1) for item in cast("Iterable[Any]", value)]
        case _:
            return safe_text(str(value))


def _mapping(value: Mapping[Any, Any], depth: int) -> Document:
    if all(_is_plain_name(name) for name in value):
        return {str(name): _safe(item, depth + 1) for name, item in value.items()}
    return {PAIRS: [[_safe(str(k)), _safe(item, depth + 2)] for k, item in value.items()]}


def _is_plain_name(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name != ""
        and name[0] not in "$~"
        and "." not in name
        and "\0" not in name
        and safe_text(name) == name
    )


def safe_text(value: str) -> str:
    """The text, lone surrogates written out: no other text can be stored."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    mapping = cast("Document", value)
    if mapping.keys() == {PAIRS}:
        return {name: _plain(item) for name, item in mapping[PAIRS]}
    return {name: _plain(item) for name, item in mapping.items()}
