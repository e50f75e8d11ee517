"""What was measured of keys between datasources, as it is kept between runs."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from pipeline.records.project import KeyColumn


class MeasuredPair(BaseModel):
    """How many distinct values of each column were looked for in the other, and found there."""

    left: KeyColumn
    right: KeyColumn
    asked_left: int
    found_left: int
    asked_right: int
    found_right: int
    measured_at: datetime
