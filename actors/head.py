# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedBaseClass=false
# The class that starts Ray's processes is untyped.
"""A local head node in a process of its own: ``python -m actors.head FOLDER``.

It starts what ``ray start --head`` starts, without what one machine has no use for (the autoscaler,
the forwarder of workers' prints), and the dashboard only when it is asked for: that alone costs as
much as all the rest, and no run waits for it. A process of its own can be ended while Ray starts,
which a thread cannot.

It says one JSON object a line: ``{"address": …}`` once the node has registered, ``{"dashboard_url":
…}`` after it has read the line ``dashboard``, ``{"error": …}`` if either fails. It ends, and Ray
with it, when its standard input closes. Its environment is what Ray and all workers see.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ray._private.node import Node
from ray._private.parameter import RayParams
from ray._private.utils import write_ray_address

OBJECT_STORE_BYTES = 160 * 1024 * 1024
"""Enough for two capped results in flight beside those of a long run; Ray spills the rest."""
SLOTS = 2
"""No actor here takes a CPU slot; Ray starts a worker for each before anyone asks, which the first
actors find ready. More of them would only compete with what they wait for."""
ASK = "dashboard"


class Head(Node):
    """Ray's head node, with its dashboard put off."""

    def start_api_server(self, **options: Any) -> None:
        self._dashboard = options

    def start_dashboard(self) -> str:
        """Start the dashboard, which is the job server too, and return its address. Blocking."""
        super().start_api_server(**self._dashboard)
        return f"http://{self.webui_url}"

    def end(self) -> None:
        self.kill_all_processes(check_alive=False, allow_graceful=True)


def start(folder: Path) -> Head:
    """Start a head node whose files lie in ``folder``; it has registered when this returns."""
    options: dict[str, Any] = {
        "num_cpus": SLOTS,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": 0,
        # A fixed port, as is Ray's default, would leave a second cluster without its job agent.
        "dashboard_agent_listen_port": 0,
        "temp_dir": str(folder),
        "no_monitor": True,
        "include_log_monitor": False,
    }
    head = Head(RayParams(**options), head=True, shutdown_at_exit=False)
    # Jobs are sent to the cluster that is named here, or else to any on this machine.
    write_ray_address(str(head.gcs_address), str(folder))
    return head


def say(**words: str) -> None:
    print(json.dumps(words), flush=True)


def main() -> int:
    try:
        head = start(Path(sys.argv[1]))
        say(address=str(head.gcs_address))
        for line in sys.stdin:
            if line.strip() == ASK:
                say(dashboard_url=head.start_dashboard())
    except Exception as error:  # noqa: BLE001 - whatever Ray fails with, the owner hears of it
        say(error=(str(error).strip().splitlines() or [type(error).__name__])[0])
        return 1
    head.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
