"""``veridical validation``: judge a finished discovery again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serve.cli.options import Concurrency, Home, Json, ModelSpec, settings_for

if TYPE_CHECKING:
    from rich.text import Text

    from pipeline.validation.replay import Replayed
    from serve.cli.replaying import Replay

group = typer.Typer(no_args_is_help=True, help="Judge a finished discovery again.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="validation")


@group.callback()
def validation() -> None:
    """Judge a finished discovery again."""


@group.command()
def replay(
    discovery: Annotated[
        str,
        typer.Option("--discovery", metavar="D", help="Id, the start of one, or latest."),
    ] = "latest",
    project: Annotated[
        str, typer.Option("--project", help="With latest: of this project only.")
    ] = "",
    insight: Annotated[
        list[str] | None,
        typer.Option("--insight", metavar="I", help="Only this one, by id or ref; repeatable."),
    ] = None,
    recommendation: Annotated[
        list[str] | None,
        typer.Option("--recommendation", metavar="R", help="Only this one, by id; repeatable."),
    ] = None,
    model: ModelSpec = "",
    save: Annotated[
        bool, typer.Option("--save", help="Write the new verdicts into the stored discovery.")
    ] = False,
    concurrency: Concurrency = None,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Run verifier and refuter again over a discovery's stored steps.

    Nothing is explored and no Ray is started: both agents run in this process over the project's
    warehouse. The stored verdicts and the new ones are shown side by side, with what changed.

    \b
    Examples:
      veridical validation replay --discovery latest --project Shop
      veridical validation replay --discovery 7c0e0d7e --insight trends-1
      veridical validation replay --discovery 7c0e0d7e --model anthropic --save
    """
    from serve.cli import replaying, said

    request = replaying.Request(
        discovery=discovery,
        project=project,
        insights=tuple(insight or ()),
        recommendations=tuple(recommendation or ()),
        model=model,
        save=save,
        concurrency=concurrency,
    )
    done = asyncio.run(replaying.replay_discovery(settings_for(home), request))
    if as_json:
        said.document(done.document())
    else:
        _tell(done)


def _tell(done: Replay) -> None:
    from serve.cli import said

    if not done.replayed:
        said.line("This discovery holds nothing to judge.")
        return
    said.table(
        "Verdicts, stored → new",
        ["Document", "Verifier", "Refuter", "Combined", "Name"],
        [_row(done, each) for each in done.replayed],
    )
    changes: list[list[str | Text]] = [
        [done.label(each), change.what, change.before or "–", change.after or "–"]
        for each in done.replayed
        for change in each.changes
    ]
    if changes:
        said.table("What changed", ["Document", "What", "Stored", "New"], changes)
    said.line(done.sentence())


def _row(done: Replay, each: Replayed) -> list[str | Text]:
    pairs: list[tuple[Any, Any]] = [
        (each.before and each.before.verifier and each.before.verifier.overall,
         each.after.verifier and each.after.verifier.overall),
        (each.before and each.before.refuter and each.before.refuter.overall,
         each.after.refuter and each.after.refuter.overall),
        (each.before and (each.before.combined or each.before.status), each.after.combined),
    ]  # fmt: skip
    return [done.label(each), *(_arrow(*pair) for pair in pairs), done.name(each)]


def _arrow(before: Any, after: Any) -> Text:
    from rich.text import Text

    from serve.cli import said
    from serve.wording import status_meta

    one, two = str(before or "–"), str(after or "–")
    if one == two:
        return Text(two, "dim")
    tone = said.TONES[status_meta(two).tone.value]
    return Text.assemble(f"{said.plain(one)} → ", (said.plain(two), tone))
