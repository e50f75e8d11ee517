"""The analysis areas of a run: which ones, in which order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pipeline.errors import BadRequest
from pipeline.records import AreaConfig, Project


@dataclass(frozen=True, slots=True)
class Area:
    id: str
    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    prompt: str = ""
    priority: int = 1
    datasource_id: str = ""
    """The datasource whose own pack the area comes from; empty for the project's own."""

    @classmethod
    def of(cls, area_id: str, config: AreaConfig) -> Area:
        """An area as a project configures it."""
        return cls(
            id=area_id,
            name=config.name,
            description=config.description,
            keywords=tuple(config.keywords),
            prompt=config.prompt,
            priority=config.priority,
            datasource_id=config.datasource_id,
        )

    @property
    def query_text(self) -> str:
        """What is embedded to rank steps for this area."""
        said = " ".join(self.description.split()).rstrip(".")
        described = f" — {said}." if said else "."
        keywords = f" Keywords: {', '.join(self.keywords)}" if self.keywords else ""
        return f"{self.name}{described}{keywords}"


def select_areas(
    project: Project, requested: Sequence[str], left_out: Collection[str] = ()
) -> list[Area]:
    """The enabled areas, or those of them that were asked for, by priority; without those that only
    a datasource has that is ``left_out``.

    Raises ``BadRequest`` for an area that does not exist or is switched off, and when none is left.
    """
    enabled = _enabled(project)
    unknown = [area_id for area_id in requested if area_id not in enabled]
    if unknown:
        have = ", ".join(enabled) or "none"
        raise BadRequest(f"unknown analysis area {', '.join(unknown)}; the project enables: {have}")
    if not enabled:
        raise BadRequest("the project enables no analysis area; enable at least one")
    there = _enabled(project, left_out) if left_out else enabled
    chosen = [there[area_id] for area_id in there if not requested or area_id in requested]
    if not chosen:
        raise BadRequest(
            "every analysis area of this run belongs to a datasource that cannot be read: "
            f"{', '.join(left_out)}; mend it, or choose other areas"
        )
    return sorted(chosen, key=lambda area: area.priority)


def _enabled(project: Project, left_out: Collection[str] = ()) -> dict[str, Area]:
    return {
        area_id: Area.of(area_id, config)
        for area_id, config in project.areas(left_out).items()
        if config.enabled
    }


def area_lines(areas: Sequence[Area]) -> str:
    """``{{ANALYSIS_AREAS}}``: one numbered line an area."""
    return "\n".join(
        f"{number}. {area.id} - {area.name}: {' '.join(area.description.split())}"
        for number, area in enumerate(areas, start=1)
    )
