"""A measuring stick: the verifier and the refuter over claims whose truth is known."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, Field, ValidationError

from pipeline.errors import BadRequest
from pipeline.ports import WarehouseInfo
from pipeline.records import DocKind, InsightValidation, Status
from pipeline.validation.agents import ValidationAgents
from pipeline.validation.breakdown import breakdown
from pipeline.validation.bundle import Bundle, BundleDiscovery, BundleDoc, described
from pipeline.validation.phase import judge
from pipeline.validation.policy import SequentialValidation, ValidationPolicy


class Label(StrEnum):
    ENTAILED = "entailed"
    CONTRADICTED = "contradicted"
    NOT_ENOUGH = "not-enough-info"


PREDICTED: Mapping[Status, Label] = {
    Status.CONFIRMED: Label.ENTAILED,
    Status.SUPPORTED: Label.ENTAILED,
    Status.REJECTED: Label.CONTRADICTED,
    Status.PARTIAL: Label.NOT_ENOUGH,
    Status.UNVERIFIABLE: Label.NOT_ENOUGH,
}


class LabelledClaim(BaseModel):
    id: str
    claim: str
    label: Label
    database: str = ""
    """Datasource id; empty means the first one."""
    kind: str = ""
    """What sort of claim it is, for the scores by kind; free text."""


class ClaimResult(BaseModel):
    """One judged claim, as the results file keeps it."""

    id: str
    claim: str
    label: Label
    database: str = ""
    kind: str = ""
    predicted: Label
    combined: Status
    verifier: str = ""
    refuter: str = ""
    reason: str = ""
    queries: int = 0
    step_reads: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    duration_ms: int = 0
    failed: str = ""
    """Why the model or the warehouse failed over it; such a claim is judged again."""

    @property
    def right(self) -> bool:
        return self.label is self.predicted


class ClassScore(BaseModel):
    support: int
    precision: float
    recall: float
    f1: float


class KindScore(BaseModel):
    claims: int
    right: int


class BenchReport(BaseModel):
    claims: int
    accuracy: float
    macro_f1: float
    """Over the labels that occur, given or predicted."""
    classes: dict[str, ClassScore]
    confusion: dict[str, dict[str, int]]
    """``confusion[label][predicted]``."""
    statuses: dict[str, dict[str, int]]
    """Combined status by label."""
    kinds: dict[str, KindScore] = Field(default_factory=dict)
    """By kind, for claims that have one."""
    queries_per_claim: float
    tokens_per_claim: float
    failed: int = 0
    """Claims over which the model or the warehouse failed; they count as not enough."""
    wrong: list[ClaimResult] = Field(default_factory=list)


# ---------------------------------------------------------------- reading claims


def read_claims(lines: Iterable[str], name: str = "claims") -> list[LabelledClaim]:
    """Claims from the lines of a JSONL file. Raises ``BadRequest`` naming the line.

    Each line is an object with ``claim``, ``label`` (entailed, contradicted or not-enough-info),
    and optionally ``id`` and ``database``. Blank lines are skipped; without ``id`` a claim is
    called by the number of its line.
    """
    claims: list[LabelledClaim] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            claim = _claim(line, number)
        except ValueError as error:
            raise BadRequest(f"{name}, line {number}: {error}") from error
        if claim.id in seen:
            raise BadRequest(f"{name}, line {number}: the id {claim.id!r} occurs twice")
        seen.add(claim.id)
        claims.append(claim)
    if not claims:
        raise BadRequest(f"{name} holds no claims")
    return claims


def _claim(line: str, number: int) -> LabelledClaim:
    try:
        parsed = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error.msg})") from error
    if not isinstance(parsed, dict):
        raise ValueError("expected a JSON object with claim and label")
    raw = cast("dict[str, Any]", parsed)
    text = raw.get("claim")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("the field claim is missing or empty")
    label = str(raw.get("label", "")).strip().lower().replace("_", "-").replace(" ", "-")
    if label not in set(Label):
        known = ", ".join(Label)
        raise ValueError(f"the label {raw.get('label')!r} is none of {known}")
    return LabelledClaim(
        id=str(raw.get("id") or number),
        claim=text.strip(),
        label=Label(label),
        database=str(raw.get("database") or ""),
        kind=str(raw.get("kind") or ""),
    )


def claim_bundle(
    claim: LabelledClaim,
    warehouses: Mapping[str, WarehouseInfo],
    discovery: BundleDiscovery,
    tables: Sequence[str] = (),
) -> Bundle:
    """A bundle without any step: the agents must ask the warehouse, so it names the ``tables``
    there are. ``warehouses`` by id."""
    database = claim.database or next(iter(warehouses), "")
    if database not in warehouses:
        known = ", ".join(warehouses) or "none"
        raise BadRequest(f"claim {claim.id} names the database {database!r}; known: {known}")
    doc = BundleDoc(
        id=claim.id,
        kind=DocKind.INSIGHT,
        headline=claim.claim,
        description=claim.claim,
        language=discovery.language,
    )
    where = described(warehouses[database])
    if tables:
        where = where.model_copy(update={"tables": list(tables)})
    return Bundle(doc=doc, warehouse=where, discovery=discovery)


# ---------------------------------------------------------------- running


class ResultsFile:
    """Judged claims, one JSON object a line, so that a stopped bench can go on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, ClaimResult]:
        """What was judged before, by claim id; a line that was cut off is ignored."""
        results: dict[str, ClaimResult] = {}
        if not self._path.exists():
            return results
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                result = ClaimResult.model_validate_json(line)
            except ValidationError:
                continue
            results[result.id] = result
        return results

    def made_with(self) -> dict[str, str]:
        """What ``begin`` noted last; empty when it never did."""
        noted: dict[str, str] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValidationError):
                    noted = _Made.model_validate_json(line).made_with
        return noted

    def begin(self, made_with: Mapping[str, str]) -> None:
        """Note what the results that follow are made with: model, warehouse, claims."""
        self._add(_Made(made_with=dict(made_with)))

    def append(self, result: ClaimResult) -> None:
        """Add one, on a line of its own even after a crash in the middle of one."""
        self._add(result)

    def _add(self, record: BaseModel) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(record.model_dump_json().encode() + b"\n")


class _Made(BaseModel):
    """A line of a results file that is no result."""

    made_with: dict[str, str]


Progress = Callable[[ClaimResult, int, int], Awaitable[None]]
"""Called with a result, how many are done, and how many there are."""


async def _quiet(_result: ClaimResult, _done: int, _total: int) -> None:
    """No progress."""


async def run_bench(
    claims: Sequence[LabelledClaim],
    agents: ValidationAgents,
    bundle_for: Callable[[LabelledClaim], Bundle],
    *,
    refuter_disabled: bool = False,
    policy: ValidationPolicy | None = None,
    results: ResultsFile | None = None,
    progress: Progress = _quiet,
) -> BenchReport:
    """Judge every claim that ``results`` does not have yet, and report on all of them."""
    stored = await asyncio.to_thread(results.load) if results else {}
    done = {c.id: stored[c.id] for c in claims if _is_result_of(stored.get(c.id), c)}
    waiting = [(claim, bundle_for(claim)) for claim in claims if claim.id not in done]

    async def work(item: tuple[LabelledClaim, Bundle]) -> ClaimResult:
        claim, bundle = item
        return _result(claim, await judge(bundle, agents, refuter_disabled=refuter_disabled))

    async def settled(result: ClaimResult) -> None:
        if results:
            await asyncio.to_thread(results.append, result)
        done[result.id] = result
        await progress(result, len(done), len(claims))

    await (policy or SequentialValidation()).run(waiting, work, settled)
    return report([done[claim.id] for claim in claims])


def _is_result_of(result: ClaimResult | None, claim: LabelledClaim) -> bool:
    return (
        result is not None
        and not result.failed
        and (result.claim, result.label, result.database)
        == (claim.claim, claim.label, claim.database)
    )


def _result(claim: LabelledClaim, judged: InsightValidation) -> ClaimResult:
    verdicts = [v for v in (judged.verifier, judged.refuter) if v is not None]
    combined = judged.combined or Status.UNVERIFIABLE
    return ClaimResult(
        id=claim.id,
        claim=claim.claim,
        label=claim.label,
        database=claim.database,
        kind=claim.kind,
        predicted=PREDICTED.get(combined, Label.NOT_ENOUGH),
        combined=combined,
        verifier=judged.verifier.overall if judged.verifier else "",
        refuter=judged.refuter.overall if judged.refuter else "",
        reason=judged.verifier.overall_reason if judged.verifier else "",
        queries=sum(v.stats.queries_issued for v in verdicts),
        step_reads=sum(v.stats.step_reads_used for v in verdicts),
        tokens_in=judged.input_tokens,
        tokens_out=judged.output_tokens,
        duration_ms=sum(v.stats.duration_millis for v in verdicts),
        failed=breakdown(judged),
    )


# ---------------------------------------------------------------- scoring


def report(results: Sequence[ClaimResult]) -> BenchReport:
    """Scores over judged claims."""
    count = len(results)
    pairs = Counter((r.label, r.predicted) for r in results)
    statuses = Counter((r.label, r.combined) for r in results)
    classes = {label.value: _score(label, pairs) for label in Label}
    used = [label for label in Label if any(label in pair for pair in pairs)]
    return BenchReport(
        claims=count,
        accuracy=_share(sum(r.right for r in results), count),
        macro_f1=_share(sum(classes[label.value].f1 for label in used), len(used)),
        classes=classes,
        confusion={a.value: {b.value: pairs[a, b] for b in Label} for a in Label},
        kinds=_kinds(results),
        statuses={a.value: {s.value: statuses[a, s] for s in PREDICTED} for a in Label},
        queries_per_claim=_share(sum(r.queries for r in results), count),
        tokens_per_claim=_share(sum(r.tokens_in + r.tokens_out for r in results), count),
        failed=sum(bool(r.failed) for r in results),
        wrong=[r for r in results if not r.right],
    )


def _kinds(results: Sequence[ClaimResult]) -> dict[str, KindScore]:
    every = Counter(r.kind for r in results if r.kind)
    right = Counter(r.kind for r in results if r.kind and r.right)
    return {kind: KindScore(claims=n, right=right[kind]) for kind, n in sorted(every.items())}


def _score(label: Label, pairs: Mapping[tuple[Label, Label], int]) -> ClassScore:
    hits = pairs.get((label, label), 0)
    support = sum(n for (given, _), n in pairs.items() if given is label)
    predicted = sum(n for (_, said), n in pairs.items() if said is label)
    return ClassScore(
        support=support,
        precision=_share(hits, predicted),
        recall=_share(hits, support),
        f1=_share(2 * hits, predicted + support),
    )


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0
