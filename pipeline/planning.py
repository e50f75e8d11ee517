"""How a request to start a discovery becomes a run: its steps, its areas, and whether it may begin.

Pure rules, the same for every way in.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from pipeline.anchoring import anchor_problem
from pipeline.errors import BadRequest, Conflict
from pipeline.packs import effort_steps
from pipeline.records import DiscoveryRun, LifecycleEvent, Project, RunStatus

DEFAULT_MAX_STEPS = 100
MOST_STEPS = 10_000
"""Beyond this a request is a slip of the keyboard, not a plan."""


def plan_run(
    project: Project,
    *,
    now: datetime,
    max_steps: int | None = None,
    min_steps: int | None = None,
    areas: Sequence[str] = (),
    effort: str = "",
    skip_cache: bool = False,
) -> DiscoveryRun:
    """A pending run with an id of its own, and every number checked.

    An explicit ``max_steps`` wins over ``effort``; with neither it is 100. The floor, below which
    the explorer may not stop, defaults to six tenths of the ceiling, rounded down.

    Raises ``BadRequest`` for what makes no sense, ``Conflict`` for a project that is not ready.
    """
    check_ready(project)
    most, least = plan_steps(max_steps, min_steps, effort)
    return DiscoveryRun(
        id=str(uuid.uuid4()),
        project_id=project.id,
        started_at=now,
        updated_at=now,
        lifecycle=[LifecycleEvent(status=RunStatus.PENDING, at=now)],
        max_steps=most,
        min_steps=least,
        areas=plan_areas(project, areas),
        effort=effort,
        skip_cache=skip_cache,
    )


def plan_steps(
    max_steps: int | None = None, min_steps: int | None = None, effort: str = ""
) -> tuple[int, int]:
    """Exploration steps that a run may take and must take.

    Raises ``BadRequest`` for an unknown effort, or unless 0 <= min_steps <= max_steps >= 1.
    """
    by_effort = effort_steps(effort) if effort else DEFAULT_MAX_STEPS
    most = by_effort if max_steps is None else max_steps
    if not 1 <= most <= MOST_STEPS:
        raise BadRequest(f"max_steps must lie between 1 and {MOST_STEPS}, not {most}")
    least = most * 6 // 10 if min_steps is None else min_steps
    if not 0 <= least <= most:
        raise BadRequest(f"min_steps must lie between 0 and max_steps ({most}), not {least}")
    return most, least


def plan_areas(project: Project, areas: Sequence[str]) -> list[str]:
    """The selected area ids without repeats, in the order asked; empty means all that are enabled.

    Raises ``BadRequest`` for an area that the project does not have or has switched off.
    """
    known = {id_ for id_, area in project.areas().items() if area.enabled}
    wanted = list(dict.fromkeys(areas))
    unknown = [area for area in wanted if area not in known]
    if unknown:
        raise BadRequest(
            f"the project has no enabled area {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(sorted(known)) or 'none'}"
        )
    return wanted


def check_ready(project: Project) -> None:
    """Raises ``Conflict`` without a datasource, when none can anchor the run, or while the
    project's state blocks a discovery."""
    if not project.datasources():
        raise Conflict("the project has no warehouse to explore; add one to the project first")
    if problem := anchor_problem(project):
        raise Conflict(problem)
    if project.state not in ("", "ready"):
        raise Conflict(
            f"the project is not ready for a discovery: its state is {project.state!r}; "
            "wait until it is ready"
        )
