"""Is the process up, and can it do its work?"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse

from serve.api.deps import ApiDeps, Check, deps_of
from serve.api.envelopes import data, failure

CHECK_SECONDS = 5.0
router = APIRouter(tags=["health"])


@router.get("/health")
@router.get("/api/v1/health", include_in_schema=False)
async def health() -> JSONResponse:
    """The process answers."""
    return data({"status": "ok"})


@router.get("/health/ready")
async def ready(deps: Annotated[ApiDeps, Depends(deps_of)]) -> JSONResponse:
    """Every part that a discovery needs answers; otherwise 503, naming what is down."""
    states = await asyncio.gather(*(_state(check) for check in deps.checks.values()))
    checks = dict(zip(deps.checks, states, strict=True))
    down = {name: state for name, state in checks.items() if state != "ok"}
    if not down:
        return data({"status": "ready", "checks": checks})
    sentence = "; ".join(f"{name} is down: {why}" for name, why in down.items())
    return failure(sentence, 503, status="degraded", checks=checks)


async def _state(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except Exception as error:  # noqa: BLE001 - whatever a part fails with, it is what is down
        return str(error) or type(error).__name__
    return "ok"
