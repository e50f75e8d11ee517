"""Options that several commands share, and the settings that they lead to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.settings import Settings

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        help="Where everything is kept. Default: VERIDICAL_HOME, else .veridical here.",
    ),
]
Port = Annotated[
    int, typer.Option("--port", min=1, max=65535, help="Port of the API on 127.0.0.1.")
]
ProjectName = Annotated[str, typer.Argument(metavar="PROJECT", help="Name or id of a project.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to show.")]
ModelSpec = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="PROVIDER[:MODEL]",
        help="Who judges: anthropic, openai or offline. Default: as for a discovery.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        min=1,
        max=64,
        help="How many to judge at a time. Default: VALIDATION_CONCURRENCY.",
    ),
]
SkipCache = Annotated[
    bool,
    typer.Option(
        "--skip-cache",
        help="Read every table from the warehouse, whatever is kept of its schema.",
    ),
]
DEFAULT_PORT = 8080


def settings_for(home: Path | None) -> Settings:
    """All settings, with the home that was asked for. Processes started from here inherit it."""
    from pipeline.settings import Settings

    if home is not None:
        os.environ["VERIDICAL_HOME"] = str(home.expanduser().absolute())
    settings = Settings.load()
    os.environ.setdefault("MPLCONFIGDIR", str(settings.home.path / "cache" / "matplotlib"))
    return settings
