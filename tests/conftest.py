"""What every test gets: no settings from outside, a detector for blocked event loops, and a place
in the order of a run on two cores."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

from adapters.store import embedded
from adapters.warehouses.demo import build_demo
from pipeline import settings

ONE_RAY = "tests/actors/"
STARTS_RAY = (
    ONE_RAY,
    "tests/serve/cli/test_doctor.py",
    "tests/serve/cli/test_terminal.py",
    "tests/serve/test_host.py",
    "tests/serve/test_interruption.py",
    "tests/test_demo.py",
)
OURS = ["pipeline", "adapters", "actors", "serve"]
GROUPS = [group for group in vars(settings).values() if isinstance(group, type)]

# The same examples in every run, and no failure because the machine is busy.
hypothesis.settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("suite")


def pytest_configure() -> None:
    """What the tests start heeds Ctrl-C even where the tests themselves were started to ignore it,
    as a shell does with what runs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ByModule(LoadScopeScheduling):
    """Several workers share the work by module; those that share a Ray go to one of them."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_RAY if nodeid.startswith(ONE_RAY) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule:
    return ByModule(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: not item.nodeid.startswith(STARTS_RAY))


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, addresses and knobs of the machine that runs the tests do not reach them."""
    for name in [*os.environ]:
        known = any(name in getattr(group, "model_fields", {}) for group in GROUPS)
        if known or name.startswith("RAY_ADDRESS"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def blocked_loops() -> Generator[BlockBuster]:
    """A call of ours that blocks a running event loop (sleeping, sockets, locks, other processes)
    raises ``BlockingError``. Looking at a small local file does not count."""
    with blockbuster_ctx(OURS) as detector:
        for name, function in detector.functions.items():
            if name.startswith(("os.", "io.")):
                function.deactivate()
        yield detector


@pytest.fixture(scope="session")
def demo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo warehouse in a folder of its own, built once. To be read only."""
    return build_demo(tmp_path_factory.mktemp("demo") / "deep" / "demo.duckdb")


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A home whose server runs for all tests that use it (each with a database of its own),
    and is gone afterwards."""
    home = tmp_path_factory.mktemp("shared-home")
    lease = embedded.acquire(home)
    try:
        yield home
    finally:
        lease.release()
        assert embedded.settled(home, timeout=60)
