"""``veridical runs``, ``report`` and ``search``: what discoveries have left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serve.cli.options import Home, Json, Limit, ProjectName, settings_for

if TYPE_CHECKING:
    from pipeline.ports import VectorHit
    from pipeline.records import DiscoveryRun, Project
    from pipeline.settings import Settings
    from serve.cli.discovering import Outcome


def register(app: typer.Typer) -> None:
    app.command()(runs)
    app.command()(report)
    app.command()(search)


def runs(project: ProjectName, limit: Limit = 20, as_json: Json = False, home: Home = None) -> None:
    """List the runs of a project, newest first.

    \b
    Example:
      veridical runs Shop
    """
    from serve.cli import outside, said
    from serve.cli.lookup import find_project
    from serve.report.numbers import plural
    from serve.secrets import shown

    settings = settings_for(home)

    async def read() -> tuple[Project, list[DiscoveryRun]]:
        async with outside.open_store(settings) as store:
            found = await find_project(store, project)
            await outside.note_deaths(store)
            return found, await store.runs.recent(found.id, limit)

    found, listed = asyncio.run(read())
    if as_json:
        said.document(
            {"project": shown(found).model_dump(mode="json"), "runs": [_run(r) for r in listed]}
        )
        return
    if not listed:
        said.line(f'{found.name} has no run yet: veridical discover "{found.name}"')
        return
    said.table(
        f"Runs of {found.name}",
        ["Run", "Status", "Started", "#Queries", "#Insights", "Discovery", "Reason"],
        [
            [
                run.id,
                run.status.value,
                said.when(run.started_at),
                f"{run.total_queries:,}",
                f"{run.insights_found:,}",
                run.discovery_id,
                run.error,
            ]
            for run in listed
        ],
    )
    for run in listed:
        if run.resumable:
            kept = plural(run.last_checkpoint_step, "step")
            said.line(f"To go on with {run.id} after its {kept}: veridical resume {run.id}")


def _run(run: DiscoveryRun) -> dict[str, Any]:
    return {**run.model_dump(mode="json"), "resumable": run.resumable}


def report(
    discovery: Annotated[
        str,
        typer.Argument(
            metavar="DISCOVERY",
            help="Id of a discovery, or its start; a project, for its latest; or latest.",
        ),
    ] = "latest",
    project: Annotated[
        str, typer.Option("--project", help="With latest: of this project only.")
    ] = "",
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Write the report of a discovery again, sum it up, and say where it lies.

    \b
    Examples:
      veridical report
      veridical report Shop
      veridical report 7c0e0d7e-5d2f-4c0e-8a53-0f2b54a1c0de --json
    """
    from serve.cli import said
    from serve.cli.discovering import summarise

    settings = settings_for(home)
    outcome = asyncio.run(_report(settings, discovery, project))
    if as_json:
        said.document(outcome.document())
    else:
        summarise(outcome)


async def _report(settings: Settings, name: str, project: str) -> Outcome:
    from serve.cli import outside
    from serve.cli.discovering import outcome_of
    from serve.cli.lookup import find_discovery, find_project

    async with outside.open_store(settings) as store:
        only = await find_project(store, project) if project else None
        result = await find_discovery(store, name, only)
        owner = await store.projects.get(result.project_id)
        run = await store.runs.get(result.run_id)
        return await outcome_of(store, settings.home.path, owner, run, result)


def search(
    project: ProjectName,
    text: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    limit: Limit = 10,
    kind: Annotated[
        str, typer.Option(metavar="insight|recommendation", help="Only one kind.")
    ] = "",
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Find insights and recommendations of a project by meaning.

    \b
    Examples:
      veridical search Shop "late deliveries"
      veridical search Shop "what to do about returns" --kind recommendation
    """
    from pipeline.errors import BadRequest
    from serve.cli import said

    settings = settings_for(home)
    if kind not in ("", "insight", "recommendation"):
        raise BadRequest(f"--kind is {kind!r}; it must be insight or recommendation")
    if not text.strip():
        raise BadRequest("there is nothing to search for; give some words")
    hits = asyncio.run(_search(settings, project, text, limit, kind))
    if as_json:
        found = [{"id": h.id, "score": round(h.score, 4), **h.payload} for h in hits]
        said.document({"hits": found})
    elif not hits:
        said.line("Nothing is indexed in this project yet.")
    else:
        said.table(
            "",
            ["#Score", "Kind", "Finding", "Area", "Severity", "Discovery"],
            [[f"{hit.score:.2f}", *_words(hit)] for hit in hits],
        )


async def _search(
    settings: Settings, project: str, text: str, limit: int, kind: str
) -> list[VectorHit]:
    from serve.cli import outside
    from serve.cli.lookup import find_project

    async with outside.open_store(settings) as store:
        found = await find_project(store, project)
    return await outside.search_findings(settings, found, text, limit, kind)


def _words(hit: VectorHit) -> list[str]:
    names = ("type", "name", "analysis_area", "severity", "discovery_id")
    return [str(hit.payload.get(name) or "") for name in names]
