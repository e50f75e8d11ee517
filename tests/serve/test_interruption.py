"""Ctrl-C ends a command, records why its run ended, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from actors.supervisor import STOPPED
from tests.serve.commands import PATIENCE_S, Commands, until

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
INTERRUPTED = 130


@pytest.fixture(scope="module")
def commands() -> Generator[Commands]:
    folder = Path(tempfile.mkdtemp(prefix="vi-"))
    yield Commands(folder)
    shutil.rmtree(folder)


def interrupt(group: int) -> None:
    """What a terminal does on Ctrl-C."""
    os.killpg(group, signal.SIGINT)


def test_ctrl_c_while_ray_starts_leaves_nothing(commands: Commands) -> None:
    demo = commands.start("demo", "--exit")
    until(lambda: any("gcs_server" in words[0] for words in commands.marked().values()))
    commands.look()
    interrupt(demo.pid)
    _, complaint = demo.communicate(timeout=60)
    assert (demo.returncode, complaint) == (INTERRUPTED, "veridical: stopped\n")
    commands.nothing_left()


def test_ctrl_c_while_it_explores_marks_the_run_failed_and_leaves_nothing(
    commands: Commands,
) -> None:
    demo = commands.start("demo", "--exit")
    assert demo.stdout is not None
    for line in demo.stdout:
        if re.match(r" +\d+/40  ", line):
            break
    commands.look()
    interrupt(demo.pid)
    _, complaint = demo.communicate(timeout=60)
    assert (demo.returncode, complaint) == (INTERRUPTED, "veridical: stopped\n")
    commands.nothing_left()
    (run,) = commands.json("runs", "NYC flights demo")["runs"]
    assert (run["status"], run["error"]) == ("failed", STOPPED)
