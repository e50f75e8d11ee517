"""What a command runs on: the store, a Ray cluster and, if asked for, the API."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Self, TypeVar

from actors.cluster import Cluster, connected
from actors.runs import create_run, resume_run
from actors.supervisor import supervise
from adapters.store import connect, settled
from adapters.store.store import Store
from pipeline.records import DiscoveryRun
from pipeline.settings import Settings

Progress = Callable[[str], None]
T = TypeVar("T")


def silent(_: str) -> None:
    """No progress wanted."""


class Runtime:
    """An open store and cluster. Made by ``open_runtime``."""

    def __init__(
        self, settings: Settings, store: Store, cluster: Cluster, api_url: str = ""
    ) -> None:
        self.settings, self.store, self.cluster = settings, store, cluster
        self._api_url = api_url

    def start_dashboard(self) -> None:
        """Have Ray's dashboard come up in the background."""
        self.cluster.start_dashboard()

    async def dashboard_url(self) -> str:
        """Where Ray's dashboard answers; waits for it. Raises ``ClusterUnavailable``."""
        return await asyncio.to_thread(lambda: self.cluster.dashboard_url)

    @contextlib.asynccontextmanager
    async def serving(self, port: int) -> AsyncGenerator[str]:
        """The API's address while the context is open: that of the host of this home if it is up,
        else on ``port`` of loopback. Raises ``ClusterUnavailable``."""
        if self._api_url:
            yield self._api_url
            return
        from serve.deployment import serving

        async with serving(self.settings, self.cluster, self.store, port) as url:
            yield url

    async def start_run(self, planned: DiscoveryRun) -> DiscoveryRun:
        """Create the pending run. Raises ``Conflict`` when one is active."""
        return await create_run(self.store, planned)

    async def resume_run(self, run_id: str) -> DiscoveryRun:
        """Make a failed run active again. Raises ``NotFound``, or ``Conflict`` with the reason why
        it cannot be resumed."""
        return await resume_run(self.store, run_id)

    async def run(self, run: DiscoveryRun) -> DiscoveryRun:
        """Drive the run to its end; a failed one comes back as its record."""
        return await supervise(self.settings, self.store, run)

    async def wait_closed(self) -> None:
        """Serve until the command is interrupted."""
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def open_store(settings: Settings) -> AsyncGenerator[Store]:
    """The document store alone, for commands that need no cluster. Its server has stopped again
    when this returns, unless somebody else uses it."""
    async with _settled_in_the_end(settings), _store(settings) as store:
        yield store


@contextlib.asynccontextmanager
async def _store(settings: Settings) -> AsyncGenerator[Store]:
    store = await connect(settings.store, settings.home.path)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _settled_in_the_end(settings: Settings) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        if not settings.store.MONGODB_URI:
            await asyncio.shield(asyncio.to_thread(settled, settings.home.path))


@contextlib.asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    progress: Progress = silent,
    beside: Callable[[], object] | None = None,
) -> AsyncGenerator[Runtime]:
    """Open the store and a cluster side by side, and do ``beside``, which may block, meanwhile.

    The cluster is the one ``RAY_ADDRESS`` names, else the one that ``veridical up`` keeps for this
    home, else a local one that ends with this context. Raises ``ForOperator`` errors.
    """
    from serve.host import status

    up = status(settings)
    address = os.environ.get("RAY_ADDRESS") or (up.ray_address if up else "")
    progress(f"connecting to Ray at {address}" if address else "starting a local Ray")
    async with contextlib.AsyncExitStack() as stack:
        heed_signals = stack.enter_context(_SignalsCancel())
        # The store's server outlives the cluster, whose actors use it.
        await stack.enter_async_context(_settled_in_the_end(settings))
        cluster_opening = Opening(_cluster(settings, address))
        store_opening = Opening(_store(settings))
        await stack.enter_async_context(cluster_opening)
        await stack.enter_async_context(store_opening)
        cluster, store, _ = await asyncio.gather(
            cluster_opening.entered,
            store_opening.entered,
            asyncio.to_thread(beside) if beside else _nothing(),
        )
        heed_signals.again()
        yield Runtime(settings, store, cluster, up.api_url if up else "")


class _SignalsCancel:
    """SIGTERM, and SIGHUP of a terminal that closes, cancel the current task, as Ctrl-C does, while
    the context is open. Who ignores SIGHUP (``nohup``) goes on ignoring it."""

    def __enter__(self) -> Self:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        heeds_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._signals = [signal.SIGTERM, *([signal.SIGHUP] if heeds_hangup else [])]
        self.again()
        return self

    def again(self) -> None:
        """To be called when Ray has connected, which takes the signal for itself."""
        assert self._task is not None
        for number in self._signals:
            self._loop.add_signal_handler(number, self._task.cancel)

    def __exit__(self, *_: object) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)


async def _nothing() -> None:
    return None


class Opening(Generic[T]):
    """A context that starts to open when this one is entered; ``entered`` gives its value. One that
    is still opening when this one is left is called off."""

    def __init__(self, context: contextlib.AbstractAsyncContextManager[T]) -> None:
        self._context = context

    async def __aenter__(self) -> Self:
        self.entered = asyncio.ensure_future(self._context.__aenter__())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.entered.cancel()
        await asyncio.wait([self.entered])
        if not self.entered.cancelled() and self.entered.exception() is None:
            await self._context.__aexit__(None, None, None)


@contextlib.asynccontextmanager
async def _cluster(settings: Settings, address: str) -> AsyncGenerator[Cluster]:
    """``connected`` in threads. Entering is never left half way."""
    given_up = threading.Event()
    context = connected(settings.home.path, address, given_up)
    entering = asyncio.ensure_future(asyncio.to_thread(context.__enter__))
    entering.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        cluster = await asyncio.shield(entering)
    except asyncio.CancelledError:
        given_up.set()
        await asyncio.wait([entering])
        if entering.exception() is None:
            await asyncio.to_thread(context.__exit__, None, None, None)
        raise
    try:
        yield cluster
    finally:
        await asyncio.shield(asyncio.to_thread(context.__exit__, None, None, None))
