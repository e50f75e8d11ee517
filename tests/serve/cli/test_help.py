"""The help teaches, and it is quick."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from serve.cli import main

COMMANDS = [
    ("demo",),
    ("up",),
    ("down",),
    ("status",),
    ("project", "create"),
    ("project", "list"),
    ("project", "show"),
    ("schema", "index"),
    ("schema", "show"),
    ("discover",),
    ("resume",),
    ("runs",),
    ("report",),
    ("search",),
    ("validation", "replay"),
    ("bench", "claims"),
    ("doctor",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_json_and_an_example(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*words, "--help"], env={"COLUMNS": "100", "TERM": "dumb"})
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert "Example" in result.stdout
    assert f"veridical {' '.join(words)}" in result.stdout


def test_the_paragraphs_of_a_help_fill_the_line_and_examples_keep_theirs() -> None:
    shown = CliRunner().invoke(main, ["demo", "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert "and weather, explores it, and writes a report. On a terminal it then keeps the" in lines
    assert "veridical demo --exit --max-steps 20" in lines


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_first_page_says_how_to_begin(words: list[str]) -> None:
    text = CliRunner().invoke(main, words).output
    assert "veridical demo" in text
    assert "Exit status" in text
    assert all(name in text for name, *_ in COMMANDS)


def test_help_loads_none_of_the_heavy_parts() -> None:
    heavy = ("ray", "motor", "pymongo", "duckdb", "fastapi", "matplotlib", "pydantic", "pyarrow",
             "anthropic", "openai", "onnxruntime")  # fmt: skip
    code = f"import sys, serve.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
