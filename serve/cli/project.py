"""``veridical project``: create, list and show projects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serve.cli.options import Home, Json, Limit, ProjectName, settings_for

if TYPE_CHECKING:
    from pipeline.records import Project
    from pipeline.settings import Settings

group = typer.Typer(no_args_is_help=True, help="Create, list and show projects.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="project")


@group.command()
def create(
    name: Annotated[str, typer.Argument(help="What to call the project.")],
    warehouse: Annotated[
        str, typer.Option("--warehouse", metavar="FILE", help="A DuckDB file. It is only read.")
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", help="A schema to read; may be repeated. Default: main."),
    ] = None,
    filter_field: Annotated[
        str,
        typer.Option(help="Read only rows whose FIELD has --filter-value, in every table."),
    ] = "",
    filter_value: Annotated[str, typer.Option(help="The value for --filter-field.")] = "",
    shared: Annotated[
        list[str] | None,
        typer.Option("--shared", help="A table without the filter field that may be read."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also",
            metavar="ID=FILE|URL",
            help="Another datasource to read beside it: a DuckDB file, or the URL of a Cube "
            "deployment (its token stays in CUBE_API_TOKEN). May be repeated.",
        ),
    ] = None,
    pack: Annotated[
        str,
        typer.Option(
            metavar="PACK|FILE",
            help="Domain pack to copy prompts from: its name or a JSON file, with :CATEGORY "
            "behind it for another category than its first.",
        ),
    ] = "general",
    also_pack: Annotated[
        list[str] | None,
        typer.Option(
            "--also-pack",
            metavar="ID=PACK|FILE",
            help="A pack for one datasource: its exploration text and areas join in.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What is known about the business, as a JSON object."),
    ] = None,
    also_profile: Annotated[
        list[str] | None,
        typer.Option(
            "--also-profile", metavar="ID=FILE", help="What is known about one datasource."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="ID:COLUMN=ID:COLUMN",
            help="Columns of two datasources that identify the same things, such as "
            "default:main.orders.customer=crm:main.contacts.id.",
        ),
    ] = None,
    never_join: Annotated[
        list[str] | None,
        typer.Option(
            "--never-join",
            metavar="ID:COLUMN=ID:COLUMN",
            help="Columns of two datasources that look alike and must not be related.",
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Language of the findings.")] = "",
    description: Annotated[str, typer.Option(help="A note for people.")] = "",
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Create a project over a warehouse. The warehouse is opened first.

    \b
    Examples:
      veridical project create Shop --warehouse shop.duckdb
      veridical project create "Tenant 7" --warehouse all.duckdb \\
          --filter-field tenant_id --filter-value 7
      veridical project create Both --warehouse shop.duckdb --also crm=crm.duckdb
      veridical project create All --warehouse shop.duckdb \\
          --also sales=http://localhost:4000 --also-pack sales=measures
    """
    from pipeline.errors import BadRequest
    from pipeline.packs import new_project
    from pipeline.records import DEFAULT_DATASOURCE
    from serve.cli import datasources, said
    from serve.secrets import shown

    settings = settings_for(home)
    if bool(filter_field) != bool(filter_value):
        raise BadRequest("--filter-field and --filter-value belong together: give both or neither")
    primary = datasources.source_at(DEFAULT_DATASOURCE, warehouse).model_copy(
        update={
            "datasets": dataset or [],
            "filter_field": filter_field,
            "filter_value": filter_value,
            "shared_tables": shared or [],
        }
    )
    main_pack, category = datasources.read_pack(pack)
    sources, packs = datasources.with_packs(
        [primary, *datasources.beside(also or [])], also_pack or [], also_profile or []
    )
    made = new_project(
        name,
        main_pack,
        sources,
        category=category,
        description=description,
        profile=datasources.read_object(profile, "a profile") if profile else None,
        language=language,
        primary_warehouse_id=DEFAULT_DATASOURCE,
        key_pairs=datasources.key_pairs(key or [], never_join or [], sources),
        packs=packs,
    )
    project, tables = asyncio.run(_create(settings, made))
    if as_json:
        said.document({"project": shown(project).model_dump(mode="json")})
        return
    said.line(f"Created project {project.name} ({project.id}) over {tables:,} tables.")
    said.line(f'Next: veridical discover "{project.name}"')


async def _create(settings: Settings, project: Project) -> tuple[Project, int]:
    from pipeline.errors import Conflict
    from serve.cli import outside

    counts = [await outside.count_tables(each, settings) for each in project.datasources()]
    async with outside.open_store(settings) as store:
        if await store.projects.by_name(project.name):
            raise Conflict(f"there is a project {project.name!r} already; choose another name")
        return await store.projects.create(project), sum(counts)


@group.command("list")
def list_projects(limit: Limit = 50, as_json: Json = False, home: Home = None) -> None:
    """List projects, newest first.

    \b
    Example:
      veridical project list
    """
    from serve.cli import outside, said
    from serve.secrets import shown

    settings = settings_for(home)

    async def read() -> list[Project]:
        async with outside.open_store(settings) as store:
            return await store.projects.newest_first(limit)

    projects = asyncio.run(read())
    if as_json:
        said.document({"projects": said.records(map(shown, projects))})
    elif not projects:
        said.line("There is no project yet. Begin with `veridical demo` or `project create`.")
    else:
        said.table(
            "",
            ["Name", "Id", "Pack", "Warehouse", "Created"],
            [
                [p.name, p.id, p.domain, _warehouse(shown(p)), said.when(p.created_at)]
                for p in projects
            ],
        )


@group.command()
def show(project: ProjectName, as_json: Json = False, home: Home = None) -> None:
    """Show one project: its warehouse, its areas and its last runs.

    \b
    Example:
      veridical project show Shop
    """
    from pipeline.records import DiscoveryRun
    from serve.cli import outside, said
    from serve.cli.lookup import find_project
    from serve.secrets import shown

    settings = settings_for(home)

    async def read() -> tuple[Project, list[DiscoveryRun]]:
        async with outside.open_store(settings) as store:
            found = await find_project(store, project)
            return shown(found), await store.runs.recent(found.id, 5)

    found, runs = asyncio.run(read())
    if as_json:
        said.document({"project": found.model_dump(mode="json"), "runs": said.records(runs)})
        return
    said.line(f"{found.name}  ({found.id})")
    facts = {
        "About": found.description,
        "Pack": ", ".join(
            [found.domain, *(f"{w.domain} for {w.id}" for w in found.datasources() if w.domain)]
        ),
        "Language": found.language or "English",
        "Warehouse": _warehouse(found),
        "State": found.state or "ready",
        "Checks": "on" if found.validation_enabled else "off",
        "Areas": ", ".join(
            f"{area.name}{'' if area.enabled else ' (off)'}" for area in found.areas().values()
        ),
        "Runs": ", ".join(f"{run.id} {run.status.value}" for run in runs) or "none yet",
    }
    for name, value in facts.items():
        if value:
            said.line(f"  {name:<10} {value}")


def _warehouse(project: Project) -> str:
    return ", ".join(
        f"{w.provider} {w.config.get('path') or w.config.get('url') or w.label or w.id}"
        + (f" where {w.filter_field} = {w.filter_value}" if w.filter_field else "")
        for w in project.datasources()
    )
