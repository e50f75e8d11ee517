"""A project: which warehouse, which model, which prompts."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, Field

from pipeline.records.verdict import Status

DEFAULT_DATASOURCE = "default"


class Shape(StrEnum):
    """What a datasource holds."""

    ENTITIES = "entities"
    """Tables, asked in SQL."""
    CUBE = "cube"
    """Measures and dimensions, asked in a query language of its own."""


_SHAPES = {"cube": Shape.CUBE}
"""Providers whose datasources are no sets of tables."""


class AreaConfig(BaseModel):
    name: str
    description: str = ""
    keywords: list[str] = Field(default_factory=list)
    prompt: str = ""
    is_base: bool = True
    is_custom: bool = False
    priority: int = 1
    enabled: bool = True
    datasource_id: str = ""
    """The datasource whose own pack the area comes from; empty for the project's own."""


class ProjectPrompts(BaseModel):
    base_context: str = ""
    exploration: str = ""
    recommendations: str = ""
    analysis_areas: dict[str, AreaConfig] = Field(default_factory=dict)


class WarehouseConfig(BaseModel):
    id: str = DEFAULT_DATASOURCE
    label: str = ""
    description: str = ""
    provider: str = "duckdb"
    project_id: str = ""
    datasets: list[str] = Field(default_factory=list)
    """Schemas to read; empty means the provider's default."""
    location: str = ""
    filter_field: str = ""
    filter_value: str = ""
    shared_tables: list[str] = Field(default_factory=list)
    """Tables without the filter field that may be read all the same."""
    extra_functions: list[str] = Field(default_factory=list)
    """Function names that the operator allows beyond the guard's own list."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Provider settings, for DuckDB ``{"path": …}``, for Cube ``{"url": …, "token": …}`` or, with
    the name of an environment variable, ``"token_env"``."""
    domain: str = ""
    """Slug of a pack of its own; empty where the project's pack speaks for it."""
    category: str = ""
    prompts: ProjectPrompts = Field(default_factory=ProjectPrompts)
    """Copied from its own pack. Its exploration text and its areas take part in a run; base context
    and recommendations are the project's."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """What is known about this datasource, beside the project's profile."""
    anchors: bool = True
    """False demotes a datasource that could anchor a run; nothing promotes one that cannot."""

    @property
    def shape(self) -> Shape:
        """The shape that is registered for the provider."""
        return _SHAPES.get(self.provider.strip().lower(), Shape.ENTITIES)

    @property
    def can_anchor(self) -> bool:
        """True when a project may run on this datasource alone."""
        return self.anchors and self.shape is Shape.ENTITIES


class KeyColumn(BaseModel):
    """A column that may identify the same thing in another datasource."""

    datasource_id: str
    table: str
    """As the catalog names it; for a cube its name."""
    column: str
    """For a cube the whole member name, ``orders.customer_id``."""


class KeyPair(BaseModel):
    """A pair of keys that somebody declared between two datasources."""

    left: KeyColumn
    right: KeyColumn
    rejected: bool = False
    """True: the two look alike and must never be joined. Such a pair is not measured."""
    note: str = ""


class LlmConfig(BaseModel):
    provider: str = ""
    model: str = ""
    config: dict[str, Any] = Field(default_factory=dict)


class Project(BaseModel):
    id: str
    name: str
    description: str = ""
    domain: str = "general"
    """Slug of the pack whose prompts were copied in."""
    category: str = ""
    warehouse: WarehouseConfig | None = None
    """Legacy singular form; read as a list of one."""
    warehouses: list[WarehouseConfig] = Field(default_factory=list)
    primary_warehouse_id: str = ""
    key_pairs: list[KeyPair] = Field(default_factory=list)
    """Keys between datasources, as people declared them."""
    llm: LlmConfig = Field(default_factory=LlmConfig)
    """Empty provider: what the environment offers, else the offline analyst."""
    embedding: LlmConfig = Field(default_factory=LlmConfig)
    profile: dict[str, Any] = Field(default_factory=dict)
    prompts: ProjectPrompts = Field(default_factory=ProjectPrompts)
    language: str = ""
    state: str = ""
    """Empty means ready; anything else blocks a discovery."""
    validation_enabled: bool = True
    recommendation_verdicts: list[Status] = Field(default_factory=list)
    """Empty means confirmed and supported."""
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def datasources(self) -> list[WarehouseConfig]:
        """All datasources, the primary first."""
        every = self.warehouses or ([self.warehouse] if self.warehouse else [])
        first = next((w for w in every if w.id == self.primary_warehouse_id), None)
        return every if first is None else [first, *(w for w in every if w is not first)]

    def areas(self, left_out: Collection[str] = ()) -> dict[str, AreaConfig]:
        """Every analysis area by id: the project's, then those of each datasource's own pack, but
        for the datasources that are ``left_out``.

        An area of a datasource whose id is taken already is called after its datasource,
        ``crm_trends``; one that is the very same counts once.
        """
        every = dict(self.prompts.analysis_areas)
        for source in self.datasources():
            if source.id in left_out:
                continue
            for area_id, area in source.prompts.analysis_areas.items():
                taken = every.get(area_id)
                if taken is not None and _same_area(taken, area):
                    continue
                own = area.model_copy(update={"datasource_id": source.id})
                if taken is not None:
                    area_id = f"{source.id}_{area_id}"
                    own.name = f"{area.name} ({source.label or source.id})"
                every.setdefault(area_id, own)
        return every


def _same_area(one: AreaConfig, other: AreaConfig) -> bool:
    """True when both would look for the same in the same words."""
    return (one.name, one.description, one.keywords, one.prompt) == (
        other.name,
        other.description,
        other.keywords,
        other.prompt,
    )
