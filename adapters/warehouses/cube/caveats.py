"""What a Cube deployment did to a query beyond answering it, as caveats on the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from adapters.warehouses.cube.query import CubeQuery
from pipeline.records import Quality, QualityKind


def caveats_of(
    asked: CubeQuery,
    ran: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    cut: Quality | None,
) -> tuple[Quality, ...]:
    """All caveats of an answer of ``rows``. ``ran`` is the query as the deployment says that it ran
    it, empty when it does not say; ``cut`` is what ended the result, if anything did."""
    found = (cut, _restricted(asked.body, ran), _withheld(asked, rows))
    return tuple(caveat for caveat in found if caveat is not None)


def row_cap(asked: CubeQuery, rows: int, sent: int) -> Quality | None:
    """A caveat when the query's own limit, or the server's, is what ended the result; ``sent`` is
    the limit that was sent."""
    if rows == 0 or rows != sent:
        return None
    if asked.limit == sent:
        detail = f"the query asked for at most {sent} rows and got {sent}; more may exist"
    else:
        detail = f"only {sent} rows were given, the most that Cube gives; more may exist"
    return Quality(kind=QualityKind.TRUNCATED, detail=detail)


def _restricted(asked: Mapping[str, Any], ran: Mapping[str, Any]) -> Quality | None:
    """Access rules of a deployment are filters and segments that it adds to the query."""
    extra = Counter(_conditions(ran)) - Counter(_conditions(asked))
    if not extra:
        return None
    members = ", ".join(sorted({member for member, _ in extra}))
    return Quality(
        kind=QualityKind.RESTRICTED,
        detail=f"the deployment added conditions of its own on {members}; what they leave out is "
        "not counted",
    )


def _withheld(asked: CubeQuery, rows: Sequence[Mapping[str, Any]]) -> Quality | None:
    """A member that no row names was not given, which is something else than empty."""
    names = [column.name for column in asked.columns]
    missing = [name for name in names if rows and not any(name in row for row in rows)]
    if not missing:
        return None
    return Quality(
        kind=QualityKind.WITHHELD,
        detail=f"the deployment gave no values of {', '.join(missing)}; they are not known to be "
        "empty",
    )


def _conditions(query: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Member and operator of each filter, however deep; segments count as filters."""
    segments = query.get("segments")
    for name in cast("list[Any]", segments) if isinstance(segments, list) else []:
        if isinstance(name, str):
            yield name, "segment"
    yield from _filters(query.get("filters"))


def _filters(value: Any) -> Iterator[tuple[str, str]]:
    for item in cast("list[Any]", value) if isinstance(value, list) else []:
        if not isinstance(item, dict):
            continue
        one = cast("dict[str, Any]", item)
        yield from _filters(one.get("and"))
        yield from _filters(one.get("or"))
        member = one.get("member") or one.get("dimension")
        if isinstance(member, str):
            yield member, str(one.get("operator"))
