"""The datasources of a project, their packs and their keys, as the command line names them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pipeline.errors import BadRequest
from pipeline.packs import load_pack, validate_pack
from pipeline.records import (
    DEFAULT_DATASOURCE,
    DomainPack,
    KeyColumn,
    KeyPair,
    Shape,
    WarehouseConfig,
)

TOKEN_VARIABLE = "CUBE_API_TOKEN"
MOST_BYTES = 2 * 1024 * 1024
"""Of a file with a pack or a profile."""
_WEB = ("http://", "https://")
_CATEGORY = re.compile(r":([A-Za-z0-9_-]+)$")


def source_at(id_: str, place: str) -> WarehouseConfig:
    """A path is a DuckDB file, ``http://…`` a Cube deployment, whose token is read from the
    environment variable CUBE_API_TOKEN whenever it is opened, if it is set now."""
    if place.startswith(_WEB):
        named = {"token_env": TOKEN_VARIABLE} if os.environ.get(TOKEN_VARIABLE) else {}
        return WarehouseConfig(id=id_, provider="cube", config={"url": place, **named})
    return WarehouseConfig(id=id_, config={"path": str(Path(place).expanduser().absolute())})


def beside(texts: Sequence[str]) -> list[WarehouseConfig]:
    """``ID=FILE`` or ``ID=http://…``; see ``source_at``. Raises ``BadRequest``."""
    sources = [
        source_at(id_, place)
        for id_, place in (
            named(text, "--also", "ID=FILE, or ID=http://… for a Cube deployment") for text in texts
        )
    ]
    ids = [DEFAULT_DATASOURCE, *(source.id for source in sources)]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), "")
    if twice:
        raise BadRequest(f"two datasources are called {twice!r}; give each an id of its own")
    return sources


def named(text: str, option: str, form: str) -> tuple[str, str]:
    """The two sides of ``ID=…``. Raises ``BadRequest`` that tells the form."""
    id_, _, rest = (part.strip() for part in text.partition("="))
    if not id_ or not rest:
        raise BadRequest(f"{option} {text!r}: write {form}")
    return id_, rest


# ---------------------------------------------------------------- packs and profiles


def read_pack(text: str) -> tuple[DomainPack, str]:
    """A pack and a category, from ``PACK``, ``FILE.json``, or either with ``:CATEGORY``; "" without
    a category. A file holds the portable form.

    Raises ``NotFound`` for a pack that does not exist, ``BadRequest`` for a file that holds none.
    """
    category = _CATEGORY.search(text)
    if category and not Path(text).is_file():
        text = text[: category.start()]
    else:
        category = None
    if text.endswith(".json") or "/" in text or os.sep in text:
        pack = _pack_of(Path(text).expanduser())
    else:
        pack = load_pack(text)
    return pack, category.group(1) if category else ""


def _pack_of(file: Path) -> DomainPack:
    portable = read_object(file, "a domain pack")
    if "pack" not in portable:
        raise BadRequest(
            f"{file} holds no domain pack: it must be "
            '{"format": "decisionbox-domain-pack", "format_version": 1, "pack": {…}}'
        )
    try:
        return validate_pack(portable)
    except BadRequest as error:
        raise BadRequest(f"{file}: {error}") from error


def read_object(file: Path, what: str) -> Mapping[str, Any]:
    """The JSON object in a file. Raises ``BadRequest``."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise BadRequest(f"{file} is larger than {MOST_BYTES:,} bytes, too large for {what}")
        value: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise BadRequest(f"{file} cannot be read as {what}: {why}") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{file} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest(f"{file} must hold one JSON object, which is {what}")
    return cast("dict[str, Any]", value)


def with_packs(
    sources: Sequence[WarehouseConfig], packs: Sequence[str], profiles: Sequence[str]
) -> tuple[list[WarehouseConfig], dict[str, DomainPack]]:
    """The sources with their categories and profiles, and their own packs by id: ``ID=PACK`` and
    ``ID=FILE``. Raises ``BadRequest`` for an id that is none of theirs."""
    by_id = {source.id: source for source in sources}
    own: dict[str, DomainPack] = {}
    for text in packs:
        id_, given = named(text, "--also-pack", "ID=PACK, or ID=FILE.json")
        own[id_], category = read_pack(given)
        by_id[id_] = _known(by_id, id_).model_copy(update={"category": category})
    for text in profiles:
        id_, given = named(text, "--also-profile", "ID=FILE.json")
        profile = dict(read_object(Path(given).expanduser(), "a profile"))
        by_id[id_] = _known(by_id, id_).model_copy(update={"profile": profile})
    return list(by_id.values()), own


def _known(by_id: Mapping[str, WarehouseConfig], id_: str) -> WarehouseConfig:
    if id_ not in by_id:
        raise BadRequest(f"there is no datasource {id_!r}; the ids are: {', '.join(by_id)}")
    return by_id[id_]


# ---------------------------------------------------------------- keys


def key_pairs(
    joined: Sequence[str], never: Sequence[str], sources: Sequence[WarehouseConfig]
) -> list[KeyPair]:
    """``ID:TABLE.COLUMN=ID:TABLE.COLUMN`` each, declared as keys or as no keys. Raises
    ``BadRequest``."""
    by_id = {source.id: source for source in sources}
    pairs: list[KeyPair] = []
    for option, texts in (("--key", joined), ("--never-join", never)):
        for text in texts:
            sides = named(text, option, "ID:TABLE.COLUMN=ID:TABLE.COLUMN")
            left, right = (_column(side, option, by_id) for side in sides)
            pairs.append(KeyPair(left=left, right=right, rejected=option == "--never-join"))
    return pairs


def _column(text: str, option: str, by_id: Mapping[str, WarehouseConfig]) -> KeyColumn:
    id_, _, place = (part.strip() for part in text.partition(":"))
    table, _, column = place.rpartition(".")
    if not id_ or not table or not column:
        raise BadRequest(f"{option} {text!r}: write ID:TABLE.COLUMN, or ID:CUBE.MEMBER for a cube")
    if _known(by_id, id_).shape is Shape.CUBE:
        return KeyColumn(datasource_id=id_, table=place.partition(".")[0], column=place)
    return KeyColumn(datasource_id=id_, table=table, column=column)
