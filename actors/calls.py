"""How a call to an actor fails: as the pipeline's own errors, or as the loss of the actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ray.exceptions import RayActorError, RayError, RayTaskError

from pipeline.errors import VeridicalError

T = TypeVar("T")


async def call(ref: Awaitable[T], lost: Callable[[str], VeridicalError]) -> T:
    """Await an actor's answer.

    An error that the actor raised comes out as itself. When the actor, its node or its object is
    gone, ``lost`` makes the error to raise from a short reason; the call is never sent again.
    """
    try:
        return await ref
    except RayTaskError as error:
        cause: Any = error.cause
        raise (cause if isinstance(cause, VeridicalError) else error) from None
    except RayActorError as error:
        raise lost("its actor ended while the call was under way") from error
    except RayError as error:
        raise lost(type(error).__name__) from error
