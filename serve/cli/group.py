"""How commands end: one sentence on stderr and a status, never a traceback.

Status 0 is success, 1 a run that failed, 2 a request that cannot be served as it was put, 3 an
environment that is not as it must be, 130 an interruption.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

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
        try:
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
        return f"{error.filename}: {error.strerror}", ENVIRONMENT
    return _unexpected(error), ENVIRONMENT


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
    if as_json:
        print(json.dumps({"error": sentence}, ensure_ascii=False), flush=True)
    print(f"veridical: {sentence}", file=sys.stderr, flush=True)
