"""How commands end: one sentence on stderr and a status, never a traceback.

Status 0 is success, 1 a run that failed, 2 a request that cannot be served as it was put, 3 an
environment that is not as it must be, 130 an interruption.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

PATH_CHARS = 300
OK, RUN_FAILED, USAGE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 130


class Commands(TyperGroup):
    """The root group: it turns every error into a sentence and a status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        words = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in words
        forgive_encodings()
        try:
            _check_text(words)
            status = super().main(
                words,
                prog_name or "veridical",
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except (typer.Abort, KeyboardInterrupt, asyncio.CancelledError):
            status = INTERRUPTED
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(OK)
        except Exception as error:  # noqa: BLE001 - the last resort: no traceback reaches a person
            sentence, status = told(error)
            _say(sentence, as_json)
            sys.exit(status)
        if status == INTERRUPTED:
            _say("stopped", as_json)
        sys.exit(status if isinstance(status, int) else OK)


def forgive_encodings() -> None:
    """What a terminal or pipe cannot show is written out as an escape: no command fails by it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _check_text(words: Sequence[str]) -> None:
    """Raises ``BadRequest`` for an argument in another encoding: no store could keep it."""
    from pipeline.errors import BadRequest

    for word in words:
        if not word.isascii() and any("\ud800" <= char <= "\udfff" for char in word):
            raise BadRequest(f"the argument {word!r} is not valid UTF-8; give it in UTF-8")


def told(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the status to end with."""
    from typer._click.exceptions import ClickException, UsageError

    from pipeline.errors import ForCaller, RunFailed, VeridicalError

    if isinstance(error, ClickException):
        context = error.ctx if isinstance(error, UsageError) else None
        hint = f" (see `{context.command_path} --help`)" if context else ""
        return f"{error.format_message().rstrip('.')}{hint}", USAGE
    if isinstance(error, ForCaller):
        return str(error), USAGE
    if isinstance(error, RunFailed):
        return str(error), RUN_FAILED
    if isinstance(error, VeridicalError):
        return str(error), ENVIRONMENT
    if isinstance(error, OSError) and error.filename:
        name = str(error.filename)[:PATH_CHARS]
        return f"{name} cannot be used ({error.strerror}); {_remedy(error.errno)}", ENVIRONMENT
    return _unexpected(error), ENVIRONMENT


def _remedy(number: int | None) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "make room on that disk, or set VERIDICAL_HOME to a folder on another"
    return "make it usable, or set VERIDICAL_HOME to another folder"


def _unexpected(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    sentence = f"something unexpected went wrong: {type(error).__name__}: {first}".rstrip(": ")
    home = Path(os.environ.get("VERIDICAL_HOME", ".veridical")).expanduser()
    log = home / "logs" / "cli.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            out.writelines(traceback.format_exception(error))
    except OSError:
        return sentence
    return f"{sentence} (the details are in {log})"


def _say(sentence: str, as_json: bool) -> None:
    from serve.cli import said

    with contextlib.suppress(OSError):  # the terminal has gone
        if as_json:
            said.document({"error": sentence}, indent=None)
        said.complaint(sentence)
