"""The HTTP API as a plain FastAPI application, free of Ray."""

from serve.api.app import create_app
from serve.api.deps import ApiDeps, ApiStore

__all__ = ["ApiDeps", "ApiStore", "create_app"]
