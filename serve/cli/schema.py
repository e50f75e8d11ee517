"""``veridical schema``: index the tables of a project, and show what is known of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serve.cli.options import Home, Json, Limit, ProjectName, SkipCache, settings_for

if TYPE_CHECKING:
    from adapters.store import Store
    from pipeline.ports import SchemaStore
    from pipeline.records import IndexProgress, Project, SchemaIndexRun, Table
    from pipeline.schema.indexing import Listener
    from pipeline.settings import Settings
    from serve.indexing import Indexed

group = typer.Typer(no_args_is_help=True, help="Index the tables of a project, and show them.")

PHASES = {
    "listing_tables": "Listing the tables of",
    "schema_discovery": "Reading the tables of",
    "embedding": "Making the tables searchable of",
    "key_pairs": "Comparing the keys of the datasources",
    "done": "Done with",
}
FAILED_SHOWN = 20
PLAIN_EVERY = 500
"""Tables between two lines where no bar can be drawn."""


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="schema")


@group.command()
def index(
    project: ProjectName,
    skip_cache: SkipCache = False,
    describe: Annotated[
        bool,
        typer.Option("--describe", help="Let the language model say what each table is about."),
    ] = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Read the tables of a project, so that its discoveries need not.

    Columns, row counts, sample rows and periods are kept for seven days. A discovery takes them
    unless the datasource is configured otherwise or its file has changed; then it lists the tables
    anew. Indexing again reads the tables whose columns or row count changed; one that cannot be
    read is kept with the reason. What was read before Ctrl-C is kept. Of several datasources, the
    keys that they share are found by comparing values.

    \b
    Examples:
      veridical schema index Shop
      veridical schema index Shop --skip-cache
    """
    settings = settings_for(home)
    found, indexed = asyncio.run(_index(settings, project, skip_cache, describe, as_json))
    if as_json:
        from serve.cli import said

        said.document(_document(found, indexed))
    else:
        _told(indexed)


async def _index(
    settings: Settings, name: str, skip_cache: bool, describe: bool, as_json: bool
) -> tuple[Project, Indexed]:
    from serve.cli import outside
    from serve.cli.lookup import find_project

    async with outside.open_store(settings) as store:
        project = await find_project(store, name)
        with _progress(as_json) as listener:
            indexed = await outside.index_schema(
                store, project, settings, listener, skip_cache=skip_cache, describe=describe
            )
    return project, indexed


def _document(project: Project, indexed: Indexed) -> dict[str, Any]:
    datasources = [
        {
            **run.model_dump(mode="json"),
            "reused": indexed.reused.get(run.datasource, 0),
            "postponed": indexed.postponed.get(run.datasource, 0),
        }
        for run in indexed.runs
    ]
    return {
        "project": project.id,
        "datasources": datasources,
        "left_out": indexed.left_out,
        "key_pairs": [pair.shown() for pair in indexed.keys.pairs],
    }


def _told(indexed: Indexed) -> None:
    from pipeline.correlations.overlap import PairStatus
    from serve.cli import said

    for run in indexed.runs:
        seconds = (run.finished - run.started_at).total_seconds() if run.finished else 0.0
        reused = indexed.reused.get(run.datasource, 0)
        tables = "1 table" if run.table_count == 1 else f"{run.table_count:,} tables"
        told = f"{run.datasource}: {tables} in {seconds:.1f} s"
        told += f", {reused:,} of them unchanged" if reused else ""
        said.line(told + (f", {run.failed_count:,} could not be read" if run.failed_count else ""))
        for name, reason in list(run.failed.items())[:FAILED_SHOWN]:
            said.line(f"  {name}: {reason}")
        later = indexed.postponed.get(run.datasource, 0)
        if later:
            said.line(f"  {later:,} smaller ones become searchable when they are first searched.")
    for source, reason in indexed.left_out.items():
        said.line(f"{source} is left out: {reason}")
    if indexed.keys.pairs:
        counts = {status.value: count for status, count in indexed.keys.counts().items()}
        said.line("keys: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for pair in (pair.shown() for pair in indexed.keys.pairs):
        if pair["status"] != PairStatus.UNKNOWN.value:
            said.line(f"  {pair['status']}: {pair['left']} and {pair['right']}")


# ---------------------------------------------------------------- progress


@contextmanager
def _progress(as_json: bool) -> Generator[Listener]:
    if as_json:
        yield _silent
    elif sys.stdout.isatty():
        with _bar() as listener:
            yield listener
    else:
        yield _lines()


async def _silent(progress: IndexProgress) -> None:
    del progress


def _lines() -> Listener:
    """A line at the begin and the end of each phase, and one every so many tables."""
    told_phase, told_done = "", 0

    async def tell(progress: IndexProgress) -> None:
        nonlocal told_phase, told_done
        from serve.cli import said

        phase = f"{progress.phase.value} {progress.datasource}"
        ended = progress.done == progress.total != told_done
        if phase != told_phase or ended or progress.done - told_done >= PLAIN_EVERY:
            told_phase, told_done = phase, progress.done
            said.line(_words(progress))

    return tell


@contextmanager
def _bar() -> Generator[Listener]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from serve.cli import said

    text = TextColumn("{task.description}", markup=False)
    with Progress(text, BarColumn(), MofNCompleteColumn(), console=said.console()) as bar:
        task = bar.add_task("", total=None)

        async def show(progress: IndexProgress) -> None:
            bar.update(
                task,
                description=said.plain(_title(progress)),
                completed=progress.done,
                total=progress.total or None,
            )

        yield show


def _title(progress: IndexProgress) -> str:
    failed = f", {progress.failed} could not be read" if progress.failed else ""
    return f"{PHASES[progress.phase.value]} {progress.datasource}".rstrip() + failed


def _words(progress: IndexProgress) -> str:
    counted = bool(progress.total) and progress.phase.value != "done"
    count = f": {progress.done:,} of {progress.total:,}" if counted else ""
    return f"{_title(progress)}{count}"


# ---------------------------------------------------------------- show


@group.command()
def show(
    project: ProjectName,
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="A table, with or without its schema.")
    ] = "",
    limit: Limit = 50,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Show the tables of a project as they were read last, or one of them in full.

    \b
    Examples:
      veridical schema show Shop
      veridical schema show Shop orders
    """
    from serve.cli import said

    settings = settings_for(home)
    if table:
        found = asyncio.run(_one(settings, project, table))
        if as_json:
            said.document({"table": found.model_dump(mode="json")})
        else:
            _in_full(found)
        return
    known = asyncio.run(_all(settings, project))
    if as_json:
        said.document(known.document())
    else:
        known.say(limit)


class Known:
    """What is known of a project's datasources."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self.runs: list[SchemaIndexRun] = []
        self.unread: dict[str, str] = {}
        """Datasources of which nothing counts, with the reason."""
        self.progress: IndexProgress | None = None

    def document(self) -> dict[str, Any]:
        from serve.cli import said

        return {
            "tables": said.records(self.tables),
            "readings": said.records(self.runs),
            "not_indexed": self.unread,
            "progress": self.progress.model_dump(mode="json") if self.progress else None,
        }

    def say(self, limit: int) -> None:
        from pipeline.schema.catalog import one_line, rows_text
        from pipeline.schema.describing import told_of
        from serve.cli import said

        if self.tables:
            several = len({table.datasource_id for table in self.tables}) > 1
            said.table(
                "",
                ["Table", "#Columns", "#Rows", "About"],
                [
                    [
                        f"{t.datasource_id}: " * several + one_line(t.name),
                        f"{len(t.columns):,}",
                        rows_text(t.row_count),
                        f"cannot be read: {t.error}" if t.error else told_of(t),
                    ]
                    for t in self.tables[:limit]
                ],
            )
        if len(self.tables) > limit:
            said.line(f"{len(self.tables) - limit:,} more; --limit shows more of them.")
        for run in self.runs:
            said.line(f"{run.datasource}: read {said.when(run.finished)} by {run.origin.value}")
        for source, reason in self.unread.items():
            said.line(f"{source}: {reason}")
        if self.progress is not None and self.progress.phase.value != "done":
            last = said.when(self.progress.updated_at)
            said.line(f"{_words(self.progress)}, as of {last}; indexing again goes on from there")


async def _all(settings: Settings, name: str) -> Known:
    from serve.cli import outside
    from serve.cli.lookup import find_project

    known = Known()
    async with outside.open_store(settings) as store:
        project = await find_project(store, name)
        await _read(store, project, known)
        known.progress = await store.schemas.progress(project.id)
    return known


async def _read(store: Store, project: Project, known: Known) -> SchemaStore:
    from serve.indexing import project_schemas

    schemas = await project_schemas(store, project)
    for config in project.datasources():
        tables = await schemas.load(config.id)
        run = await store.schemas.latest(project.id, config.id)
        if tables is not None and run is not None:
            known.tables += tables
            known.runs.append(run)
            continue
        why = "nothing was read yet"
        if run is not None:
            why = "what was read is too old, or the datasource has changed since"
        known.unread[config.id] = f'{why}: veridical schema index "{project.name}"'
    return schemas


async def _one(settings: Settings, name: str, wanted: str) -> Table:
    from pipeline.errors import NotFound
    from pipeline.schema.lookup import resolve
    from serve.cli import outside
    from serve.cli.lookup import find_project

    known = Known()
    async with outside.open_store(settings) as store:
        project = await find_project(store, name)
        schemas = await _read(store, project, known)
        answer = resolve(wanted, known.tables)
        if answer.table is None:
            near = f"; there is {', '.join(answer.near)}" if answer.near else ""
            missing = "; ".join(f"{id_}: {why}" for id_, why in known.unread.items())
            raise NotFound(
                f"there is no table {wanted!r} among those that were read{near}"
                + (f" ({missing})" if missing else "")
            )
        table = answer.table
        kept = (await schemas.kept(table.datasource_id, [table.name])).get(table.name)
        rows = kept.table.sample_rows if kept is not None else []
        return table.model_copy(update={"sample_rows": rows})


def _in_full(table: Table) -> None:
    import json

    from pipeline.schema.catalog import one_line
    from pipeline.schema.describing import summary_of
    from serve.cli import said

    said.line(f"{one_line(table.name)}  ({table.datasource_id})")
    for text in (table.description, summary_of(table)):
        if text:
            said.line(f"  {text}")
    if table.error:
        said.line(f"  cannot be read: {table.error}")
    said.table(
        "",
        ["Column", "Type", "Empty", "Category"],
        [
            [c.name, c.type, "may be" if c.nullable else "never", c.category.value]
            for c in table.columns
        ],
    )
    for row in table.sample_rows:
        said.line(json.dumps(row, ensure_ascii=False))
