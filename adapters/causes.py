"""What an exception came from: drivers wrap the one that tells something."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its causes and contexts, and the members of groups, each once."""
    queue: list[BaseException | None] = [error]
    seen: set[int] = set()
    while queue:
        one = queue.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        queue += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            queue += cast("tuple[BaseException, ...]", one.exceptions)
