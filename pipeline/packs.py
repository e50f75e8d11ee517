"""Domain packs: the portable form, its rules, and what a project copies from a pack."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from pipeline.anchoring import check_anchored, check_filters, check_ids, default_primary
from pipeline.errors import BadRequest, NotFound
from pipeline.records import (
    AreaConfig,
    DomainPack,
    KeyPair,
    LlmConfig,
    PackArea,
    PackFile,
    Project,
    ProjectPrompts,
    Shape,
    WarehouseConfig,
)

SLUG = re.compile(r"[a-z0-9][a-z0-9-]*[a-z0-9]")
MAX_PROBLEMS = 5
NAME_CHARS = 200
NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
EFFORT_STEPS = {"lower": 20, "low": 40, "medium": 60, "high": 80, "higher": 100}


def effort_steps(effort: str) -> int:
    """Exploration steps of an effort: lower 20, low 40, medium 60, high 80, higher 100."""
    steps = EFFORT_STEPS.get(effort.strip().lower())
    if steps is None:
        raise BadRequest(f"unknown effort {effort!r}; choose one of {', '.join(EFFORT_STEPS)}")
    return steps


# ---------------------------------------------------------------- reading and checking


def load_pack(slug: str) -> DomainPack:
    """A pack that ships with Veridical. Raises ``NotFound``."""
    resource = files("packs") / f"{slug}.json"
    if not SLUG.fullmatch(slug) or not resource.is_file():
        raise NotFound(f"no domain pack {slug!r}; these exist: {', '.join(shipped_packs())}")
    return validate_pack(json.loads(resource.read_text(encoding="utf-8")))


def shipped_packs() -> list[str]:
    """Slugs of the packs that ship with Veridical."""
    names = (resource.name for resource in files("packs").iterdir())
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def validate_pack(portable: Mapping[str, Any] | PackFile) -> DomainPack:
    """Check a pack in its portable form, ``{format, format_version, pack}``.

    Raises ``BadRequest`` with every rule that it breaks.
    """
    if isinstance(portable, PackFile):
        pack = portable.pack
    else:
        try:
            pack = PackFile.model_validate(dict(portable)).pack
        except ValidationError as error:
            raise BadRequest(f"not a domain pack: {_told(error)}") from error
    problems = list(_problems(pack))
    if problems:
        raise BadRequest(f"domain pack {pack.slug!r}: {'; '.join(problems)}")
    return pack


def export_pack(pack: DomainPack) -> dict[str, Any]:
    """The portable form of a pack."""
    return PackFile(pack=pack).model_dump(mode="json")


def _told(error: ValidationError) -> str:
    """What pydantic complains of, the first few in full."""
    found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}".lstrip(": ") for e in error.errors()]
    more = len(found) - MAX_PROBLEMS
    return "; ".join(found[:MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _problems(pack: DomainPack) -> Iterator[str]:
    if not SLUG.fullmatch(pack.slug):
        yield "slug must be lower-case letters, digits and inner dashes, at least 2 characters"
    if not pack.name.strip():
        yield "name is missing"
    if not pack.categories:
        yield "at least one category is needed"
    for category in pack.categories:
        if not category.id.strip() or not category.name.strip():
            yield f"category {category.id or category.name!r} needs an id and a name"
    yield from _prompt_problems(pack)
    if not pack.analysis_areas.base:
        yield "at least one base analysis area is needed"
    for area in _every_area(pack):
        missing = [
            name
            for name, there in (
                ("id", area.id.strip()),
                ("name", area.name.strip()),
                ("keywords", any(word.strip() for word in area.keywords)),
                ("prompt", area.prompt.strip()),
            )
            if not there
        ]
        if missing:
            yield f"analysis area {area.id or area.name!r} lacks {', '.join(missing)}"


def _prompt_problems(pack: DomainPack) -> Iterator[str]:
    exploration = ["DATASET", "SCHEMA_INFO", "ANALYSIS_AREAS"]
    if pack.shape == "cube":
        exploration.remove("DATASET")
    base = pack.prompts.base
    for name, text, needed in (
        ("base_context", base.base_context, ["PROFILE"]),
        ("exploration", base.exploration, exploration),
        ("recommendations", base.recommendations, ["INSIGHTS_DATA"]),
    ):
        if not text.strip():
            yield f"prompt {name} is missing"
            continue
        lacking = [f"{{{{{v}}}}}" for v in needed if f"{{{{{v}}}}}" not in text]
        if lacking:
            yield f"prompt {name} must contain {', '.join(lacking)}"


def _every_area(pack: DomainPack) -> Iterator[PackArea]:
    yield from pack.analysis_areas.base
    for areas in pack.analysis_areas.categories.values():
        yield from areas


# ---------------------------------------------------------------- a project from a pack


def _check_name(name: str) -> None:
    """A name can be typed, is one line and fits a heading. Raises ``BadRequest``."""
    if not name.strip():
        raise BadRequest("a project needs a name")
    if len(name) > NAME_CHARS:
        raise BadRequest(
            f"the project's name has {len(name):,} characters; {NAME_CHARS} are the most"
        )
    if NOT_IN_NAMES.search(name.strip()):
        raise BadRequest(
            "the project's name holds a line break or another character that cannot be seen; "
            "leave it out"
        )


def new_project(
    name: str,
    pack: DomainPack,
    warehouse: WarehouseConfig | Sequence[WarehouseConfig],
    *,
    category: str = "",
    description: str = "",
    llm: LlmConfig | None = None,
    embedding: LlmConfig | None = None,
    profile: Mapping[str, Any] | None = None,
    language: str = "",
    primary_warehouse_id: str = "",
    key_pairs: Sequence[KeyPair] = (),
    packs: Mapping[str, DomainPack] | None = None,
    project_id: str = "",
    now: datetime | None = None,
) -> Project:
    """A project with the pack's prompts copied in; later edits of the pack do not reach it.

    ``category`` is the pack's first unless given, the primary warehouse the first that can anchor a
    run. ``packs`` are the datasources' own, by datasource id; the ``category`` of a datasource
    chooses from its pack. Raises ``BadRequest`` for an unknown category, primary or datasource, for
    a pack of another shape than its datasource, for keys between datasources that are none, when
    the primary cannot anchor, and for a cube with a row filter.
    """
    _check_name(name)
    chosen = category_of(pack, category)
    warehouses = [warehouse] if isinstance(warehouse, WarehouseConfig) else list(warehouse)
    if not warehouses:
        raise BadRequest("a project needs a warehouse")
    check_ids(warehouses, packs or {}, key_pairs)
    primary = primary_warehouse_id or default_primary(warehouses)
    if primary not in {source.id for source in warehouses}:
        raise BadRequest(f"the primary warehouse {primary!r} is none of the project's warehouses")
    check_anchored(sorted(warehouses, key=lambda source: source.id != primary))
    check_filters(warehouses)
    check_shape(pack, next(source for source in warehouses if source.id == primary))
    warehouses = [
        with_pack(source, packs[source.id]) if packs and source.id in packs else source
        for source in warehouses
    ]
    created = now or datetime.now(UTC)
    return Project(
        id=project_id or str(uuid.uuid4()),
        name=name.strip(),
        description=description,
        domain=pack.slug,
        category=chosen,
        warehouses=warehouses,
        primary_warehouse_id=primary,
        key_pairs=list(key_pairs),
        llm=llm or LlmConfig(),
        embedding=embedding or LlmConfig(),
        profile=dict(profile or {}),
        prompts=project_prompts(pack, chosen),
        language=language,
        created_at=created,
        updated_at=created,
    )


def category_of(pack: DomainPack, category: str) -> str:
    """The category if the pack has it, its first for none. Raises ``BadRequest``."""
    known = [each.id for each in pack.categories]
    if category and category not in known:
        raise BadRequest(
            f"pack {pack.slug!r} has no category {category!r}; it has: {', '.join(known)}"
        )
    return category or known[0]


def packs_named(
    pack: DomainPack, category: str, warehouses: Sequence[WarehouseConfig]
) -> dict[str, DomainPack]:
    """By datasource id, the packs that datasources name by ``domain``, without those for which the
    project's pack speaks and those that bring their prompts along. Raises ``NotFound``."""
    return {
        source.id: load_pack(source.domain)
        for source in warehouses
        if source.domain
        and not source.prompts.exploration
        and not source.prompts.analysis_areas
        and (source.domain, source.category or category) != (pack.slug, category)
    }


def with_pack(source: WarehouseConfig, pack: DomainPack) -> WarehouseConfig:
    """The datasource with a pack of its own copied in. Raises ``BadRequest`` for a pack of another
    shape or without the datasource's category."""
    check_shape(pack, source)
    chosen = category_of(pack, source.category)
    own = {"domain": pack.slug, "category": chosen, "prompts": project_prompts(pack, chosen)}
    return source.model_copy(update=own)


def check_shape(pack: DomainPack, source: WarehouseConfig) -> None:
    """Raises ``BadRequest`` when a pack speaks of tables and the datasource is a cube, or the other
    way round."""
    if pack.shape == source.shape.value:
        return
    holds = "is a cube" if source.shape is Shape.CUBE else "holds tables"
    raise BadRequest(
        f"pack {pack.slug!r} has the shape {pack.shape!r}, and datasource {source.id!r} {holds}; "
        f"choose a pack of the shape {source.shape.value!r} for it"
    )


def project_prompts(pack: DomainPack, category: str) -> ProjectPrompts:
    """What a project of this category copies: base exploration text, a blank line and the
    category's; base areas, then the category's own."""
    base = pack.prompts.base
    own = pack.prompts.categories.get(category)
    context = own.exploration_context.strip() if own else ""
    areas = {area.id: _copied(area, is_base=True) for area in pack.analysis_areas.base}
    areas |= {
        area.id: _copied(area, is_base=False)
        for area in pack.analysis_areas.categories.get(category, [])
    }
    return ProjectPrompts(
        base_context=base.base_context,
        exploration=f"{base.exploration}\n\n{context}" if context else base.exploration,
        recommendations=base.recommendations,
        analysis_areas=areas,
    )


def _copied(area: PackArea, *, is_base: bool) -> AreaConfig:
    return AreaConfig(
        name=area.name,
        description=area.description,
        keywords=list(area.keywords),
        prompt=area.prompt,
        is_base=is_base,
        priority=area.priority,
    )
