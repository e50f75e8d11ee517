"""What the report says, as plain values that a template only has to lay out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeline.records import (
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    Insight,
    Project,
    Recommendation,
    Status,
)
from serve.report.charts import About, ChartSpec, chart_for
from serve.report.checks import Check, check
from serve.report.numbers import Cell, cell, plural, spoken
from serve.wording import (
    SEVERITY_ORDER,
    StatusMeta,
    Tone,
    model_words,
    status_meta,
    validation_meta,
)

PREVIEW_ROWS = 8


@dataclass(frozen=True, slots=True)
class Link:
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    insight: Insight
    anchor: str
    text: str
    area: str
    check: Check
    chart: ChartSpec | None
    facts: list[tuple[str, Cell]]
    indicators: list[str]
    """Those that the text does not say already."""
    caveats: list[str]
    steps: list[int]
    used_by: list[Link]


@dataclass(frozen=True, slots=True)
class Advice:
    record: Recommendation
    anchor: str
    text: str
    check: Check
    impact: list[tuple[str, str]]
    rests_on: list[Link]


@dataclass(frozen=True, slots=True)
class Query:
    step: ExplorationStep
    columns: list[str]
    rows: list[dict[str, Any]]
    cells: list[list[Cell]]
    more: int
    caveats: list[str]
    cited_by: list[Link]


@dataclass(frozen=True, slots=True)
class Area:
    id: str
    name: str
    description: str
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class Page:
    project: Project
    run: DiscoveryRun
    result: DiscoveryResult
    date: datetime
    warehouse: str
    written_by: str
    offline: bool
    areas: list[Area]
    advice: list[Advice]
    queries: list[Query]
    other_steps: list[ExplorationStep]
    claims_held: int
    claims_total: int
    queries_run: int
    queries_failed: int
    rows_read: int
    statuses: list[tuple[StatusMeta, int, int]]
    """Per combined status: insights and recommendations."""
    severities: list[tuple[str, int]]
    examined: str
    """What was examined, when the discovery's own summary does not say it."""
    checking: str
    """How the findings were checked, in sentences that hold for this run."""
    tables: list[str] = field(default_factory=list[str])

    @property
    def to_do(self) -> list[Advice]:
        """The recommendations that the data does not contradict."""
        return [advice for advice in self.advice if advice.check.meta.tone is not Tone.BAD]

    @property
    def findings(self) -> list[Finding]:
        """Of all areas, in order of weight."""
        return sorted((f for area in self.areas for f in area.findings), key=_rank)


def build(
    project: Project, run: DiscoveryRun, result: DiscoveryResult, steps: Sequence[ExplorationStep]
) -> Page:
    """Gather everything that the report shows, in the order it shows it."""
    by_number = {step.step: step for step in steps}
    advice = [_advice(r, n, result, by_number) for n, r in enumerate(result.recommendations, 1)]
    advice.sort(key=lambda a: (a.check.meta.tone is Tone.BAD, a.record.priority))
    findings = [_finding(insight, by_number, advice, project) for insight in result.insights]
    findings.sort(key=_rank)
    claims = [c for check in (f.check for f in findings) for c in check.claims]
    asked = [step for step in steps if step.query]
    counts = Counter(f.insight.severity for f in findings)
    return Page(
        project=project,
        run=run,
        result=result,
        date=result.discovery_date,
        warehouse=_warehouse(project),
        written_by=model_words(result.llm_provider, result.llm_model),
        offline=result.llm_provider in ("", "offline"),
        areas=_areas(project, findings),
        advice=advice,
        queries=[_query(step, findings) for step in asked],
        other_steps=[step for step in steps if not step.query],
        claims_held=sum(claim.held for claim in claims),
        claims_total=len(claims),
        queries_run=len(asked),
        queries_failed=sum(1 for step in asked if step.error),
        rows_read=sum(step.row_count for step in asked),
        statuses=_statuses(result),
        severities=[(s.value, counts[s]) for s in SEVERITY_ORDER if counts[s]],
        examined=_examined(run, result),
        checking=_checking(result),
        tables=sorted(result.schemas),
    )


# ---------------------------------------------------------------- insights and recommendations


def _rank(finding: Finding) -> tuple[bool, int, int]:
    """What the data contradicts comes last; else by severity, then by how many are affected."""
    insight = finding.insight
    rejected = finding.check.meta.tone is Tone.BAD
    return rejected, SEVERITY_ORDER[insight.severity], -insight.affected_count


def _finding(
    insight: Insight, steps: Mapping[int, ExplorationStep], advice: list[Advice], project: Project
) -> Finding:
    cited = [steps[n] for n in insight.source_steps if n in steps]
    told = f"{insight.name} {insight.description}".lower()
    return Finding(
        insight=insight,
        anchor=insight_anchor(insight),
        text=insight.description_md or insight.description,
        area=_area_name(project, insight.analysis_area),
        check=check(insight.validation, steps),
        chart=_chart(insight, cited),
        facts=_facts(insight),
        indicators=[i for i in insight.indicators if i.rstrip(" .").lower() not in told],
        caveats=sorted({_caveat(q.kind.value, q.detail) for step in cited for q in step.quality}),
        steps=[step.step for step in cited],
        used_by=[
            Link(a.anchor, a.record.title)
            for a in advice
            if {insight.id, insight.ref} & set(a.record.related_insight_ids)
        ],
    )


def _chart(insight: Insight, cited: Iterable[ExplorationStep]) -> ChartSpec | None:
    about = About(
        text=" ".join([insight.name, insight.description, *insight.indicators]),
        subject=f"{insight.name} {insight.target_segment}",
        figures=tuple(insight.metrics),
    )
    return next((c for step in cited if (c := chart_for(step, about)) is not None), None)


def _facts(insight: Insight) -> list[tuple[str, Cell]]:
    return [(spoken(name), cell(value, name)) for name, value in insight.metrics.items()]


def _advice(
    record: Recommendation,
    number: int,
    result: DiscoveryResult,
    steps: Mapping[int, ExplorationStep],
) -> Advice:
    named = {key: i for i in result.insights for key in (i.id, i.ref)}
    rests_on = [named[id_] for id_ in record.related_insight_ids if id_ in named]
    impact = [
        (spoken(name), str(value)) for name, value in record.expected_impact if str(value).strip()
    ]
    return Advice(
        record=record,
        anchor=f"recommendation-{number}",
        text=record.description_md or record.description,
        check=check(record.validation, steps),
        impact=impact,
        rests_on=[Link(insight_anchor(i), i.name) for i in rests_on],
    )


def insight_anchor(insight: Insight) -> str:
    """A name for links: letters, digits and dashes only."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" for c in insight.ref)
    return f"insight-{safe or insight.id}"


# ---------------------------------------------------------------- method, queries, scorecard


def _areas(project: Project, findings: list[Finding]) -> list[Area]:
    configured = project.areas()
    ids = sorted(configured, key=lambda id_: configured[id_].priority)
    ids += [f.insight.analysis_area for f in findings if f.insight.analysis_area not in configured]
    areas: list[Area] = []
    for id_ in dict.fromkeys(ids):
        mine = [f for f in findings if f.insight.analysis_area == id_]
        about = configured[id_].description if id_ in configured else ""
        if mine:
            areas.append(Area(id_, _area_name(project, id_), about, mine))
    return areas


def _area_name(project: Project, area_id: str) -> str:
    area = project.areas().get(area_id)
    return area.name if area else spoken(area_id).capitalize()


def _query(step: ExplorationStep, findings: list[Finding]) -> Query:
    rows = step.query_result[:PREVIEW_ROWS]
    columns = step.result_columns or (list(rows[0]) if rows else [])
    return Query(
        step=step,
        columns=columns,
        rows=rows,
        cells=[[cell(row.get(column), column) for column in columns] for row in rows],
        more=max(0, step.row_count - len(rows)),
        caveats=[_caveat(q.kind.value, q.detail) for q in step.quality],
        cited_by=[Link(f.anchor, f.insight.name) for f in findings if step.step in f.steps],
    )


def _caveat(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def _statuses(result: DiscoveryResult) -> list[tuple[StatusMeta, int, int]]:
    insights = Counter(validation_meta(i.validation).label for i in result.insights)
    advice = Counter(validation_meta(r.validation).label for r in result.recommendations)
    metas = {
        validation_meta(doc.validation).label: validation_meta(doc.validation)
        for doc in [*result.insights, *result.recommendations]
    }
    order = [status_meta(status).label for status in Status] + [status_meta(None).label]
    shown = [label for label in order if label in metas]
    return [(metas[label], insights[label], advice[label]) for label in shown]


def _warehouse(project: Project) -> str:
    named = [
        w.label or str(w.config.get("path") or "").rsplit("/", 1)[-1] or w.provider
        for w in project.datasources()
    ]
    return ", ".join(named) or "no warehouse"


def _checking(result: DiscoveryResult) -> str:
    judged = [i.validation for i in result.insights if i.validation and i.validation.verifier]
    refuted = [validation for validation in judged if validation.refuter]
    if not judged:
        return "No finding was checked against the data in this run."
    every = len(judged) == len(result.insights)
    which = "Every finding" if every else f"{len(judged)} of {len(result.insights)} findings"
    were = "was" if every or len(judged) == 1 else "were"
    prover = "a verifier that looks for rows that prove each claim"
    if not refuted:
        how = f"put to {prover}; no one tried to refute it"
    elif len(refuted) < len(judged):
        how = (
            f"put to {prover}, and {len(refuted)} of them to a refuter that looks for the opposite"
        )
    else:
        how = f"put to {prover} and a refuter that looks for rows that contradict it"
    return f"{which} {were} {how}. Fixed rules, not a model, decide what the verdicts amount to."


def _examined(run: DiscoveryRun, result: DiscoveryResult) -> str:
    tables = len(result.schemas) or run.schema_table_count
    steps = result.total_steps
    return f"Examined {plural(tables, 'table')} in {plural(steps, 'step')}."
