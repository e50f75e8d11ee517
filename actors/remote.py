# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportCallIssue=false
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false
# Ray's decorators are typed for literal use on a class; every actor here is made in a factory.
"""The few calls of Ray that every actor file makes."""

from __future__ import annotations

from typing import Any

import ray
from ray._raylet import AuthenticationTokenLoader, Config


def actor(shell: type[Any], *, restarts: int = 0, concurrency: int | None = None) -> Any:
    """An actor class over a plain one. It costs no CPU slot, since it waits most of its life, and
    no call of it is ever sent twice."""
    options: dict[str, Any] = {"num_cpus": 0, "max_restarts": restarts, "max_task_retries": 0}
    if concurrency is not None:
        options["max_concurrency"] = concurrency
    return ray.remote(**options)(shell)


def share(value: Any) -> Any:
    """Put a value into the object store once; returns the reference that actors read it by."""
    return ray.put(value)


def cancel(ref: Any) -> None:
    """Ask the actor to stop working on a call."""
    ray.cancel(ref)


def kill(handle: Any) -> None:
    """End an actor and its children."""
    ray.kill(handle)


def leave() -> None:
    """Disconnect from the cluster; ends it when this process started it."""
    ray.shutdown()


def reread_authentication() -> None:
    """Let this process see what the environment says about authentication now: Ray reads it once,
    when it is imported."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
