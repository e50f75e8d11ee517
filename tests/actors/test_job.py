"""Which runs a job may drive."""

from datetime import UTC, datetime

import pytest

from actors.job import is_waiting
from pipeline.records import DiscoveryRun


@pytest.mark.parametrize(
    ("status", "attempt", "owner", "waiting"),
    [
        ("pending", 1, "", True),
        ("running", 2, "", True),
        ("running", 2, "host:1:2", False),
        ("running", 1, "", False),
        ("failed", 2, "", False),
        ("completed", 1, "", False),
        ("cancelled", 1, "", False),
    ],
)
def test_a_job_drives_a_new_or_a_resumed_run_that_nobody_drives(
    status: str, attempt: int, owner: str, waiting: bool
) -> None:
    run = {"id": "r", "project_id": "p", "started_at": datetime(2026, 1, 1, tzinfo=UTC)}
    state = {"status": status, "attempt": attempt, "owner": owner}
    assert is_waiting(DiscoveryRun.model_validate(run | state)) is waiting
