"""``veridical doctor``: tries every part that a discovery needs and says what to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from serve.cli.group import ENVIRONMENT
from serve.cli.options import Home, Json, settings_for

if TYPE_CHECKING:
    from pipeline.settings import Settings
    from serve.cli.checks import Check


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    project: Annotated[
        str, typer.Option("--project", help="Check this project's warehouse and model too.")
    ] = "",
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Check store, vectors, warehouse, model and Ray, and say what to do about what fails.

    Each part is really used once; a language model is asked for nothing but its presence.

    \b
    Examples:
      veridical doctor
      veridical doctor --project Shop
    """
    from serve.cli import said

    settings = settings_for(home)
    checks = asyncio.run(_run(settings, project, quiet=as_json))
    ok = all(check.ok for check in checks)
    if as_json:
        said.document({"ok": ok, "checks": [check.document() for check in checks]})
    elif ok:
        said.line("Everything that was checked works.")
    if not ok:
        raise typer.Exit(ENVIRONMENT)


async def _run(settings: Settings, project: str, *, quiet: bool) -> list[Check]:
    from serve.cli.checks import Checkup

    checkup = Checkup(settings, project)
    checks: list[Check] = []
    async for check in checkup.run():
        checks.append(check)
        if not quiet:
            _tell(check)
    return checks


def _tell(check: Check) -> None:
    from serve.cli import said

    said.line(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<10} {check.detail}")
    if check.advice:
        said.line(f"      {'':<10} {check.advice}")
