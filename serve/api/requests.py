"""Bodies of requests, and the project that a body describes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, Field, StringConstraints, model_validator

from pipeline.anchoring import default_primary
from pipeline.errors import BadRequest, NotFound
from pipeline.packs import (
    NAME_CHARS,
    category_of,
    load_pack,
    new_project,
    packs_named,
    validate_pack,
)
from pipeline.records import DomainPack, KeyPair, LlmConfig, Project, Status, WarehouseConfig

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=NAME_CHARS)]


MOST_LEVELS = 64


class NewWarehouse(WarehouseConfig):
    """A warehouse whose own pack is named by its ``domain``, or given in the portable form."""

    pack: dict[str, Any] | None = None


class CreateProject(BaseModel):
    name: Name
    description: str = ""
    domain: str = ""
    """Slug of a pack; else what the primary names, else general."""
    category: str = ""
    pack: dict[str, Any] | None = None
    """A pack in the portable form, instead of ``domain``."""
    warehouse: NewWarehouse | None = None
    warehouses: list[NewWarehouse] = Field(default_factory=list)
    primary_warehouse_id: str = ""
    """The first that can anchor a run, unless given."""
    key_pairs: list[KeyPair] = Field(default_factory=list)
    """Keys between the warehouses."""
    llm: LlmConfig = Field(default_factory=LlmConfig)
    embedding: LlmConfig = Field(default_factory=LlmConfig)
    profile: dict[str, Any] = Field(default_factory=dict)
    language: str = ""
    validation_enabled: bool = True
    recommendation_verdicts: list[Status] = Field(default_factory=list)

    @property
    def every_warehouse(self) -> list[NewWarehouse]:
        return self.warehouses or ([self.warehouse] if self.warehouse else [])

    @model_validator(mode="before")
    @classmethod
    def _not_too_deep(cls, body: Any) -> Any:
        if _deeper_than(MOST_LEVELS, body):
            raise ValueError(f"the body is nested deeper than {MOST_LEVELS} levels")
        return body

    @model_validator(mode="after")
    def _warehouses_make_sense(self) -> Self:
        every = self.every_warehouse
        if not every:
            raise ValueError("a warehouse is needed: give its provider and its config")
        for warehouse in every:
            _check_warehouse(warehouse)
        ids = [warehouse.id for warehouse in every]
        if len(set(ids)) < len(ids):
            raise ValueError("two warehouses share an id")
        if self.primary_warehouse_id and self.primary_warehouse_id not in ids:
            raise ValueError(
                f"primary_warehouse_id {self.primary_warehouse_id!r} is not among them"
            )
        return self


class Discover(BaseModel):
    areas: list[str] = Field(default_factory=list)
    effort: str = ""
    """lower, low, medium, high or higher: 20, 40, 60, 80 or 100 steps."""
    max_steps: int | None = None
    min_steps: int | None = None


def _deeper_than(levels: int, value: Any) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = cast("dict[str, Any] | list[Any]", value)
    items = inner.values() if isinstance(inner, dict) else inner
    return levels == 0 or any(_deeper_than(levels - 1, item) for item in items)


def _check_warehouse(warehouse: WarehouseConfig) -> None:
    if not warehouse.id or not warehouse.provider:
        raise ValueError("a warehouse needs an id and a provider")
    if warehouse.provider == "duckdb" and not str(warehouse.config.get("path") or "").strip():
        raise ValueError("a duckdb warehouse needs config.path, the path of its file")
    if warehouse.provider == "cube" and not str(warehouse.config.get("url") or "").strip():
        raise ValueError("a cube warehouse needs config.url, the address of its deployment")
    if bool(warehouse.filter_field) != bool(warehouse.filter_value):
        raise ValueError("filter_field and filter_value belong together: give both or neither")


def project_from(body: CreateProject, at: datetime) -> Project:
    """The project that a body describes, with the prompts of its packs copied in.

    Raises ``BadRequest`` for an unknown pack or category, and for a pack that breaks a rule.
    """
    given = body.every_warehouse
    warehouses = [WarehouseConfig.model_validate(w.model_dump(exclude={"pack"})) for w in given]
    first = body.primary_warehouse_id or default_primary(warehouses)
    primary = next(warehouse for warehouse in warehouses if warehouse.id == first)
    try:
        slug = body.domain or primary.domain or "general"
        pack = load_pack(slug) if body.pack is None else validate_pack(body.pack)
        category = category_of(pack, body.category or _category(pack, primary))
        packs = packs_named(pack, category, warehouses)
    except NotFound as error:
        raise BadRequest(str(error)) from error
    for warehouse in given:
        if warehouse.pack is not None:
            packs[warehouse.id] = validate_pack(warehouse.pack)
    project = new_project(
        body.name,
        pack,
        warehouses,
        category=category,
        description=body.description,
        llm=body.llm,
        embedding=body.embedding,
        profile=body.profile,
        language=body.language,
        primary_warehouse_id=body.primary_warehouse_id,
        key_pairs=body.key_pairs,
        packs=packs,
        now=at,
    )
    return project.model_copy(
        update={
            "validation_enabled": body.validation_enabled,
            "recommendation_verdicts": body.recommendation_verdicts,
        }
    )


def _category(pack: DomainPack, primary: WarehouseConfig) -> str:
    """The primary's category when it names this very pack."""
    return primary.category if primary.domain == pack.slug else ""
