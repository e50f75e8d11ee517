# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false
# Ray Serve's decorators are untyped.
"""The API behind Ray Serve: one replica on loopback, whose runs are Ray jobs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import FastAPI

from actors.cluster import Cluster
from adapters.store.store import Store
from pipeline.errors import ClusterUnavailable, VeridicalError
from pipeline.settings import Settings
from serve.api import ApiDeps, create_app
from serve.jobs import HandOver, RunJobs

HOST = "127.0.0.1"
APP_NAME = "veridical"
STOP_S = 5.0
"""Requests in flight get this long when the API is taken down."""


async def open_deps(settings: Settings, jobs_address: str) -> ApiDeps:
    """Store, jobs and checks, opened on the loop that will serve."""
    from actors.runs import create_run, resume_run
    from adapters.store import connect

    jobs = RunJobs(jobs_address, settings.home.path)
    store = await connect(settings.store, settings.home.path)
    hand_over = HandOver(jobs, store)

    async def close() -> None:
        await hand_over.close()
        await store.close()

    return ApiDeps(
        store=store,
        start_run=hand_over.start_run,
        create_run=lambda run: create_run(store, run),
        resume_run=lambda run_id: resume_run(store, run_id),
        checks={"store": store.ping, "ray": jobs.ping},
        close=close,
    )


class ApiReplica:
    """Builds its application inside the replica: nothing but settings is pickled."""

    def __init__(self, settings: Settings, jobs_address: str) -> None:
        self._settings, self._jobs_address = settings, jobs_address

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(lambda: open_deps(self._settings, self._jobs_address))


def app_for(settings: Settings, jobs_address: str) -> Any:
    """The Serve application, to be given to ``serve.run``. ``jobs_address`` is where the cluster
    takes jobs: its dashboard."""
    from ray import serve

    deployment = serve.deployment(
        name="api",
        num_replicas=1,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=64,
        graceful_shutdown_timeout_s=STOP_S,
    )
    return deployment(serve.ingress()(ApiReplica)).bind(settings, jobs_address)


def check_port(port: int) -> None:
    """Raises ``ClusterUnavailable`` when somebody listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            busy = error.errno == errno.EADDRINUSE
            why = "is in use" if busy else f"cannot be opened ({error.strerror})"
            raise ClusterUnavailable(
                f"port {port} on {HOST} {why}; choose another one with --port"
            ) from error


def deploy(settings: Settings, jobs_address: str, port: int) -> str:
    """Put the API up on a connected cluster and return its address. Blocking."""
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    check_port(port)
    serve.start(
        proxy_location="HeadOnly",
        http_options={"host": HOST, "port": port},
        logging_config={"log_level": "WARNING", "enable_access_log": False},
    )
    try:
        serve.run(app_for(settings, jobs_address), name=APP_NAME, route_prefix="/")
    except RuntimeError as error:
        serve.shutdown()
        raise ClusterUnavailable(
            f"the API did not start: {str(error).strip().splitlines()[0]}; "
            "`veridical doctor` checks the parts it needs"
        ) from error
    return f"http://{HOST}:{port}"


@contextlib.asynccontextmanager
async def serving(
    settings: Settings, cluster: Cluster, store: Store, port: int
) -> AsyncGenerator[str]:
    """The API's address while the context is open. Raises ``ClusterUnavailable``.

    Runs that it has started end with it where the cluster does, and go on elsewhere.
    """
    jobs_address = await asyncio.to_thread(lambda: cluster.dashboard_url)
    deploying = asyncio.ensure_future(asyncio.to_thread(deploy, settings, jobs_address, port))
    try:
        yield await asyncio.shield(deploying)
    finally:
        await asyncio.wait([deploying])
        if not deploying.exception():
            jobs = RunJobs(jobs_address, settings.home.path)
            await asyncio.shield(_end(jobs, store, owned=cluster.owned))


async def _end(jobs: RunJobs, store: Store, *, owned: bool) -> None:
    await asyncio.to_thread(take_down, owned)
    if owned:
        # A job that will not stop ends with the cluster, and its run is found by the next one.
        with contextlib.suppress(VeridicalError, TimeoutError):
            await jobs.stop_all()
            await jobs.reap(store)


def take_down(owned: bool) -> None:
    """End the API. A cluster of one's own ends with Serve's controller, so that only the
    application needs its graceful end; on another nothing of Serve is left. Blocking."""
    from ray import serve

    serve.delete(APP_NAME)
    if not owned:
        serve.shutdown()
