"""The prompts that a project owns, with their variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlglot import exp

from pipeline.analysis.areas import Area, area_lines
from pipeline.ports import WarehouseInfo
from pipeline.prompting import load, render, text_block
from pipeline.records import Project, Shape, WarehouseConfig

DEFAULT_LANGUAGE = "English"

_REFERENCE = re.compile(r"\{\{REF:([A-Za-z_][A-Za-z0-9_$]*)\}\}")


def base_context(project: Project, previous: str, left_out: Collection[str] = ()) -> str:
    """What every exploration, analysis and recommendation prompt starts with.

    The project's own text with profile, previous context and language filled in, then the profiles
    of its datasources but for those ``left_out``, then the engine's discipline rules, which no pack
    can leave out.
    """
    template = project.prompts.base_context
    remembered = text_block("previous_context", previous) if previous else ""
    variables = {
        "PROFILE": _profile(project.profile),
        "PREVIOUS_CONTEXT": remembered,
        "LANGUAGE": project.language or DEFAULT_LANGUAGE,
    }
    profiles = [
        _source_profile(source)
        for source in project.datasources()
        if source.profile and source.id not in left_out
    ]
    parts = [render(template, variables).strip(), *profiles, load("base/discipline").strip()]
    if "{{PREVIOUS_CONTEXT}}" not in template:
        parts.insert(1, remembered)
    return "\n\n".join(part for part in parts if part)


def exploration_text(
    project: Project, areas: Sequence[Area], catalog: str, warehouses: Sequence[WarehouseInfo]
) -> str:
    """The exploration texts of the project's pack and of its datasources' own packs, with catalog,
    areas and filter as data blocks.

    A block for which the project's text has no variable comes after it: no run explores without
    them. The project's text speaks for the datasources that have no text of their own.
    """
    template = project.prompts.exploration
    own = {s.id: s for s in project.datasources() if s.prompts.exploration.strip()}
    shared = warehouse_variables(warehouses)
    spoken_for = [info for info in warehouses if info.id not in own] or warehouses
    shared["DATASET"] = warehouse_variables(spoken_for)["DATASET"]
    blocks = {
        "SCHEMA_INFO": text_block("catalog", catalog),
        "ANALYSIS_AREAS": text_block("areas", area_lines(areas)),
    }
    if "{{FILTER}}" not in template:
        blocks |= {name: shared[name] for name in ("FILTER_CONTEXT", "FILTER_RULE")}
    filled = fill(template, shared | blocks, warehouses).strip()
    rest = [block for name, block in blocks.items() if f"{{{{{name}}}}}" not in template]
    texts = [_source_text(own[info.id], info, areas) for info in warehouses if info.id in own]
    return "\n\n".join(part for part in (filled, *rest, *texts) if part)


def _source_text(source: WarehouseConfig, info: WarehouseInfo, areas: Sequence[Area]) -> str:
    """The exploration text of a datasource's own pack. Catalog and areas are told once, in the
    project's text, so here they are only referred to."""
    mine = [area.id for area in areas if area.datasource_id == source.id]
    told = {
        "SCHEMA_INFO": f"(in the block `catalog`, under datasource {source.id})",
        "ANALYSIS_AREAS": f"(in the block `areas`: {', '.join(mine) or 'all of them'})",
        "FILTER": "(in the block `filter`)" if info.filter_field else "",
        "FILTER_CONTEXT": "",
        "FILTER_RULE": "",
    }
    text = fill(source.prompts.exploration, warehouse_variables([info]) | told, [info]).strip()
    variables = {"ID": source.id, "TEXT": text}
    return render(load("exploration/datasource"), variables).strip()


def _source_profile(source: WarehouseConfig) -> str:
    variables = {"ID": source.id, "PROFILE": _profile(source.profile, "datasource_profile")}
    return render(load("base/datasource_profile"), variables).strip()


def warehouse_variables(warehouses: Sequence[WarehouseInfo]) -> dict[str, str]:
    """``DATASET``, ``DIALECT``, ``FILTER``, ``FILTER_CONTEXT`` and ``FILTER_RULE``; the last three
    are empty where no datasource has a tenant filter."""
    clauses = [
        (w.id, f"{w.filter_field} = {exp.Literal.string(w.filter_value).sql(w.dialect)}")
        for w in warehouses
        if w.filter_field
    ]
    several = len(warehouses) > 1
    lines = [f"datasource {owner}: {clause}" if several else clause for owner, clause in clauses]
    held = text_block("filter", "\n".join(lines)) if lines else ""
    return {
        "DATASET": ", ".join(w.dataset or _whole(w) for w in warehouses),
        "DIALECT": ", ".join(dict.fromkeys(w.dialect or w.query_language for w in warehouses)),
        "FILTER": held,
        "FILTER_CONTEXT": render(load("base/filter_context"), {"FILTER": held}) if held else "",
        "FILTER_RULE": load("base/filter_rule") if held else "",
    }


def _whole(warehouse: WarehouseInfo) -> str:
    """How a datasource is called that is read without naming datasets."""
    what = "cubes" if warehouse.shape is Shape.CUBE else "datasets"
    return f"all {what} of {warehouse.id}"


def fill(template: str, variables: Mapping[str, str], warehouses: Sequence[WarehouseInfo]) -> str:
    """Fill in variables and ``{{REF:table}}``, a table of the primary's first dataset as its
    dialect quotes it. What is malformed stays as it is."""
    if warehouses:
        template = _REFERENCE.sub(lambda m: _reference(m.group(1), warehouses[0]), template)
    return render(template, variables)


def _reference(table: str, warehouse: WarehouseInfo) -> str:
    if warehouse.shape is Shape.CUBE:
        return table
    dataset = warehouse.datasets[0] if warehouse.datasets else None
    return exp.table_(table, db=dataset, quoted=True).sql(dialect=warehouse.dialect)


def _profile(profile: Mapping[str, Any], name: str = "profile") -> str:
    """Indented JSON as a block, or a fixed sentence when nothing was filled in."""
    if not profile:
        return load("base/no_profile").strip()
    return text_block(name, json.dumps(profile, indent=2, ensure_ascii=False, default=str))
