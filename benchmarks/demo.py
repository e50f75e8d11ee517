"""What a demo costs on an installed tree: time to the first step, whole time, memory, disk.

    python -m benchmarks.demo [--max-steps 40] [--repeat 3]

Only the processes of the demo are counted, whatever else the machine does: its descendants, and
what carries its mark in the environment. Memory is the sum of proportional set sizes (PSS). CPU
seconds are sampled, so that a process of less than half a second may be missed; on a machine that
is busy with something else they say more than seconds do. Prints one JSON document a demo.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

CPU_EVERY_S, MEMORY_EVERY_S = 0.4, 2.0
MARK_VARIABLE = "VERIDICAL_BENCHMARK"


class Tree:
    """A command and everything that it has started, found again after it was renamed or adopted."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._mine: dict[int, psutil.Process] = {}
        self._others: set[int] = set()
        self._cpu: dict[int, float] = {}

    def look(self) -> float:
        """Look for new processes and return the CPU seconds of all so far."""
        for process in psutil.process_iter():
            pid = process.pid
            if pid not in self._mine and pid not in self._others:
                if self._belongs(process):
                    self._mine[pid] = process
                else:
                    self._others.add(pid)
        for pid, process in list(self._mine.items()):
            try:
                spent = process.cpu_times()
                self._cpu[pid] = spent.user + spent.system
            except psutil.Error:
                del self._mine[pid]
        return sum(self._cpu.values())

    def _belongs(self, process: psutil.Process) -> bool:
        try:
            in_family = process.ppid() in self._mine
            return in_family or process.environ().get(MARK_VARIABLE) == self._mark
        except psutil.Error:
            return False

    def pss(self) -> int:
        """Bytes that all hold now."""
        total = 0
        for process in list(self._mine.values()):
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
        return total

    def alive(self) -> list[str]:
        self.look()
        return [process.name() for process in self._mine.values() if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def folder_bytes(folder: Path) -> int:
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in folder.rglob("*"):
        stat = path.lstat()
        if path.is_file() and (stat.st_dev, stat.st_ino) not in seen:
            seen.add((stat.st_dev, stat.st_ino))
            total += stat.st_blocks * 512
    return total


def measure(max_steps: int) -> dict[str, Any]:
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="veridical-bench-") as home:
        begun_at, begun = time.time(), time.monotonic()
        demo = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("veridical")),
                *("demo", "--exit", "--json", "--max-steps", str(max_steps), "--home", home),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, MARK_VARIABLE: mark},
        )
        tree, spent, peak, looked_at = Tree(mark), list[tuple[float, float]](), 0, 0.0
        assert demo.stdout is not None
        reader = demo.stdout
        while not select.select([reader], [], [], CPU_EVERY_S)[0]:
            spent.append((time.time(), tree.look()))
            if spent[-1][0] - looked_at > MEMORY_EVERY_S:
                peak, looked_at = max(peak, tree.pss()), time.time()
        out = reader.read()
        demo.wait()
        whole = time.monotonic() - begun
        left = tree.alive()
    document = json.loads(out)
    first = next(step for step in document["steps"] if step["action"] == "query_data")
    first_at = datetime.fromisoformat(first["timestamp"]).timestamp()
    return {
        "exit_status": demo.returncode,
        "steps": len(document["steps"]),
        "insights": len(document["discovery"]["insights"]),
        "seconds_to_first_query_step": round(first_at - begun_at, 1),
        "cpu_seconds_to_first_query_step": round(
            max((cpu for at, cpu in spent if at <= first_at), default=0.0), 1
        ),
        "seconds_whole": round(whole, 1),
        "cpu_seconds_whole": round(spent[-1][1], 1),
        "load_average": round(os.getloadavg()[0], 1),
        "peak_memory_mib": round(peak / 2**20),
        "installed_mib": round(folder_bytes(Path(sysconfig.get_path("purelib"))) / 2**20),
        "left_processes": left,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-steps", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=1)
    asked = parser.parse_args()
    for _ in range(asked.repeat):
        print(json.dumps(measure(asked.max_steps), indent=2), flush=True)


if __name__ == "__main__":
    main()
