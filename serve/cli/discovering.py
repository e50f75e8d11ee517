"""One discovery from the command line: start it, show it, write its report, sum it up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from pipeline.errors import StoreUnavailable
from pipeline.records import (
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Project,
    RunStatus,
    RunStepType,
)
from serve.cli import said
from serve.cli.live import Display
from serve.report import ReportPaths, write_report
from serve.report.checks import HELD
from serve.secrets import shown
from serve.wording import SEVERITY_ORDER, validation_meta

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.store import Store
    from serve.runtime import Runtime

POLL_SECONDS = 0.25
PAGE_ROWS = 200
MOST_FAILURES = 3
"""Looks in a row that may fail before the store counts as gone; each waits for it in vain."""
WIDE = 100
"""Below so many columns the table of insights has no column of its own for the ref."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run and what it left; without a discovery when it failed before it had one."""

    project: Project
    run: DiscoveryRun
    discovery: DiscoveryResult | None = None
    steps: list[ExplorationStep] = field(default_factory=list[ExplorationStep])
    report: ReportPaths | None = None

    @property
    def completed(self) -> bool:
        return self.run.status is RunStatus.COMPLETED

    def document(self) -> dict[str, Any]:
        """The one JSON document of ``--json``."""
        paths = self.report
        return {
            "project": shown(self.project).model_dump(mode="json"),
            "run": self.run.model_dump(mode="json"),
            "discovery": self.discovery.model_dump(mode="json") if self.discovery else None,
            "steps": said.records(self.steps),
            "report": {"markdown": str(paths.markdown), "html": str(paths.html)} if paths else None,
        }


async def discover(
    runtime: Runtime,
    project: Project,
    planned: DiscoveryRun,
    display: Display,
) -> Outcome:
    """Run one discovery to its end, with its feed on the display, and write its report.

    Raises ``Conflict`` while another run is active. A run that fails is an outcome.
    """
    return await drive(runtime, project, await runtime.start_run(planned), display)


async def drive(
    runtime: Runtime, project: Project, begun: DiscoveryRun, display: Display
) -> Outcome:
    """Run what is pending or resumed to its end, with its feed on the display, and write its
    report. A run that fails is an outcome."""
    run = await _watched(runtime, begun, display)
    if not run.discovery_id:
        return Outcome(project, run)
    result = await runtime.store.discoveries.get(run.discovery_id)
    return await outcome_of(runtime.store, runtime.settings.home.path, project, run, result)


async def outcome_of(
    store: Store, home: Path, project: Project, run: DiscoveryRun, result: DiscoveryResult
) -> Outcome:
    """Read what a run left and write its report below ``<home>/reports/<discovery id>/``."""
    steps = await store.exploration_steps.of(result.id)
    folder = home / "reports" / result.id
    paths = await asyncio.to_thread(write_report, project, run, result, steps, folder)
    return Outcome(project, run, result, list(steps), paths)


async def _watched(runtime: Runtime, run: DiscoveryRun, display: Display) -> DiscoveryRun:
    ended = asyncio.Event()
    feed = asyncio.create_task(follow(runtime, run, display, ended))
    driving = asyncio.create_task(runtime.run(run))
    try:
        await asyncio.wait({driving, feed}, return_when=asyncio.FIRST_COMPLETED)
        if feed.done():  # the store has gone, and nothing of the run would be kept
            feed.result()
        finished = await driving
        ended.set()
        await feed
    finally:
        feed.cancel()
        driving.cancel()
        await asyncio.wait({driving, feed})
        for task in (driving, feed):
            _ = task.cancelled() or task.exception()  # one error is told, and none is logged
    return finished


async def follow(
    runtime: Runtime, run: DiscoveryRun, display: Display, ended: asyncio.Event
) -> None:
    """Show new rows of the feed until the run has ended and the last row is shown. Raises
    ``StoreUnavailable`` when the store stays away.

    Ray's dashboard comes up once there is something to see: it would hold up the first step.
    """
    store, since, failures = runtime.store, "", 0
    while True:
        last_look = ended.is_set()
        try:
            rows = await store.run_steps.since(
                run.id, attempt=run.attempt, since_id=since, limit=PAGE_ROWS
            )
            display.state(await store.runs.get(run.id))
        except StoreUnavailable:
            failures += 1
            if failures == MOST_FAILURES:
                raise
            await asyncio.sleep(POLL_SECONDS)
            continue
        failures = 0
        for row in rows:
            display.row(row)
            since = row.id
            if row.type is RunStepType.QUERY:
                runtime.start_dashboard()
        if last_look and len(rows) < PAGE_ROWS:
            return
        if not rows:
            await _settle(ended)


async def _settle(ended: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(ended.wait(), POLL_SECONDS)
    except TimeoutError:
        return


# ---------------------------------------------------------------- the summary


def summarise(outcome: Outcome) -> None:
    """Print the findings by area, the recommendations, and where the report lies."""
    result = outcome.discovery
    if result is None:
        return
    _insights(outcome.project, result)
    _recommendations(result)
    held = sum(1 for i in result.insights if i.validation and i.validation.combined in HELD)
    said.line(f"{held} of {len(result.insights)} findings held against the data.")
    if outcome.report:
        said.line(f"Report: {outcome.report.html}")
        said.line(f"        {outcome.report.markdown}")


def _insights(project: Project, result: DiscoveryResult) -> None:
    areas = project.areas()
    order = sorted(areas, key=lambda id_: areas[id_].priority)
    ranked = sorted(
        result.insights,
        key=lambda i: (
            order.index(i.analysis_area) if i.analysis_area in order else len(order),
            SEVERITY_ORDER[i.severity],
            -i.affected_count,
        ),
    )
    narrow = said.width() < WIDE
    rows: list[list[str | Text]] = []
    shown = ""
    for insight in ranked:
        name = areas[insight.analysis_area].name if insight.analysis_area in areas else ""
        area = name or insight.analysis_area
        rows.append(
            [
                "" if area == shown else area,
                *([f"{insight.ref}: {insight.name}"] if narrow else [insight.ref, insight.name]),
                said.severity(insight.severity.value),
                f"{insight.affected_count:,}",
                said.status(validation_meta(insight.validation)),
            ]
        )
        shown = area
    said.line()
    if rows:
        named = ["Insight"] if narrow else ["Ref", "Insight"]
        said.table("Insights", ["Area", *named, "Severity", "#Affected", "Check"], rows)
    else:
        said.line("This discovery wrote no insights.")


def _recommendations(result: DiscoveryResult) -> None:
    refs = {key: insight.ref for insight in result.insights for key in (insight.id, insight.ref)}
    rows: list[list[str | Text]] = [
        [
            str(advice.priority),
            advice.title,
            ", ".join(refs.get(id_, id_) for id_ in advice.related_insight_ids),
            said.status(validation_meta(advice.validation)),
        ]
        for advice in result.recommendations
    ]
    if rows:
        columns = ["#Priority", "Recommendation", "Rests on", "Check"]
        said.table("Recommendations", columns, rows)
