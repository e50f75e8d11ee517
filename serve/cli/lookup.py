"""Finds what a person names: a project by id or name, a discovery by id or as the latest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import BadRequest, NotFound
from pipeline.records import DiscoveryResult, Project

if TYPE_CHECKING:
    from adapters.store import Store

LATEST = "latest"


async def find_project(store: Store, name: str) -> Project:
    """By id, else by name. Raises ``NotFound``, or ``BadRequest`` when several have the name."""
    by_id = await store.projects.find(name)
    if by_id is not None:
        return by_id
    named = await store.projects.by_name(name)
    if not named:
        raise NotFound(
            f"there is no project {name!r}; `veridical project list` shows those that exist"
        )
    if len(named) > 1:
        ids = ", ".join(project.id for project in named)
        raise BadRequest(f"{len(named)} projects are called {name!r}; name one by its id: {ids}")
    return named[0]


async def find_discovery(store: Store, name: str, project: Project | None) -> DiscoveryResult:
    """By id, by the start of one, the latest one (of a project if one is given), or the latest one
    of the project that has this name. Raises ``NotFound``, or ``BadRequest`` when several fit."""
    if name != LATEST:
        found = await _by_id(store, name)
        if found is not None:
            return found
        project = await _owner(store, name)
    return await _latest(store, project)


async def _latest(store: Store, project: Project | None) -> DiscoveryResult:
    projects = [project] if project else await store.projects.newest_first()
    found = [r for p in projects for r in await store.discoveries.recent(p.id, 1)]
    if not found:
        where = f"project {project.name!r}" if project else "this home"
        raise NotFound(f"there is no discovery in {where} yet; `veridical discover` makes one")
    return max(found, key=lambda result: result.discovery_date)


async def _by_id(store: Store, name: str) -> DiscoveryResult | None:
    if not name:
        return None
    try:
        return await store.discoveries.get(name)
    except NotFound:
        found = await store.discoveries.starting_with(name, 2)
    if len(found) > 1:
        raise BadRequest(f"several discoveries start with {name!r}; give more of the id")
    return found[0] if found else None


async def _owner(store: Store, name: str) -> Project:
    try:
        return await find_project(store, name)
    except NotFound as unknown:
        raise NotFound(
            f"there is no discovery {name!r} and no project of that name; `veridical runs PROJECT` "
            "lists the discoveries of a project, `veridical project list` the projects"
        ) from unknown
