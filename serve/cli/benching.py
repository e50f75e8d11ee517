"""Judging labelled claims: which file, which databases, which model, and going on after a stop."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pipeline.errors import BadRequest, NotFound
from pipeline.ports import ModelInfo
from pipeline.project_prompts import DEFAULT_LANGUAGE
from pipeline.records import DEFAULT_DATASOURCE, LlmConfig, WarehouseConfig
from pipeline.settings import Settings
from pipeline.validation.bench import (
    BenchReport,
    ClaimResult,
    LabelledClaim,
    ResultsFile,
    claim_bundle,
    read_claims,
    run_bench,
)
from pipeline.validation.bundle import Bundle, BundleDiscovery
from pipeline.validation.policy import policy_for
from serve import judging
from serve.cli import outside
from serve.cli.lookup import find_project
from serve.cli.progress import Progress, progress

MAX_TABLES = 200
"""Names that a claim's bundle lists at most."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for on the command line."""

    claims: Path
    warehouse: str = ""
    databases: Path | None = None
    results: Path | None = None
    limit: int = 0
    model: str = ""
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Benched:
    """The scores, and what they are scores of."""

    request: Request
    model: ModelInfo
    report: BenchReport
    resumed: int
    """Claims that an earlier call had judged."""
    seconds: float

    def sentence(self) -> str:
        """The outcome for people."""
        who = "rules, no language model" if self.model.offline else self.model.provider
        score = self.report
        text = (
            f"{score.claims:,} claims judged by {self.model.model} ({who}): "
            f"accuracy {score.accuracy:.1%}, macro F1 {score.macro_f1:.1%}, "
            f"{score.queries_per_claim:.1f} queries and {score.tokens_per_claim:,.0f} tokens a "
            f"claim, {self.seconds:.0f} s."
        )
        if score.failed:
            text += f" {score.failed:,} of them could not be judged: the model or warehouse failed."
        return text

    def document(self) -> dict[str, Any]:
        """The one JSON document of ``--json``."""
        return {
            "file": str(self.request.claims),
            "warehouse": self.request.warehouse or str(self.request.databases),
            "model": {"provider": self.model.provider, "model": self.model.model},
            "resumed": self.resumed,
            "seconds": round(self.seconds, 2),
            **self.report.model_dump(mode="json"),
        }


async def bench_claims(settings: Settings, request: Request) -> Benched:
    """Judge every claim that the results file does not have, and score all.

    Raises ``BadRequest`` or ``NotFound`` for files, lines and names that are wrong before anything
    is judged, and ``ForOperator`` errors for a store, warehouse or model that cannot be used.
    """
    file = await asyncio.to_thread(_read, request)
    configs, llm = await _sources(settings, request)
    claims = file.about(configs[0].id) if configs else file.claims
    databases = await asyncio.to_thread(_databases, request, file, claims, configs)
    started = time.monotonic()
    async with judging.opened_model(judging.model_named(request.model, llm), settings) as model:
        agents = judging.AgentsByDatabase(databases, model, settings)
        try:
            with progress("Judging claims") as shown:
                report, resumed = await _judged(
                    settings, request, claims, agents, model.info, file.digest, shown
                )
        finally:
            await agents.close()
        return Benched(request, model.info, report, resumed, time.monotonic() - started)


# ---------------------------------------------------------------- what is judged


@dataclass(frozen=True, slots=True)
class _File:
    claims: list[LabelledClaim]
    lines: Mapping[str, int]
    """Line by claim id."""
    digest: str

    def about(self, database: str) -> list[LabelledClaim]:
        """The claims, with ``database`` where they name none."""
        given = {"database": database}
        return [c if c.database else c.model_copy(update=given) for c in self.claims]


def _read(request: Request) -> _File:
    raw = request.claims.read_bytes()
    try:
        lines = raw.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{request.claims} is not UTF-8 text: {error.reason}") from error
    claims = read_claims(lines, str(request.claims))
    numbers = (number for number, line in enumerate(lines, start=1) if line.strip())
    places = {claim.id: number for claim, number in zip(claims, numbers, strict=True)}
    return _File(claims[: request.limit or None], places, hashlib.sha256(raw).hexdigest())


async def _sources(
    settings: Settings, request: Request
) -> tuple[Sequence[WarehouseConfig], LlmConfig]:
    """The datasources that ``--warehouse`` names, and the model that goes with them."""
    if not request.warehouse:
        if request.databases is None:
            raise BadRequest("name what to ask: --warehouse, --database-dir or both")
        return (), LlmConfig()
    path = await asyncio.to_thread(lambda: Path(request.warehouse).expanduser())
    if await asyncio.to_thread(path.is_file):
        return (_file(DEFAULT_DATASOURCE, path, label=path.stem),), LlmConfig()
    if path.suffix:
        raise NotFound(f"there is no file {path}; correct --warehouse")
    async with outside.open_store(settings) as store:
        project = await find_project(store, request.warehouse)
    return project.datasources(), project.llm


def _file(name: str, path: Path, label: str = "") -> WarehouseConfig:
    return WarehouseConfig(id=name, label=label, config={"path": str(path.absolute())})


def _databases(
    request: Request,
    file: _File,
    claims: Sequence[LabelledClaim],
    configs: Sequence[WarehouseConfig],
) -> dict[str, WarehouseConfig]:
    """Every database that a claim is about, by the name that the claim gives it. Raises
    ``BadRequest`` with the line of the claim."""
    labelled = {config.label: config for config in configs if config.label}
    known = labelled | {config.id: config for config in configs}
    listed = _mapping(request.databases)
    for claim in claims:
        if claim.database not in known:
            path = _located(claim.database, request.databases, listed)
            if path is None:
                why = f"the database {claim.database!r} is not there"
                if not claim.database:
                    why = "it names no database, and there is no --warehouse"
                raise BadRequest(f"{request.claims}, line {file.lines[claim.id]}: {why}")
            known[claim.database] = _file(claim.database, path)
    names = dict.fromkeys(claim.database for claim in claims)
    return {name: known[name].model_copy(update={"id": name}) for name in names}


def _mapping(databases: Path | None) -> Mapping[str, str]:
    """A JSON file of paths by database; relative ones start from the file's folder."""
    if databases is None or databases.is_dir():
        return {}
    if not databases.is_file():
        raise NotFound(f"there is no folder or file {databases}; correct --database-dir")
    try:
        parsed: Any = json.loads(databases.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadRequest(f"{databases} is neither a folder nor a JSON file of paths") from error
    if not isinstance(parsed, dict):
        raise BadRequest(f"{databases} must hold one JSON object: database to path")
    return {k: str(databases.parent / str(v)) for k, v in cast("dict[str, Any]", parsed).items()}


def _located(name: str, folder: Path | None, listed: Mapping[str, str]) -> Path | None:
    if name in listed:
        return Path(listed[name])
    if folder is None or not name or Path(name).name != name:
        return None
    places = (folder / f"{name}.duckdb", folder / name / f"{name}.duckdb")
    return next((place for place in places if place.is_file()), None)


# ---------------------------------------------------------------- judging


async def _judged(
    settings: Settings,
    request: Request,
    claims: Sequence[LabelledClaim],
    agents: judging.AgentsByDatabase,
    model: ModelInfo,
    digest: str,
    shown: Progress,
) -> tuple[BenchReport, int]:
    results = ResultsFile(request.results) if request.results else None
    if results:
        await asyncio.to_thread(_continue, results, request, model, digest, shown)
    bundles = await _bundles(claims, agents)
    counted = 0

    async def heard(result: ClaimResult, done: int, total: int) -> None:
        nonlocal counted
        counted += 1
        mark = "right" if result.right else f"WRONG, it is {result.label}"
        shown.done(f"{result.combined} ({mark})  {result.claim}", done, total)

    report = await run_bench(
        claims,
        agents,
        lambda claim: bundles[claim.id],
        refuter_disabled=not settings.validation.VALIDATION_REFUTER_ENABLED,
        policy=policy_for(request.concurrency or settings.validation.VALIDATION_CONCURRENCY),
        results=results,
        progress=heard,
    )
    return report, len(claims) - counted


def _continue(
    results: ResultsFile, request: Request, model: ModelInfo, digest: str, shown: Progress
) -> None:
    """Check that earlier results may stand beside new ones. Raises ``BadRequest``."""
    now = {
        "model": f"{model.provider}:{model.model}",
        "warehouse": request.warehouse,
        "databases": str(request.databases or ""),
        "claims": digest,
    }
    before = results.made_with()
    for name in ("model", "warehouse", "databases"):
        if before and before.get(name) != now[name]:
            raise BadRequest(
                f"{request.results} holds results of another {name} ({before.get(name)!r}, now "
                f"{now[name]!r}); give another --results, or delete that file"
            )
    if before and before.get("claims") != digest:
        shown.note(f"{request.claims} has changed: new and changed claims are judged again.")
    if before != now:
        results.begin(now)


async def _bundles(
    claims: Sequence[LabelledClaim], agents: judging.AgentsByDatabase
) -> dict[str, Bundle]:
    """By claim id. Raises ``WarehouseUnavailable`` when a database cannot be opened."""
    discovery = BundleDiscovery(project_id="bench", language=DEFAULT_LANGUAGE)
    tables: dict[str, list[str]] = {}
    found: dict[str, Bundle] = {}
    for claim in claims:
        name, warehouse = claim.database, agents.warehouse(claim.database)
        if name not in tables:
            tables[name] = [table.name for table in await warehouse.tables()][:MAX_TABLES]
        found[claim.id] = claim_bundle(claim, {name: warehouse.info}, discovery, tables[name])
    return found
