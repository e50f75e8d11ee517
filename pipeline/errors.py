"""One tree of errors, divided by who is told.

``ForModel``     goes back to the language model, which is expected to correct itself.
``ForOperator``  ends a run or a command; its text is one sentence that says what to do next.
``ForCaller``    answers a request that cannot be served as it was put (a usage error).

Every class passes all its arguments to ``super().__init__``, so that it survives pickling.
"""

from __future__ import annotations

from typing import Any


class VeridicalError(Exception):
    """Root of all errors that Veridical raises on purpose. ``str(error)`` is for people."""


# ---------------------------------------------------------------- told to the model


class ForModel(VeridicalError):
    """Something the model wrote cannot be used; the text tells it what to send instead."""

    fix_history: tuple[Any, ...] = ()
    """The repairs (``FixAttempt``) that were tried on a query before it was given up."""


class ActionError(ForModel):
    """An exploration reply holds no usable action."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EnvelopeError(ForModel):
    """A verifier or refuter reply is not exactly one legal envelope."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsafeSql(ForModel):
    """SQL that the read-only guard or the tenant filter refuses."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class QueryFailed(ForModel):
    """The warehouse refused or could not finish a query; ``sql`` is what was sent."""

    def __init__(self, reason: str, sql: str = "") -> None:
        super().__init__(reason, sql)
        self.reason = reason
        self.sql = sql

    def __str__(self) -> str:
        return self.reason


class QueryTimeout(QueryFailed):
    """The query ran longer than allowed and was cancelled in the warehouse."""


class ToolError(ForModel):
    """A tool call that cannot be served (unknown step, no schema provider, spent budget)."""


class ParseError(ForModel):
    """An analysis or recommendation reply that holds no usable list."""


# ---------------------------------------------------------------- told to the operator


class ForOperator(VeridicalError):
    """Ends the run or command; the text says what is wrong and what to do next."""


class WarehouseUnavailable(ForOperator):
    """The warehouse cannot be opened or reached (missing file, wrong file, refused login)."""


class EmptyWarehouse(ForOperator):
    """The warehouse has no table that can be read."""


class StoreUnavailable(ForOperator):
    """The document store cannot be started, reached or written."""


class VectorsUnavailable(ForOperator):
    """The vector index cannot be opened, reached, or holds vectors of another embedder."""


class VectorsBusy(VectorsUnavailable):
    """Another process has the vector index open; it may be free in a moment."""


class ClusterUnavailable(ForOperator):
    """Ray cannot be started or reached."""


class RunFailed(ForOperator):
    """A run ended without a result; the text is the run's recorded reason."""


class RunSuperseded(ForOperator):
    """A newer attempt owns this run, or it was cancelled; this attempt must stop."""


class ModelError(ForOperator):
    """A call to a language model failed for good."""


class ModelUnreachable(ModelError):
    """No connection, a dropped connection, or a time-out."""


class ModelAuthError(ModelError):
    """The provider refused the credentials (401, 403) or the account (402)."""


class ModelBusy(ModelError):
    """Rate limit or overload that outlasted every retry."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s)
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return str(self.args[0])


class ModelRefused(ModelError):
    """The model declined to answer (stop reason refusal); asking again gives the same."""


class ContextOverflow(ModelError):
    """The prompt does not fit the model. ``window`` and ``used`` are tokens, when stated."""

    def __init__(self, message: str, window: int | None = None, used: int | None = None) -> None:
        super().__init__(message, window, used)
        self.window = window
        self.used = used

    def __str__(self) -> str:
        return str(self.args[0])


class ModelBadReply(ModelError):
    """The provider answered with something that is not a completion."""


# ---------------------------------------------------------------- told to the caller


class ForCaller(VeridicalError):
    """The request itself is wrong; nothing was changed."""


class NotFound(ForCaller):
    """No record by that id."""


class Conflict(ForCaller):
    """The request clashes with the present state (a run is active already)."""


class BadRequest(ForCaller):
    """The request cannot be understood or breaks a rule."""
