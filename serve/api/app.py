"""The application: routes, envelopes, and how its dependencies come and go."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from serve.api import discoveries, envelopes, health, projects, runs
from serve.api.deps import ApiDeps
from serve.api.hosts import OwnPagesOnly

DepsFactory = Callable[[], Awaitable[ApiDeps]]


def create_app(deps: ApiDeps | DepsFactory) -> FastAPI:
    """Build the API over ready dependencies, or over a factory that is awaited at start-up, in the
    event loop that will serve (drivers bind to the loop they are opened on).

    Handlers reach the dependencies through the request's own application, never through a global:
    under Ray Serve the application that serves may be a copy of the one that was built.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        ready = deps if isinstance(deps, ApiDeps) else await deps()
        app.state.deps = ready
        try:
            yield
        finally:
            if ready.close is not None:
                await ready.close()

    app = FastAPI(
        title="Veridical",
        description="Explores a SQL warehouse and lets no claim through without evidence.",
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # the stock page loads its scripts from another host
        redoc_url=None,
    )
    if isinstance(deps, ApiDeps):
        app.state.deps = deps
    app.add_middleware(OwnPagesOnly)
    envelopes.install(app)
    for room in (health, projects, runs, discoveries):
        app.include_router(room.router)
    return app
