"""``veridical discover`` and ``resume``: one discovery, and going on with one that failed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serve.cli.group import RUN_FAILED
from serve.cli.options import Home, Json, ProjectName, SkipCache, settings_for

if TYPE_CHECKING:
    from pipeline.settings import Settings
    from serve.cli.discovering import Outcome


def register(app: typer.Typer) -> None:
    app.command()(discover)
    app.command()(resume)


def discover(
    project: ProjectName,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", help="Exploration steps at most. Default: 100.")
    ] = None,
    min_steps: Annotated[
        int, typer.Option("--min-steps", help="Steps before the explorer may say that it is done.")
    ] = 0,
    effort: Annotated[
        str,
        typer.Option(help="lower, low, medium, high or higher: 20, 40, 60, 80 or 100 steps."),
    ] = "",
    areas: Annotated[
        str, typer.Option(metavar="A,B", help="Only these analysis areas. Default: all.")
    ] = "",
    skip_cache: SkipCache = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Explore a project's warehouse, check what is found, and write a report.

    \b
    Examples:
      veridical discover Shop
      veridical discover Shop --effort low
      veridical discover Shop --areas trends,segments --max-steps 30
      veridical discover Shop --json | jq .discovery.insights[].name
    """
    from pipeline.planning import plan_steps

    settings = settings_for(home)
    plan_steps(max_steps, min_steps, effort)  # refused before anything is opened
    asked: dict[str, Any] = {
        "max_steps": max_steps,
        "min_steps": min_steps,
        "effort": effort,
        "skip_cache": skip_cache,
        "areas": [area.strip() for area in areas.split(",") if area.strip()],
    }
    end(asyncio.run(_discover(settings, project, asked, as_json)), as_json=as_json)


async def _discover(settings: Settings, name: str, asked: dict[str, Any], as_json: bool) -> Outcome:
    from adapters.llm import choose
    from pipeline.planning import plan_run
    from serve.cli import discovering, outside, said
    from serve.cli.live import display
    from serve.cli.lookup import find_project

    async with outside.open_store(settings) as store:
        project = await find_project(store, name)
        planned = plan_run(project, now=datetime.now(UTC), **asked)
        if not as_json:
            said.line(choose(project.llm, settings.model).sentence)
        with display(as_json=as_json) as shown:
            async with outside.open_runtime(settings, progress=shown.note) as runtime:
                outcome = await discovering.discover(runtime, project, planned, shown)
                shown.close()
                if not as_json:
                    discovering.summarise(outcome)
    return outcome


def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a failed run.")],
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Go on with a run that failed, from its last finished step.

    What it has asked the model and the warehouse is not asked again, and areas that it has analysed
    are kept. `veridical runs PROJECT` shows which runs can be resumed.

    \b
    Example:
      veridical resume 7c0e0d7e-5d2f-4c0e-8a53-0f2b54a1c0de
    """
    end(asyncio.run(_resume(settings_for(home), run, as_json)), as_json=as_json)


async def _resume(settings: Settings, run_id: str, as_json: bool) -> Outcome:
    from adapters.llm import choose
    from serve.cli import discovering, outside, said
    from serve.cli.live import display

    async with outside.open_store(settings) as store:
        run = await outside.check_resumable(store, run_id)
        project = await store.projects.get(run.project_id)
        if not as_json:
            said.line(choose(project.llm, settings.model).sentence)
        with display(as_json=as_json) as shown:
            async with outside.open_runtime(settings, progress=shown.note) as runtime:
                resumed = await runtime.resume_run(run.id)
                outcome = await discovering.drive(runtime, project, resumed, shown)
                shown.close()
                if not as_json:
                    discovering.summarise(outcome)
    return outcome


def end(outcome: Outcome, *, as_json: bool) -> None:
    """Print the document if it was asked for, and leave with status 1 if the run failed."""
    from serve.cli import said

    if as_json:
        said.document(outcome.document())
    if not outcome.completed:
        run = outcome.run
        reason = run.error or "no reason was recorded"
        advice = f"; to go on with it: veridical resume {run.id}" if run.resumable else ""
        said.complaint(f"the run {run.status.value}: {reason}{advice}")
        raise typer.Exit(RUN_FAILED)
