"""``veridical demo`` as a person sees it, on a terminal: after the run the API stays up."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import tempfile
import termios
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from tests.serve.commands import PATIENCE_S, Commands

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
LINES, COLUMNS = 40, 120
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C = b"\x03"


@pytest.fixture
def commands() -> Generator[Commands]:
    folder = Path(tempfile.mkdtemp(prefix="vt-"))
    yield Commands(folder)
    shutil.rmtree(folder)


class Terminal:
    """The person's end of a terminal."""

    def __init__(self) -> None:
        self.person, self.program = os.openpty()
        fcntl.ioctl(self.program, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.shown = ""

    def read_until(self, words: str) -> None:
        """Read what is shown until ``words`` are, or until the program has gone."""
        while words not in self.shown:
            try:
                part = os.read(self.person, 65_536)
            except OSError:
                part = b""  # the program's end is closed
            assert part, f"{words!r} was never shown:\n{self.shown}"
            self.shown += ESCAPES.sub("", part.decode(errors="replace"))

    def drain(self) -> None:
        try:
            while part := os.read(self.person, 65_536):
                self.shown += part.decode(errors="replace")
        except OSError:
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_on_a_terminal_both_addresses_answer_after_the_run_until_ctrl_c(
    commands: Commands,
) -> None:
    terminal, port = Terminal(), free_port()
    device = os.ttyname(terminal.program)
    demo = commands.start("demo", "--max-steps", "6", "--port", str(port), terminal=device)
    terminal.read_until("No language model is involved")
    os.close(terminal.program)
    terminal.read_until("Press Ctrl-C to end both.")
    commands.look()
    for told in ("Reading the schemas", "1/6", "Report: "):
        assert told in terminal.shown

    api = f"http://127.0.0.1:{port}"
    assert f"The API is up at {api}" in terminal.shown
    (project,) = httpx2.get(f"{api}/api/v1/projects").json()["data"]
    (run,) = httpx2.get(f"{api}/api/v1/projects/{project['id']}/runs").json()["data"]
    assert run["status"] == "completed"
    dashboard = re.search(r"Ray's dashboard is at (http://127.0.0.1:\d+)", terminal.shown)
    assert dashboard
    assert httpx2.get(dashboard[1]).status_code == 200

    os.write(terminal.person, CTRL_C)
    terminal.drain()
    demo.communicate(timeout=60)
    assert demo.returncode == 0, terminal.shown
    os.close(terminal.person)
    commands.nothing_left()
    assert "Traceback" not in terminal.shown
