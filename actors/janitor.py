"""Cleans up after a local cluster, whatever ended its owner.

The owner starts ``python -m actors.janitor FOLDER MARK`` and keeps the write end of its standard
input. When that pipe closes, by a clean stop, a crash or ``kill -9``, the janitor ends every
process of the cluster and removes its folder. A process belongs to it when its environment carries
``MARK`` or, since one that renames itself overwrites its environment, when it holds a file of the
folder open. Standard library only, so that it costs next to nothing while it waits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

MARK_VARIABLE = "VERIDICAL_CLUSTER"
GRACE_S = 3.0


def _belongs(process: Path, folder: str, mark: bytes) -> bool:
    with contextlib.suppress(OSError):
        if mark in (process / "environ").read_bytes().split(b"\0"):
            return True
    with contextlib.suppress(OSError):
        for fd in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(fd.readlink()).startswith(folder):
                    return True
    return False


def members(folder: Path, mark: str, owner: int) -> list[int]:
    """Pids of the cluster's living processes, but the owner's and this one."""
    wanted, inside = f"{MARK_VARIABLE}={mark}".encode(), f"{folder}/"
    spared = {str(owner), str(os.getpid())}
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and entry.name not in spared and _belongs(entry, inside, wanted)
    ]


def end_all(folder: Path, mark: str, owner: int) -> None:
    """Ask the cluster's processes to end, then make them."""
    for sign, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        deadline = time.monotonic() + wait_s
        for pid in members(folder, mark, owner):
            with contextlib.suppress(OSError):
                os.kill(pid, sign)
        while members(folder, mark, owner) and time.monotonic() < deadline:
            time.sleep(0.05)


def main() -> None:
    """Wait for the owner to go, then clean up."""
    folder, mark, owner = Path(sys.argv[1]), sys.argv[2], os.getppid()
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(sys.stdin.fileno(), 4096):
        pass
    end_all(folder, mark, owner)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
