"""Domain packs in their portable form."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

PACK_FORMAT = "decisionbox-domain-pack"


class PackCategory(BaseModel):
    id: str
    name: str
    description: str = ""


class PackArea(BaseModel):
    id: str
    name: str
    description: str = ""
    keywords: list[str]
    priority: int = 1
    prompt: str


class BasePrompts(BaseModel):
    base_context: str
    exploration: str
    recommendations: str


class CategoryPrompts(BaseModel):
    exploration_context: str = ""


class PackPrompts(BaseModel):
    base: BasePrompts
    categories: dict[str, CategoryPrompts] = Field(default_factory=dict)


class PackAreas(BaseModel):
    base: list[PackArea]
    categories: dict[str, list[PackArea]] = Field(default_factory=dict)


class DomainPack(BaseModel):
    slug: str
    name: str
    description: str = ""
    version: str = ""
    author: str = ""
    source_url: str = ""
    is_published: bool = True
    shape: Literal["entities", "cube"] = "entities"
    categories: list[PackCategory]
    prompts: PackPrompts
    analysis_areas: PackAreas
    profile_schema: dict[str, Any] = Field(default_factory=dict)


class PackFile(BaseModel):
    format: Literal["decisionbox-domain-pack"] = PACK_FORMAT
    format_version: Literal[1] = 1
    pack: DomainPack
