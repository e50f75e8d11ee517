"""Runs ``veridical`` as a person would, and finds whatever it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.janitor import MARK_VARIABLE, members

VERIDICAL = Path(sys.executable).with_name("veridical")
MARK = "VERIDICAL_TEST"
PATIENCE_S = 240.0
"""For a busy machine; a test waits for conditions and is done as soon as they hold."""
ON_TERMINAL = ["sh", "-c", 'exec "$@" <>"$0" >&0 2>&1']
OUTSIDE = ("RAY_ADDRESS", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "MONGODB_URI")


def until(true: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    """Wait for a condition; it fails the test when it does not come true."""
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


class Commands:
    """Commands in one home, all of whose processes carry one mark."""

    def __init__(self, home: Path) -> None:
        self.home, self._mark = home, uuid.uuid4().hex
        kept = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
        self.environment = {**kept, "VERIDICAL_HOME": str(home), MARK: self._mark}
        self._clusters: set[tuple[Path, str]] = set()

    def start(self, *words: str, terminal: str = "") -> subprocess.Popen[str]:
        """A command in a process group of its own, as a shell would start it: with pipes, or on
        the terminal whose device is named, from which its Ctrl-C comes then."""
        return subprocess.Popen(
            [*(ON_TERMINAL if terminal else []), *filter(None, [terminal]), str(VERIDICAL), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
            text=True,
        )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        process = self.start(*words)
        out, complaint = process.communicate(timeout=PATIENCE_S)
        self.look()
        return subprocess.CompletedProcess(process.args, process.returncode, out, complaint)

    def json(self, *words: str) -> Any:
        """What a command prints with ``--json``."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # ------------------------------------------------------------ traces

    def marked(self) -> dict[int, list[str]]:
        """The command lines of living processes that carry the mark, by their pid."""
        found: dict[int, list[str]] = {}
        wanted = f"{MARK}={self._mark}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().decode(errors="replace")
                    found[int(entry.name)] = line.strip("\0").split("\0")
            except OSError:
                continue
        return found

    def look(self) -> set[Path]:
        """Remember the clusters that are up now; returns their folders."""
        now: set[Path] = set()
        for words in self.marked().values():
            if "actors.janitor" in words:
                folder, mark = Path(words[-2]), words[-1]
                self._clusters.add((folder, mark))
                now.add(folder)
        return now

    def left(self) -> list[str]:
        """Processes and folders that are still there."""
        self.look()
        lines = [" ".join(words) for words in self.marked().values()]
        for folder, mark in self._clusters:
            lines += [f"process {pid} of {folder}" for pid in members(folder, mark, 0)]
            lines += [str(folder)] if folder.exists() else []
        return lines

    def nothing_left(self, limit_s: float = 10.0) -> None:
        """Everything is gone, or is within seconds."""
        deadline = time.monotonic() + limit_s
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == []
        assert self._clusters, f"no {MARK_VARIABLE} was ever seen"
