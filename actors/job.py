"""One run as a Ray job: ``python -m actors.job --project-id P --run-id R [--resume]``.

Exit status 0 when the run completed, 1 when it did not. SIGTERM (``ray job stop``) marks the run
failed with its finished steps kept, and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from datetime import UTC, datetime

from actors.cluster import connected
from actors.runs import create_run, resume_run
from actors.supervisor import supervise
from adapters.store import connect
from pipeline.errors import Conflict, NotFound, VeridicalError
from pipeline.planning import plan_run
from pipeline.records import DiscoveryRun, RunStatus
from pipeline.settings import Settings


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m actors.job", description=__doc__)
    parser.add_argument("--project-id", required=True, help="the project to explore")
    parser.add_argument("--run-id", required=True, help="its run; made when there is none")
    parser.add_argument("--max-steps", type=int, help="for a run that is made here; default 100")
    parser.add_argument("--min-steps", type=int, default=0, help="likewise; default 0")
    parser.add_argument("--resume", action="store_true", help="resume the run, which has failed")
    return parser.parse_args()


def is_waiting(run: DiscoveryRun) -> bool:
    """Whether the run is new, or resumed, and nobody drives it yet."""
    resumed = run.status is RunStatus.RUNNING and run.attempt > 1 and not run.owner
    return run.status is RunStatus.PENDING or resumed


async def drive(settings: Settings, asked: argparse.Namespace) -> DiscoveryRun:
    """Find or make the run, and drive it to its end."""
    async with await connect(settings.store, settings.home.path) as store:
        project = await store.projects.get(asked.project_id)
        try:
            run = await store.runs.get(asked.run_id)
        except NotFound:
            if asked.resume:
                raise
            planned = plan_run(
                project,
                now=datetime.now(UTC),
                max_steps=asked.max_steps,
                min_steps=asked.min_steps,
            )
            run = await create_run(store, planned.model_copy(update={"id": asked.run_id}))
        if run.project_id != project.id:
            raise NotFound(f"the run {run.id} belongs to another project than {project.id}")
        if asked.resume:
            run = await resume_run(store, run.id)
        elif not is_waiting(run):
            raise Conflict(
                f"the run {run.id} is {run.status} already; start a new one, or resume a failed "
                "one with --resume"
            )
        return await supervise(settings, store, run)


async def until_signalled(settings: Settings, asked: argparse.Namespace) -> DiscoveryRun:
    """``drive``, cancelled by the first SIGTERM or SIGINT."""
    driving = asyncio.ensure_future(drive(settings, asked))
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, driving.cancel)
    return await driving


def main() -> int:
    asked = arguments()
    try:
        settings = Settings.load()
        # Ray installs its own SIGTERM handler, so ours comes after.
        with connected(settings.home.path, os.environ.get("RAY_ADDRESS", "auto")):
            run = asyncio.run(until_signalled(settings, asked))
    except asyncio.CancelledError:
        print("stopped: the run is marked failed and its finished steps are kept", file=sys.stderr)
        return 1
    except VeridicalError as error:
        print(error, file=sys.stderr)
        return 1
    if run.status is RunStatus.COMPLETED:
        print(f"run {run.id} completed: discovery {run.discovery_id}")
        return 0
    print(f"run {run.id} {run.status}: {run.error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
