# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# Ray's job client is partly untyped.
"""Runs as Ray jobs: how the API hands one over, asks after it, and stops it."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_message, stop_after_delay, wait_fixed

from adapters.store.store import Store
from pipeline.errors import ClusterUnavailable, VeridicalError
from pipeline.records import DiscoveryRun, Project

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

T = TypeVar("T")
RUN_KEY = "veridical_run"
"""Of a job's metadata: the run that it drives."""
STOP_WAIT_S = 45
"""How long Ray lets a stopped job finish what it is writing before it kills it."""
STOPPED_WITHIN_S = 20.0
POLL_S = 0.2
NO_AGENT_YET, AGENT_S = "No available agent", 90.0
HAND_OVER_S = 10.0


def job_id(run: DiscoveryRun) -> str:
    """One job an attempt of a run."""
    return f"run-{run.id}-a{run.attempt}"


def entrypoint(run: DiscoveryRun) -> str:
    """The job's command line; the package is installed where the job runs."""
    words = ["-m", "actors.job", "--project-id", run.project_id, "--run-id", run.id]
    return shlex.join([sys.executable, *words])


class RunJobs:
    """Jobs at the job server of one cluster. No call blocks the event loop."""

    def __init__(self, address: str, home: Path) -> None:
        """``address`` is the dashboard's, which serves jobs too; ``home`` is what the jobs use.

        All other settings reach a job as the environment of the cluster: a job's own environment
        can be read in the dashboard, so that no key may be put there.
        """
        self._address, self._home = address, home
        self._client: JobSubmissionClient | None = None

    async def ping(self) -> None:
        """Raises ``ClusterUnavailable``."""
        await self._call(lambda client: client.get_version())

    async def submit(self, run: DiscoveryRun) -> str:
        """Have the run driven by a job and return its id at once. Raises ``ClusterUnavailable``.

        A cluster that has just started takes no job until its agent has reported in; that is
        waited for.
        """
        turns = AsyncRetrying(
            retry=retry_if_exception_message(match=f".*{NO_AGENT_YET}"),
            stop=stop_after_delay(AGENT_S),
            wait=wait_fixed(POLL_S),
            reraise=True,
        )
        return await turns(self._submit, run)

    async def _submit(self, run: DiscoveryRun) -> str:
        return await self._call(
            lambda client: client.submit_job(
                entrypoint=entrypoint(run),
                submission_id=job_id(run),
                metadata={RUN_KEY: run.id, "project_id": run.project_id},
                runtime_env={
                    "env_vars": {
                        "VERIDICAL_HOME": str(self._home),
                        "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S),
                    }
                },
            )
        )

    async def reap(self, store: Store) -> None:
        """Mark every active run whose job has ended as failed, with what the job server knows. A
        job that it does not know is of another cluster."""
        waiting = {run.job_id: run for run in await store.runs.all_active() if run.job_id}
        if not waiting:
            return
        for job in await self._call(lambda client: client.list_jobs()):
            run = waiting.get(str(job.submission_id))
            if run is not None and job.status.is_terminal():
                why = " ".join(str(job.message or "").split()) or "it gave no reason"
                reason = f"its Ray job {run.job_id} {str(job.status.value).lower()}: {why}"
                await store.runs.fail(run.id, run.attempt, reason)

    async def stop_all(self) -> None:
        """Stop every run's job and wait until they have ended. Raises ``TimeoutError``."""
        for name in await self._unfinished():
            await self._call(lambda client, name=name: client.stop_job(name))
        deadline = time.monotonic() + STOPPED_WITHIN_S
        while left := await self._unfinished():
            if time.monotonic() > deadline:
                raise TimeoutError(f"these jobs do not stop: {', '.join(left)}")
            await asyncio.sleep(POLL_S)

    async def _unfinished(self) -> list[str]:
        return [
            str(job.submission_id)
            for job in await self._call(lambda client: client.list_jobs())
            if RUN_KEY in (job.metadata or {}) and not job.status.is_terminal()
        ]

    async def _call(self, ask: Callable[[JobSubmissionClient], Any]) -> Any:
        def blocking() -> Any:
            from ray.job_submission import JobSubmissionClient

            self._client = self._client or JobSubmissionClient(self._address)
            return ask(self._client)

        if not self._address:
            raise ClusterUnavailable(
                "this Ray cluster has no dashboard, which takes jobs too; start it with one"
            )
        try:
            return await asyncio.to_thread(blocking)
        except (OSError, RuntimeError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ClusterUnavailable(
                f"the job server at {self._address} does not take the request ({first})"
            ) from error


class HandOver:
    """Hands pending runs over to jobs on behalf of requests, which cannot wait for long."""

    def __init__(self, jobs: RunJobs, store: Store) -> None:
        self._jobs, self._store = jobs, store
        self._later: dict[asyncio.Task[None], asyncio.Task[str]] = {}
        """Who sees to the submissions that are still under way."""

    async def start_run(self, _: Project, run: DiscoveryRun) -> str:
        """The job's id, when it has been taken or after a while. Raises ``ClusterUnavailable`` when
        it is refused by then; a run that is refused later is marked failed."""
        await self._store.runs.set_job(run.id, run.attempt, job_id(run))
        submitting = asyncio.create_task(self._jobs.submit(run))
        done, _waiting = await asyncio.wait({submitting}, timeout=HAND_OVER_S)
        if done:
            return submitting.result()
        task = asyncio.create_task(self._see_to(run, submitting))
        self._later[task] = submitting
        task.add_done_callback(self._later.pop)
        return job_id(run)

    async def _see_to(self, run: DiscoveryRun, submitting: asyncio.Task[str]) -> None:
        try:
            await submitting
        except asyncio.CancelledError:
            await self._fail(run, "the API ended before the cluster took its job")
        except VeridicalError as error:
            await self._fail(run, str(error))

    async def _fail(self, run: DiscoveryRun, why: str) -> None:
        await self._store.runs.fail(run.id, run.attempt, f"the run could not be started: {why}")

    async def close(self) -> None:
        """Give up on what has not been taken."""
        for submitting in self._later.values():
            submitting.cancel()
        if self._later:
            await asyncio.wait(self._later)
