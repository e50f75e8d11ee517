"""Evidence must be real: an evidence row counts only if a tool returned it (design, decision 2)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pipeline.records import ClaimVerdict, Provenance, StructuredVerdict
from pipeline.validation.likeness import same_value

log = logging.getLogger(__name__)

Row = Mapping[str, Any]


def attested(row: Any, returned_rows: Any) -> bool:
    """True when one of ``returned_rows`` holds every cell of ``row``.

    ``row`` may have fewer columns, in any order, their names in any case; its values must be those
    of a single returned row, give or take their formatting (``same_value``). An empty row, or
    anything that is not a row, is not attested.
    """
    if not isinstance(returned_rows, Iterable):
        return False
    try:
        claimed = _as_row(row)
        rows = map(_as_row, cast("Iterable[Any]", returned_rows) if claimed else ())
        return any(_holds(returned, claimed) for returned in rows)
    except Exception as error:  # noqa: BLE001 - what cannot be compared attests nothing
        log.warning("a row could not be compared: %s", type(error).__name__)
        return False


def _as_row(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    return {str(k): v for k, v in cast("Mapping[Any, Any]", value).items()}


def _holds(returned: dict[str, Any], claimed: dict[str, Any]) -> bool:
    return len(claimed) <= len(returned) and all(
        any(same_value(value, returned[c], column=c) for c in _columns(returned, name))
        for name, value in claimed.items()
    )


def _columns(returned: dict[str, Any], name: str) -> list[str]:
    """The columns that ``name`` may mean: the one so spelt, else those that differ in case."""
    if name in returned:
        return [name]
    wanted = _fold(name)
    return [column for column in returned if _fold(column) == wanted]


def _fold(name: str) -> str:
    return name.strip().casefold()


@dataclass(slots=True)
class Returned:
    """Every row that tools returned in one agent's loop, or that its bundle showed.

    Rows are kept as the warehouse gave them and, where a cell was cut for the prompt, as shown.
    """

    batches: list[tuple[str, Sequence[Row]]] = field(
        default_factory=list[tuple[str, Sequence[Row]]]
    )

    def add(self, source: str, rows: Sequence[Row], shown: Sequence[Row] = ()) -> None:
        """``source`` names the batch for people: ``bundle step 3``, ``query_warehouse #2``."""
        self.batches.append((source, rows))
        if shown and list(shown) != list(rows):
            self.batches.append((source, shown))

    def source_of(self, row: Any, *, prefer: str = "") -> str:
        """The first batch that holds ``row``, one whose name ends in ``prefer`` before others;
        empty when none does."""
        preferred = [b for b in self.batches if prefer and b[0].endswith(prefer)]
        others = [b for b in self.batches if not (prefer and b[0].endswith(prefer))]
        batches = (*preferred, *others)
        return next((source for source, rows in batches if attested(row, rows)), "")


def attest(verdict: StructuredVerdict, returned: Returned) -> tuple[StructuredVerdict, list[int]]:
    """The verdict with provenance beside each evidence row, and which claims have none.

    A claim without a row gets no provenance and is not listed: that is for the finaliser to say.
    """
    claims: list[ClaimVerdict] = []
    unattested: list[int] = []
    for i, claim in enumerate(verdict.claim_verdicts):
        evidence = claim.evidence
        provenance: Provenance | None = None
        if evidence.row is not None:
            prefer = f"step {evidence.step_id}" if evidence.step_id is not None else ""
            source = returned.source_of(evidence.row, prefer=prefer)
            provenance = Provenance(attested=bool(source), source=source)
            if not source:
                unattested.append(i)
        stamped = evidence.model_copy(update={"provenance": provenance})
        claims.append(claim.model_copy(update={"evidence": stamped}))
    return verdict.model_copy(update={"claim_verdicts": claims}), unattested
