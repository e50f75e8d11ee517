"""The labelled claims over the demo warehouse: every label follows from SQL."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

from pipeline.validation.bench import Label, read_claims

FOLDER = Path(__file__).parents[2] / "benchmarks" / "claims"
FILES = [FOLDER / "nycflights13.jsonl", FOLDER / "nycflights13_reworded.jsonl"]


def raw_claims(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [cast("dict[str, Any]", json.loads(line)) for line in lines]


def test_there_are_enough_claims_of_every_label_and_kind() -> None:
    claims = read_claims(FILES[0].read_text(encoding="utf-8").splitlines(), FILES[0].name)
    labels = Counter(claim.label for claim in claims)
    assert all(labels[label] >= 22 for label in Label), labels
    for label in (Label.ENTAILED, Label.CONTRADICTED):
        kinds = {claim.kind for claim in claims if claim.label is label}
        assert kinds == {
            "average", "count", "missing", "ranking", "share", "superlative", "tie", "trend",
        }  # fmt: skip
    open_ones = {claim.kind for claim in claims if claim.label is Label.NOT_ENOUGH}
    assert {"out-of-schema", "future", "causal"} <= open_ones
    assert len({claim.claim for claim in claims}) == len(claims)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_label_is_what_its_check_says(demo_file: Path, file: Path) -> None:
    with duckdb.connect(str(demo_file), read_only=True) as connection:
        for claim in raw_claims(file):
            if claim["label"] == Label.NOT_ENOUGH:
                assert "check" not in claim, claim
            else:
                found = connection.execute(claim["check"]).fetchall()
                assert found == [(claim["label"] == Label.ENTAILED,)], claim


def test_the_reworded_claims_are_as_many_of_every_label() -> None:
    claims = read_claims(FILES[1].read_text(encoding="utf-8").splitlines(), FILES[1].name)
    assert Counter(claim.label for claim in claims) == dict.fromkeys(Label, 15)
    assert not {c.claim for c in claims} & {c["claim"] for c in raw_claims(FILES[0])}
