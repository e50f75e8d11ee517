"""Which datasources a run may rest on, and whether it reaches a cube. Pure rules.

A cube has no tables: a query is a choice of measures and dimensions, and nothing says when enough
of them were chosen. So a cube is only ever read beside a warehouse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.errors import BadRequest
from pipeline.ports import WarehouseInfo
from pipeline.records import DEFAULT_DATASOURCE, KeyPair, Project, Shape, WarehouseConfig


def anchor_problem(project: Project) -> str:
    """Why the project's datasources cannot carry a run, in one sentence, or ""."""
    return problem_of(project.datasources())


def problem_of(datasources: Sequence[WarehouseConfig | WarehouseInfo]) -> str:
    """The same for datasources of which the first is the primary; none at all is no concern here.

    The primary must be able to anchor, which says also that at least one can.
    """
    if not datasources or datasources[0].can_anchor:
        return ""
    primary = datasources[0]
    able = [source.id for source in datasources if source.can_anchor]
    why = "is a cube" if primary.shape is Shape.CUBE else "was set not to anchor a run"
    if not able:
        return (
            f"no datasource of the project can anchor a run: {primary.id!r} {why}; "
            "add a warehouse with tables and make it the primary"
        )
    return (
        f"the primary datasource {primary.id!r} {why} and cannot anchor a run; "
        f"set primary_warehouse_id to {' or '.join(map(repr, able))}"
    )


def check_anchored(datasources: Sequence[WarehouseConfig | WarehouseInfo]) -> None:
    """Raises ``BadRequest`` with the problem; the first datasource is the primary."""
    problem = problem_of(datasources)
    if problem:
        raise BadRequest(problem)


def check_filters(datasources: Iterable[WarehouseConfig]) -> None:
    """Raises ``BadRequest`` where a datasource that is not asked in SQL has a row filter: no filter
    could be enforced there."""
    for source in datasources:
        if source.shape is not Shape.ENTITIES and source.filter_field.strip():
            raise BadRequest(
                f"datasource {source.id!r} is a cube and cannot carry a row filter: "
                "take filter_field away, and restrict what its token may see instead"
            )


def check_ids(
    datasources: Sequence[WarehouseConfig], named: Iterable[str], keys: Iterable[KeyPair]
) -> None:
    """Raises ``BadRequest`` when two datasources share an id, and for a name or a key pair that
    means a datasource which the project does not have. A pair joins two datasources; an empty id
    means the primary."""
    ids = [source.id for source in datasources]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), "")
    if twice:
        raise BadRequest(f"two datasources are called {twice!r}; give each an id of its own")
    known = ", ".join(ids)
    for name in named:
        if name not in ids:
            raise BadRequest(f"there is no datasource {name!r}; the ids are: {known}")
    for pair in keys:
        sides = [pair.left.datasource_id, pair.right.datasource_id]
        unknown = [side for side in sides if side not in (*ids, "", DEFAULT_DATASOURCE)]
        if unknown:
            raise BadRequest(
                f"a key pair names the datasource {unknown[0]!r}, which the project does not have; "
                f"the ids are: {known}"
            )
        if sides[0] == sides[1]:
            raise BadRequest(
                f"a key pair joins {sides[0]!r} to itself; it relates two different datasources"
            )


def default_primary(datasources: Sequence[WarehouseConfig]) -> str:
    """The id of the first datasource that can anchor, else of the first; "" for none."""
    able = [source.id for source in datasources if source.can_anchor]
    return next(iter([*able, *(source.id for source in datasources)]), "")


def cube_reaching(infos: Iterable[WarehouseInfo]) -> bool:
    """True when a run can query a cube: then the novelty rule is added to the floor of steps."""
    return any(info.shape is Shape.CUBE for info in infos)
