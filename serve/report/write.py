"""Lays a page out and writes its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pipeline.records import DiscoveryResult, DiscoveryRun, ExplorationStep, Project
from serve.report import prose
from serve.report.charts import ChartSpec
from serve.report.numbers import clean, duration, number, plural
from serve.report.page import Page, build
from serve.report.picture import draw


@dataclass(frozen=True, slots=True)
class ReportPaths:
    markdown: Path
    html: Path


def write_report(
    project: Project,
    run: DiscoveryRun,
    result: DiscoveryResult,
    steps: Sequence[ExplorationStep],
    folder: Path,
) -> ReportPaths:
    """Write ``report.md`` and ``report.html`` below ``folder``, which is made when missing.

    The same records give the same bytes. Blocking; raises ``OSError`` when that cannot be written.
    """
    page = build(project, run, result, steps)
    folder.mkdir(parents=True, exist_ok=True)
    paths = ReportPaths(folder / "report.md", folder / "report.html")
    _replace(paths.markdown, as_markdown(page))
    _replace(paths.html, as_html(page))
    return paths


def as_html(page: Page) -> str:
    template = _pages().get_template("report.html")
    return template.render(page=page, css=Markup(_source("report.css"))).strip() + "\n"


def as_markdown(page: Page) -> str:
    text = _markdown().get_template("report.md").render(page=page)
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [x for i, x in enumerate(lines) if x or (i and lines[i - 1])]
    return "\n".join(kept).strip() + "\n"


def bar_text(chart: ChartSpec, width: int = 36) -> str:
    """The chart as lines of text, for the Markdown report; what is below zero goes to the left."""
    top, bottom = max(0.0, *chart.known), min(0.0, *chart.known)
    scale = width / ((top - bottom) or 1.0)
    left = round(-bottom * scale)
    name = max(len(label) for label in chart.labels)
    lines: list[str] = []
    for label, value in zip(chart.labels, chart.series[0].values, strict=True):
        size = "█" * round(abs(value or 0.0) * scale)
        below = value is not None and value < 0
        bar = f"{size if below else '':>{left}}{'│' if bottom else ''}{'' if below else size}"
        told = "–" if value is None else number(value)
        lines.append(f"{label:<{name}}  {bar or '▏'} {told}")
    return "\n".join(lines)


def _replace(path: Path, text: str) -> None:
    """Write beside and rename, so that a reader never sees half a report."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def _source(name: str) -> str:
    return (files("serve.report.templates") / name).read_text(encoding="utf-8")


def _environment(*, escape: bool, **words: Callable[..., str]) -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalised,
    )
    filters = cast("dict[str, Any]", environment.filters)
    filters |= {"duration": duration, "number": number, "plural": plural, **words}
    return environment


def _finalised(value: object) -> object:
    return clean(value) if type(value) is str else value


@cache
def _pages() -> Environment:
    return _environment(escape=True, prose=_prose, draw=_picture)


def _prose(text: str) -> Markup:
    return Markup(prose.html(text))


def _picture(chart: ChartSpec) -> Markup:
    return Markup(draw(chart))


@cache
def _markdown() -> Environment:
    return _environment(
        escape=False,
        md=prose.escaped,
        quoted=prose.quoted,
        fenced=prose.fenced,
        bars=bar_text,
        table=prose.table,
    )
