"""Further datasources of a project, as the command line names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import BadRequest
from pipeline.records import DEFAULT_DATASOURCE, WarehouseConfig

TOKEN_VARIABLE = "CUBE_API_TOKEN"


def beside(texts: Sequence[str]) -> list[WarehouseConfig]:
    """``ID=FILE`` is a DuckDB file, ``ID=http://…`` a Cube deployment, whose token is the value of
    CUBE_API_TOKEN. Raises ``BadRequest``."""
    sources = [_source(text) for text in texts]
    ids = [DEFAULT_DATASOURCE, *(source.id for source in sources)]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), "")
    if twice:
        raise BadRequest(f"two datasources are called {twice!r}; give each an id of its own")
    return sources


def _source(text: str) -> WarehouseConfig:
    id_, _, place = (part.strip() for part in text.partition("="))
    if not id_ or not place:
        raise BadRequest(f"--also {text!r}: write ID=FILE, or ID=http://… for a Cube deployment")
    if place.startswith(("http://", "https://")):
        token = os.environ.get(TOKEN_VARIABLE, "")
        return WarehouseConfig(id=id_, provider="cube", config={"url": place, "token": token})
    return WarehouseConfig(id=id_, config={"path": str(Path(place).expanduser().absolute())})
