"""The scripted server as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.servers.model_server import Answer, answer_from

ROOT = Path(__file__).resolve().parents[3]


def test_it_plays_a_script_and_keeps_a_log_in_a_process_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"status": 503, "headers": {"retry-after": "1"}, "body": {}}]))
    command = [sys.executable, "-m", "tests.servers.model_server", "--script", str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        word, address = process.stdout.readline().split()
        assert word == "READY"
        with httpx2.Client(base_url=address) as client:
            first = _post(client, "/v1/chat/completions", {"model": "m"})
            assert (first.status_code, first.headers["retry-after"]) == (503, "1")
            _post(client, "/_script", [{"raw": "<p>", "content_type": "text/html"}])
            assert _post(client, "/v1/messages", {"model": "m"}).text == "<p>"
            assert _post(client, "/v1/messages", {}).json()["stop_reason"] == "end_turn"
            log = client.get("/_log").json()
        assert [entry["path"] for entry in log] == ["/v1/chat/completions", *["/v1/messages"] * 2]
    finally:
        process.terminate()
        assert process.wait(60) == 0
        if process.stdout is not None:
            process.stdout.close()


def test_a_field_that_no_answer_has_is_refused() -> None:
    assert answer_from({"drop": True}) == Answer(drop=True)
    with pytest.raises(ValueError, match="sleep"):
        answer_from({"sleep": 3})


def _post(client: httpx2.Client, path: str, body: Any) -> httpx2.Response:
    return client.post(path, json=body)
