"""What every back end says when a collection was made by another embedder."""

from __future__ import annotations

import re

from pipeline.errors import VectorsUnavailable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,120}")


def check_name(collection: str) -> str:
    """The name, if it is fit for a folder as well. Raises ``VectorsUnavailable``."""
    if not _NAME.fullmatch(collection):
        raise VectorsUnavailable(
            f"{collection!r} is no name for a vector collection: use letters, digits, _ and -."
        )
    return collection


def check_same(collection: str, held: tuple[str, int], asked: tuple[str, int], fix: str) -> None:
    """Raise ``VectorsUnavailable`` unless embedder id and size agree; ``fix`` ends the sentence."""
    if held != asked:
        raise VectorsUnavailable(
            f"The vector collection {collection} holds vectors of {held[0]} ({held[1]} numbers "
            f"each), not of {asked[0]} ({asked[1]}): use that embedding model again, or {fix}."
        )
