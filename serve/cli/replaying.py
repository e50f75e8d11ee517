"""Judging a stored discovery again: what is read, who judges, what is written back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.errors import BadRequest, NotFound
from pipeline.ports import ModelInfo
from pipeline.project_prompts import DEFAULT_LANGUAGE
from pipeline.records import DiscoveryResult, Insight, Project, Recommendation
from pipeline.validation.breakdown import breakdown
from pipeline.validation.bundle import BundleDiscovery, BundleSource
from pipeline.validation.phase import Judged, Listener, Validator
from pipeline.validation.policy import policy_for
from pipeline.validation.replay import Replayed, as_stored, replay
from pipeline.validation.step_rows import StepSnapshot
from serve import judging
from serve.cli import outside
from serve.cli.lookup import find_discovery, find_project
from serve.cli.progress import Progress, progress
from serve.report.numbers import plural

if TYPE_CHECKING:
    from adapters.store import Store
    from pipeline.settings import Settings


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for on the command line."""

    discovery: str
    project: str = ""
    insights: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()
    model: str = ""
    """``PROVIDER[:MODEL]``; empty: the project's."""
    save: bool = False
    concurrency: int | None = None
    """None: VALIDATION_CONCURRENCY."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What came out, in the order in which the documents were judged."""

    discovery: DiscoveryResult
    model: ModelInfo
    replayed: list[Replayed]
    saved: bool

    def label(self, each: Replayed) -> str:
        """What the tables call a document."""
        return each.doc.ref if isinstance(each.doc, Insight) else each.doc.id[:8]

    def name(self, each: Replayed) -> str:
        """Its headline."""
        return each.doc.name if isinstance(each.doc, Insight) else each.doc.title

    @property
    def unjudged(self) -> list[Replayed]:
        """Those over which the model or an agent failed; they are never saved."""
        return [each for each in self.replayed if breakdown(each.after)]

    def sentence(self) -> str:
        """The outcome for people."""
        moved = sum(any(c.what == "combined" for c in each.changes) for each in self.replayed)
        text = f"{moved} of {plural(len(self.replayed), 'document')} came out differently."
        if self.unjudged:
            text += (
                f" {len(self.unjudged)} could not be judged: {breakdown(self.unjudged[0].after)}"
            )
        return f"{text} {'Saved.' if self.saved else 'Nothing was saved (--save does that).'}"

    def document(self) -> dict[str, Any]:
        """The one JSON document of ``--json``."""
        return {
            "discovery": {
                "id": self.discovery.id,
                "project_id": self.discovery.project_id,
                "run_id": self.discovery.run_id,
            },
            "model": {"provider": self.model.provider, "model": self.model.model},
            "saved": self.saved,
            "replayed": [self._entry(each) for each in self.replayed],
        }

    def _entry(self, each: Replayed) -> dict[str, Any]:
        return {
            "id": each.doc.id,
            "ref": each.doc.ref if isinstance(each.doc, Insight) else "",
            "kind": each.row.doc_kind.value,
            "name": self.name(each),
            "before": each.before.model_dump(mode="json") if each.before else None,
            "after": each.after.model_dump(mode="json"),
            "changes": [
                {"what": c.what, "before": c.before, "after": c.after} for c in each.changes
            ],
            "breakdown": breakdown(each.after),
        }


async def replay_discovery(settings: Settings, request: Request) -> Replay:
    """Judge the documents that were asked for, all by default, and save if that was asked for.

    Raises ``NotFound`` and ``BadRequest`` for what does not exist, ``ForOperator`` errors for a
    store, warehouse or model that cannot be used.
    """
    async with outside.open_store(settings) as store:
        only = await find_project(store, request.project) if request.project else None
        found = await find_discovery(store, request.discovery, only)
        project = await store.projects.get(found.project_id)
        picks = [_picked(found.insights, "insight", key) for key in request.insights]
        picks += [
            _picked(found.recommendations, "recommendation", key) for key in request.recommendations
        ]
        with progress("Judging again") as shown:
            done = await _judged(settings, store, project, found, picks, request, shown)
        if request.save:
            await _save(store, done)
    return done


def _picked(docs: list[Insight] | list[Recommendation], kind: str, key: str) -> str:
    """The id of the document with that id or ref, or the only one whose id starts so."""
    exact = [doc.id for doc in docs if key in (doc.id, getattr(doc, "ref", None))]
    found = exact or [doc.id for doc in docs if key and doc.id.startswith(key)]
    if not found:
        raise NotFound(f"this discovery has no {kind} {key!r}")
    if len(found) > 1:
        raise BadRequest(f"{len(found)} of the {kind}s are meant by {key!r}; give more of the id")
    return found[0]


async def _judged(
    settings: Settings,
    store: Store,
    project: Project,
    found: DiscoveryResult,
    picks: list[str],
    request: Request,
    shown: Progress,
) -> Replay:
    steps = as_stored(await store.exploration_steps.of(found.id))
    llm = judging.model_named(request.model, project.llm)
    limit = request.concurrency or settings.validation.VALIDATION_CONCURRENCY
    async with (
        judging.opened_warehouses(project.datasources(), settings.warehouse) as warehouses,
        judging.opened_model(llm, settings) as model,
    ):
        rows = StepSnapshot(steps, {})
        source = BundleSource(
            steps=steps,
            results={},
            warehouses={name: each.info for name, each in warehouses.items()},
            discovery=BundleDiscovery(
                project_id=found.project_id,
                run_id=found.run_id,
                domain=found.domain,
                language=project.language or DEFAULT_LANGUAGE,
            ),
            settings=settings.validation,
        )
        validator = Validator(
            source=source,
            agents=judging.local_agents(model, warehouses, rows, settings.validation),
            settings=settings.validation,
            policy=policy_for(limit),
            listener=_listener(shown, len(picks) or _documents(found)),
        )
        shown.note(_opening(found, model.info, len(steps)))
        replayed = await replay(found, validator, only=picks)
        return Replay(found, model.info, replayed, saved=request.save)


def _opening(found: DiscoveryResult, model: ModelInfo, steps: int) -> str:
    """What is about to happen, without Ray and without exploring."""
    kept = f"over its {plural(steps, 'stored step')}" if steps else "without stored steps"
    return (
        f"Judging discovery {found.id} again {kept}, in this process: {model.model} "
        f"({model.provider}), no Ray, no exploration."
    )


def _documents(found: DiscoveryResult) -> int:
    return len(found.insights) + len(found.recommendations)


def _listener(shown: Progress, total: int) -> Listener:
    count = 0

    async def heard(judged: Judged) -> None:
        nonlocal count
        count += 1
        name = judged.doc.name if isinstance(judged.doc, Insight) else judged.doc.title
        shown.done(f"{judged.validation.combined or ''}  {name}", count, total)

    return heard


async def _save(store: Store, done: Replay) -> None:
    """Stamp each document by itself, then its log row; what was not judged is left as it was."""
    for each in done.replayed:
        if not breakdown(each.after):
            kind = each.row.doc_kind
            await store.discoveries.save_validation(
                done.discovery.id, kind, each.doc.id, each.after
            )
            await store.validation_results.append(done.discovery, [each.row])
