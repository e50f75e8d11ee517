"""What is kept in clear in a project and shown to nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from pipeline.records import Project

MASK = "***"
_SECRET = re.compile(
    r"token|passw|secret|credential|api_?key|private_?key|access_?key|^key$", re.IGNORECASE
)
_USER = re.compile(r"(?<=://)[^/@\s]+@")


def shown(project: Project) -> Project:
    """The project without tokens, passwords and keys in the configurations that it holds."""
    changes: dict[str, Any] = {
        "warehouses": [_without_secrets(source) for source in project.warehouses],
        "llm": _without_secrets(project.llm),
        "embedding": _without_secrets(project.embedding),
    }
    if project.warehouse is not None:
        changes["warehouse"] = _without_secrets(project.warehouse)
    return project.model_copy(update=changes)


def masked(value: Any, name: str = "") -> Any:
    """A setting without what must not be shown. The name of an environment variable, in a setting
    called ``…_env``, may be."""
    if value and _SECRET.search(name) and not name.lower().endswith("_env"):
        return MASK
    if isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        return {key: masked(one, str(key)) for key, one in held.items()}
    if isinstance(value, list):
        return [masked(one) for one in cast("list[Any]", value)]
    return _USER.sub(f"{MASK}@", value) if isinstance(value, str) else value


def _without_secrets(holder: Any) -> Any:
    return holder.model_copy(update={"config": masked(holder.config)})
