"""The commands, and what ``veridical --help`` says."""

from __future__ import annotations

import inspect

import typer

from serve.cli import bench, demo, discover, doctor, hosting, project, reading, schema, validation
from serve.cli.group import Commands

main = typer.Typer(
    name="veridical",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Explores a SQL warehouse on its own and lets no claim through without evidence.\n\n"
        "Begin with [bold]veridical demo[/bold]: it builds a small warehouse from real flights and "
        "runs one discovery in it. With a warehouse of your own:\n\n"
        "\b\n"
        "  veridical project create Shop --warehouse shop.duckdb\n"
        "  veridical discover Shop\n"
        "  veridical report\n\n"
        "A language model is used when ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL is "
        "set; without, statements come from rules.\n\n"
        "Every command takes --json. Exit status: 0 done, 1 the run failed, 2 the request is "
        "wrong, 3 something in the environment is not as it must be."
    ),
)

demo.register(main)
project.register(main)
schema.register(main)
discover.register(main)
reading.register(main)
validation.register(main)
bench.register(main)
hosting.register(main)
doctor.register(main)


def _reflow(app: typer.Typer) -> None:
    """Let the paragraphs of every command's help fill the line. Typer keeps the line ends of all
    but the first; only what follows a ``\\b`` (examples) is meant to keep them."""
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        parts = (p if p.startswith("\b") else " ".join(p.split()) for p in text.split("\n\n"))
        command.help = "\n\n".join(parts)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _reflow(group.typer_instance)


_reflow(main)
