# pyright: reportUnknownMemberType=false
# matplotlib's stubs leave the keyword arguments of its drawing methods untyped.
"""Draws a chart as an SVG fragment that can stand in a page: no external reference, no script, no
identifier that another picture on the page could share, and the same bytes for the same data."""

from __future__ import annotations

import os
import re
import threading
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from pipeline.settings import HomeSettings
from serve.report.charts import ChartSpec
from serve.report.numbers import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, GRID = "#1f2933", "#5b6672", "#e3e7eb"
ACCENT, PALE = "#1c5d99", "#a9c3dc"
MARK = "#a3400f"
LINES = ("#1c5d99", "#b4531f", "#2f7d4f", "#7a4b9e", "#6b6f76")
WIDTH_INCHES = 5.8
AXIS_CHARS = 56
"""What fits below a line, in characters."""
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign in a cell is a dollar sign
    "font.size": 9.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": SOFT,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": INK,
}
_lock = threading.Lock()  # matplotlib's settings are global


def draw(chart: ChartSpec) -> str:
    """The chart as an ``<svg>`` element with its words as accessible name."""
    home = HomeSettings().path
    os.environ.setdefault("MPLCONFIGDIR", str(home / "cache" / "matplotlib"))
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    height = 0.5 + 0.27 * len(chart.labels) if chart.kind == "bars" else 2.5
    buffer = StringIO()
    style: dict[Any, Any] = {**_STYLE, "svg.hashsalt": f"{chart.step}-{chart.title}"}
    with _lock, mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
        axes = figure.subplots()
        (_draw_bars if chart.kind == "bars" else _draw_line)(axes, chart)
        _strip(axes, figure)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    return _fragment(buffer.getvalue(), chart.alt)


def _draw_bars(axes: Axes, chart: ChartSpec) -> None:
    values = [value or 0.0 for value in chart.series[0].values]
    colours = [
        ACCENT if i in chart.marked or not chart.marked else PALE for i in range(len(values))
    ]
    bars = axes.barh(chart.positions, values, color=colours, height=0.72)
    axes.bar_label(bars, [short(value) for value in values], padding=4, color=SOFT, fontsize=8.8)
    axes.set_yticks(chart.positions, chart.labels)
    axes.set_ylim(len(values) - 0.45, -0.55)
    axes.margins(x=0.1)
    axes.axvline(0, color=SOFT, linewidth=0.8)
    axes.xaxis.set_visible(False)
    axes.tick_params(axis="y", length=0)


def _draw_line(axes: Axes, chart: ChartSpec) -> None:
    few = len(chart.labels) <= 31
    for series, colour in zip(chart.series, LINES, strict=False):
        heights = [float("nan") if v is None else float(v) for v in series.values]
        axes.plot(
            chart.positions,
            heights,
            color=colour,
            linewidth=1.8,
            marker="o" if few else "",
            markersize=3.6,
            label=series.name,
        )
    if len(chart.series) > 1:
        axes.legend(frameon=False, fontsize=8.8, ncols=len(chart.series), loc="lower left",
                    bbox_to_anchor=(0, 1))  # fmt: skip
    if chart.from_zero:
        axes.set_ylim(bottom=0)
    _mark(axes, chart)
    widest = max(len(label) for label in chart.labels) + 2
    every = -(-len(chart.labels) * widest // AXIS_CHARS)
    axes.set_xticks(chart.positions[::every], chart.labels[::every])
    top = max(map(abs, chart.known))
    axes.yaxis.set_major_formatter(lambda value, _: short(value, like=top))
    axes.tick_params(axis="both", length=0)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _mark(axes: Axes, chart: ChartSpec) -> None:
    """The points that the text speaks of, with their values."""
    for series in chart.series[:1]:
        for index in sorted(chart.marked):
            value = series.values[index]
            if value is not None:
                place = (chart.positions[index], float(value))
                axes.plot(*place, marker="o", markersize=7, color=MARK, clip_on=False)
                axes.annotate(short(value), place, (0, 7), textcoords="offset points", ha="center",
                              fontsize=8.8, color=MARK, fontweight="bold")  # fmt: skip
    if chart.marked:
        axes.margins(y=0.14)


def _strip(axes: Axes, figure: Figure) -> None:
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)


_HEAD = re.compile(r"^.*?(?=<svg)", re.S)
_DROPPED = re.compile(r"<!--.*?-->|<metadata>.*?</metadata>|<style[^>]*>.*?</style>", re.S)
_OPENING = re.compile(r"<svg[^>]*viewBox=\"([^\"]+)\"[^>]*>")
_ID = re.compile(r' id="([^"]+)"')


def _fragment(document: str, alt: str) -> str:
    body = _DROPPED.sub("", _HEAD.sub("", document)).replace("xlink:href", "href")
    used = set(re.findall(r"[\"(]#([^\")]+)[\")]", body))
    body = _ID.sub(lambda m: m.group(0) if m.group(1) in used else "", body)
    name = escape(alt)
    match = _OPENING.search(body)
    assert match is not None
    start = f'<svg viewBox="{match.group(1)}" role="img" aria-label="{name}"><title>{name}</title>'
    body = start + body[match.end() :]
    return "\n".join(line for line in body.splitlines() if line.strip())
