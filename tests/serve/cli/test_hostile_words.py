"""What commands print of names, errors and arguments that were made to do harm."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from pipeline.errors import VeridicalError
from pipeline.packs import NAME_CHARS
from serve.cli import said
from serve.cli.group import forgive_encodings, told

Invoke = Callable[..., Result]
USAGE, ENVIRONMENT = 2, 3
STEERING = ["\x1b[31mred", "\x1b]0;title\x07", "\x9b31m", "\u202eliave", "\ud800", "\x00", "a\nb"]


@pytest.mark.parametrize("text", STEERING)
def test_no_document_carries_what_steers_a_terminal(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said.document({"name": text})
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x07\x9b\u202e\ud800\x00")
    assert json.loads(out) == {"name": text}


@pytest.mark.parametrize("text", STEERING)
def test_a_complaint_is_one_line_that_does_not_steer_a_terminal(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said.complaint(f"the run failed: {text}")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert all(char == "\n" or char.isprintable() for char in err)


def test_an_error_of_a_server_does_not_reach_the_terminal_raw(
    veridical: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise VeridicalError("the server said \x1b[2J\nand more")

    monkeypatch.setattr("serve.cli.outside.host_status", fails)
    result = veridical("status")
    assert result.exit_code == ENVIRONMENT
    assert result.stderr == "veridical: the server said \N{REPLACEMENT CHARACTER}[2J and more\n"


@pytest.mark.parametrize("command", [["discover"], ["runs"], ["search", "Shop"], ["resume"]])
def test_an_argument_that_is_no_text_is_a_wrong_request(
    veridical: Invoke, command: list[str]
) -> None:
    result = veridical(*command, "\udcffx")
    assert result.exit_code == USAGE
    assert "is not valid UTF-8" in result.stderr


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (" ", "needs a name"),
        ("a\nb", "cannot be seen"),
        ("\x1b[31mred", "cannot be seen"),
        ("\u202eevil", "cannot be seen"),
        ("x" * (NAME_CHARS + 1), "201 characters; 200 are the most"),
    ],
)
def test_a_name_that_nobody_could_type_is_refused(
    veridical: Invoke, tmp_path: Path, name: str, complaint: str
) -> None:
    path = tmp_path / "shop.duckdb"
    path.write_bytes(b"data")
    result = veridical("project", "create", name, "--warehouse", str(path))
    assert result.exit_code == USAGE
    assert complaint in result.stderr


def test_a_stream_of_another_encoding_fails_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    forgive_encodings()
    print("ünï \N{BULLET}", flush=True)
    assert written.getvalue() == b"\\xfcn\\xef \\u2022\n"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "make room on that disk"),
        (errno.ENAMETOOLONG, "set VERIDICAL_HOME to another folder"),
        (errno.EROFS, "set VERIDICAL_HOME to another folder"),
    ],
)
def test_a_file_that_cannot_be_used_says_what_to_do(number: int, advice: str) -> None:
    sentence, status = told(OSError(number, "reason", "/home/" + "x" * 5000))
    assert status == ENVIRONMENT
    assert advice in sentence
    assert len(sentence) < 500
