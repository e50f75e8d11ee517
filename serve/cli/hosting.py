"""``veridical up``, ``down`` and ``status``: the host that keeps the API and a cluster up."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.errors import ClusterUnavailable
from serve.cli.options import DEFAULT_PORT, Home, Json, Port, settings_for

if TYPE_CHECKING:
    from serve.host import HostStatus


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(port: Port = DEFAULT_PORT, as_json: Json = False, home: Home = None) -> None:
    """Start the API and a local Ray in the background.

    Other commands then share that Ray, so they start at once.

    \b
    Examples:
      veridical up
      veridical up --port 9000
    """
    from serve.cli import outside, said

    found = outside.host_up(settings_for(home), port)
    if as_json:
        said.document(_document(found))
    else:
        _tell(found)
        said.line("`veridical down` ends it.")


def down(as_json: Json = False, home: Home = None) -> None:
    """End what `veridical up` started. Runs that it drives are marked failed and can be resumed.

    \b
    Example:
      veridical down
    """
    from serve.cli import outside, said

    ended = outside.host_down(settings_for(home))
    if as_json:
        said.document({"ended": ended})
    else:
        said.line("Veridical is down." if ended else "Nothing was up.")


def status(
    env: Annotated[
        bool, typer.Option("--env", help="Print what a shell needs to use its Ray, for eval.")
    ] = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Say whether the API is up, and where.

    \b
    Examples:
      veridical status --json
      eval "$(veridical status --env)"
      ray job submit -- python -m actors.job --project-id P --run-id R
    """
    from serve.cli import outside, said

    settings = settings_for(home)
    found = outside.host_status(settings)
    if env:
        if found is None:
            raise ClusterUnavailable("nothing is up; start it with `veridical up`")
        variables = outside.client_variables(settings, found)
        if as_json:
            said.document(variables)
        else:
            for name, value in variables.items():
                print(f"export {name}={shlex.quote(value)}")
    elif as_json:
        said.document(_document(found))
    elif found is None:
        said.line("Nothing is up. `veridical up` starts the API and a local Ray.")
    else:
        _tell(found)


def _document(found: HostStatus | None) -> dict[str, Any]:
    if found is None:
        return {"running": False}
    return {"running": True, **found.model_dump(mode="json", exclude={"owner"})}


def _tell(found: HostStatus) -> None:
    from serve.cli import said

    said.line(f"The API is up at {found.api_url} (process {found.pid})")
    said.line(f"Ray's dashboard is at {found.dashboard_url}")
    said.line(f"Up since {said.when(found.started_at)}")
