"""The prompts that a project owns, with their variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from pipeline.analysis.areas import Area, area_lines
from pipeline.ports import WarehouseInfo
from pipeline.prompting import load, render, text_block
from pipeline.records import Project

DEFAULT_LANGUAGE = "English"

_REFERENCE = re.compile(r"\{\{REF:([A-Za-z_][A-Za-z0-9_$]*)\}\}")


def base_context(project: Project, previous: str) -> str:
    """What every exploration, analysis and recommendation prompt starts with.

    The project's own text with profile, previous context and language filled in, then the
    engine's discipline rules, which no pack can leave out.
    """
    template = project.prompts.base_context
    remembered = text_block("previous_context", previous) if previous else ""
    variables = {
        "PROFILE": _profile(project.profile),
        "PREVIOUS_CONTEXT": remembered,
        "LANGUAGE": project.language or DEFAULT_LANGUAGE,
    }
    parts = [render(template, variables).strip(), load("base/discipline").strip()]
    if "{{PREVIOUS_CONTEXT}}" not in template:
        parts.insert(1, remembered)
    return "\n\n".join(part for part in parts if part)


def exploration_text(
    project: Project, areas: Sequence[Area], catalog: str, warehouses: Sequence[WarehouseInfo]
) -> str:
    """The pack's exploration text with catalog, areas and filter as data blocks.

    A block for which the text has no variable comes after it: no run explores without them.
    """
    template = project.prompts.exploration
    shared = warehouse_variables(warehouses)
    blocks = {
        "SCHEMA_INFO": text_block("catalog", catalog),
        "ANALYSIS_AREAS": text_block("areas", area_lines(areas)),
    }
    if "{{FILTER}}" not in template:
        blocks |= {name: shared[name] for name in ("FILTER_CONTEXT", "FILTER_RULE")}
    filled = fill(template, shared | blocks, warehouses).strip()
    rest = [block for name, block in blocks.items() if f"{{{{{name}}}}}" not in template]
    return "\n\n".join(part for part in (filled, *rest) if part)


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
        "DATASET": ", ".join(w.dataset for w in warehouses if w.dataset),
        "DIALECT": ", ".join(dict.fromkeys(w.dialect or w.query_language for w in warehouses)),
        "FILTER": held,
        "FILTER_CONTEXT": render(load("base/filter_context"), {"FILTER": held}) if held else "",
        "FILTER_RULE": load("base/filter_rule") if held else "",
    }


def fill(template: str, variables: Mapping[str, str], warehouses: Sequence[WarehouseInfo]) -> str:
    """Fill in variables and ``{{REF:table}}``, a table of the primary's first dataset as its
    dialect quotes it. What is malformed stays as it is."""
    if warehouses:
        template = _REFERENCE.sub(lambda m: _reference(m.group(1), warehouses[0]), template)
    return render(template, variables)


def _reference(table: str, warehouse: WarehouseInfo) -> str:
    dataset = warehouse.datasets[0] if warehouse.datasets else None
    return exp.table_(table, db=dataset, quoted=True).sql(dialect=warehouse.dialect)


def _profile(profile: Mapping[str, Any]) -> str:
    """Indented JSON as a block, or a fixed sentence when nothing was filled in."""
    if not profile:
        return load("base/no_profile").strip()
    return text_block("profile", json.dumps(profile, indent=2, ensure_ascii=False, default=str))
