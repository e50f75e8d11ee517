"""The scripted model server, clients that are made quickly, and fresh processes."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.servers.model_server import ModelServer, model_server

ROOT = Path(__file__).parents[2]
Freshly = Callable[..., str]


@pytest.fixture
def server() -> Generator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def freshly() -> Freshly:
    """What Python code prints in a process of its own, with arguments and settings."""

    def printed(code: str, *arguments: object, **environment: str) -> str:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env=os.environ | environment,
        )
        return ran.stdout.strip()

    return printed


@pytest.fixture(scope="session")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one of the machine's certificate authorities, if it has any."""
    file = tmp_path_factory.mktemp("authorities") / "one.pem"
    known = ssl.create_default_context().get_ca_certs(binary_form=True)[:1]
    file.write_text("".join(map(ssl.DER_cert_to_PEM_cert, known)), encoding="ascii")
    return file


@pytest.fixture(autouse=True)
def few_authorities(monkeypatch: pytest.MonkeyPatch, authorities: Path) -> None:
    """Every HTTP client reads them all when it is made, which takes longer than most tests here:
    no test speaks TLS."""
    if authorities.stat().st_size:
        monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
