"""``veridical bench``: how well verifier and refuter judge claims whose truth is known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serve.cli.options import Concurrency, Home, Json, ModelSpec, settings_for

if TYPE_CHECKING:
    from pipeline.validation.bench import BenchReport

group = typer.Typer(no_args_is_help=True)
SHOWN_MISTAKES = 10


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="bench")


@group.callback()
def bench() -> None:
    """Measure how well claims are judged."""


@group.command()
def claims(
    file: Annotated[
        Path,
        typer.Option("--claims", metavar="FILE.jsonl", help="One claim a line, with its label."),
    ],
    warehouse: Annotated[
        str,
        typer.Option("--warehouse", metavar="PATH|PROJECT", help="A DuckDB file or a project."),
    ] = "",
    database_dir: Annotated[
        Path | None,
        typer.Option(
            "--database-dir",
            metavar="DIR",
            help="Where a claim's database is: DIR/<database>.duckdb, or a JSON file of paths.",
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE.jsonl", help="Keep results; go on where it was."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Only the first N; 0: all.")] = 0,
    model: ModelSpec = "",
    concurrency: Concurrency = None,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Judge labelled claims and score what comes out.

    A line holds claim, label (entailed, contradicted or not-enough-info) and optionally id,
    database and kind. Confirmed and supported count as entailed, rejected as contradicted, partial
    and unverifiable as not enough. The agents get the claim and the names of the tables, no steps.

    \b
    Examples:
      veridical bench claims --claims claims.jsonl --warehouse shop.duckdb
      veridical bench claims --claims dev.jsonl --database-dir databases --results dev.out.jsonl
      veridical bench claims --claims claims.jsonl --warehouse Shop --model anthropic --json
    """
    from serve.cli import benching, said

    request = benching.Request(
        claims=file,
        warehouse=warehouse,
        databases=database_dir,
        results=results,
        limit=limit,
        model=model,
        concurrency=concurrency,
    )
    done = asyncio.run(benching.bench_claims(settings_for(home), request))
    if as_json:
        said.document(done.document())
    else:
        said.line(done.sentence())
        tell(done.report)


def tell(report: BenchReport) -> None:
    """The scores as tables."""
    from serve.cli import said

    labels = list(report.confusion)
    said.table(
        "Labels (rows) and verdicts (columns)",
        ["Label", *(f"#{label}" for label in labels), "#Precision", "#Recall", "#F1"],
        [
            [
                label,
                *(f"{report.confusion[label][other]:,}" for other in labels),
                *(f"{value:.1%}" for value in (score.precision, score.recall, score.f1)),
            ]
            for label, score in report.classes.items()
        ],
    )
    statuses = list(next(iter(report.statuses.values())))
    said.table(
        "Combined status by label",
        ["Label", *(f"#{status}" for status in statuses)],
        [[label, *(f"{row[s]:,}" for s in statuses)] for label, row in report.statuses.items()],
    )
    if report.kinds:
        rows = [[kind, f"{k.right:,}", f"{k.claims:,}"] for kind, k in report.kinds.items()]
        said.table("By kind", ["Kind", "#Right", "#Claims"], rows)
    if report.wrong:
        wrong = [[w.id, w.label, w.predicted, w.claim] for w in report.wrong[:SHOWN_MISTAKES]]
        title = f"Wrong: the first {len(wrong)} of {len(report.wrong):,}"
        said.table(title, ["Id", "Label", "Judged", "Claim"], wrong)
