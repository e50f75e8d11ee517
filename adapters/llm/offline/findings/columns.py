"""Findings from results with one row for each column: gaps, placeholders, ranges."""

from __future__ import annotations

from adapters.llm.offline.findings.finding import (
    Evidence,
    Finding,
    Topic,
    column_name,
    percent,
    ratio,
    shown,
    whole_number,
    word,
)
from adapters.llm.offline.reading import Json, number_of, text_of


def branches(evidence: Evidence) -> Finding | None:
    """The finding of a result that has one row for each column."""
    row = evidence.rows[0]
    if "missing_rows" in row:
        return _missing(evidence)
    if "placeholder_rows" in row:
        return _placeholders(evidence)
    if "p99_value" in row:
        return _range(evidence)
    return None


def _branch_name(evidence: Evidence, row: Json) -> str:
    names = list(evidence.shape.literals)
    return column_name(text_of(row.get(names[0]))) if names and row.get(names[0]) else ""


def _marked(column: str) -> str:
    """A column in Markdown, with or without its introduction."""
    head, space, name = column.rpartition(" ") if column.startswith("column ") else ("", "", column)
    return f"{head}{space}{word(name)}"


def _missing(evidence: Evidence) -> Finding | None:
    rows = sorted(
        evidence.rows, key=lambda r: (-whole_number(r, "missing_rows"), _branch_name(evidence, r))
    )
    top = rows[0]
    column, count, whole = (
        _branch_name(evidence, top),
        whole_number(top, "missing_rows"),
        whole_number(top, "row_count"),
    )
    if not column or whole < 2:
        return None
    if count == 0:
        return Finding(
            Topic.GAPS,
            f"{column} has no missing values in {whole} rows of {evidence.table}, nor has any other"
            " column that was checked",
            f"{word(evidence.table)} has no gaps in the columns that were checked",
            (f"{_marked(column)} is missing in 0 of {whole} rows",),
            0,
            0.03,
            whole,
            evidence,
            {"missing_rows": 0, "rows": whole},
            evidence.table,
        )
    share = percent(top.get("missing_pct"))
    sentences = [f"That is {count} of {whole} rows"]
    for other in rows[1:4]:
        gaps, rows_seen = whole_number(other, "missing_rows"), whole_number(other, "row_count")
        if gaps:
            sentences.append(
                f"{_marked(_branch_name(evidence, other))} is missing in {gaps} of {rows_seen} rows"
                f" ({percent(other.get('missing_pct'))})"
            )
    return Finding(
        Topic.GAPS,
        f"{column} is missing in {count} of {whole} rows of {evidence.table} ({share})",
        f"{_marked(column)} is missing in {share} of the rows of {word(evidence.table)}",
        tuple(sentences),
        count,
        min(1.0, 0.18 + ratio(count, whole)),
        whole,
        evidence,
        {
            f"missing_{_branch_name(evidence, r)}": whole_number(r, "missing_rows")
            for r in rows[:4]
            if whole_number(r, "missing_rows")
        }
        | {"rows": whole},
        f"{evidence.table} without {column}",
    )


def _placeholders(evidence: Evidence) -> Finding | None:
    top = max(evidence.rows, key=lambda r: whole_number(r, "placeholder_rows"))
    count, whole = whole_number(top, "placeholder_rows"), whole_number(top, "rows_with_value")
    column = _branch_name(evidence, top)
    if count == 0 or not column:
        return None
    return Finding(
        Topic.BROKEN,
        f"{column} holds a blank or placeholder text in {count} of {whole} rows of"
        f" {evidence.table}",
        f"{_marked(column)} of {word(evidence.table)} holds placeholders in place of values",
        (f"{count} of {whole} rows with a value are blank or a word such as unknown",),
        count,
        min(1.0, 0.15 + ratio(count, whole)),
        whole,
        evidence,
        {"placeholder_rows": count, "rows": whole},
        f"{evidence.table} with a placeholder in {column}",
    )


def _range(evidence: Evidence) -> Finding | None:
    """The measure whose maximum is farthest above its 99th percentile."""

    def stretch(row: Json) -> float:
        high, bulk = number_of(row.get("max_value")), number_of(row.get("p99_value"))
        return ratio(high, bulk) if high is not None and bulk and bulk > 0 else 0.0

    top = max(evidence.rows, key=stretch)
    column, rows = _branch_name(evidence, top), whole_number(top, "row_count")
    if not column or stretch(top) < 1.5 or rows < 30:
        return None
    return Finding(
        Topic.OUTLIERS,
        f"The maximum {column} of {evidence.table} is {shown(top['max_value'])}, while its 99th"
        f" percentile is {shown(top['p99_value'])}",
        f"The maximum {_marked(column)} lies far beyond the bulk of its values:"
        f" {shown(top['max_value'])}",
        (
            f"The median {_marked(column)} is {shown(top['median_value'])} and the average"
            f" {_marked(column)} is {shown(top['avg_value'])} over {rows} rows",
        ),
        rows,
        min(0.6, 0.1 + 0.05 * stretch(top)),
        rows,
        evidence,
        {
            "max_value": top["max_value"],
            "p99_value": top["p99_value"],
            "median_value": top["median_value"],
            "avg_value": top["avg_value"],
        },
        f"{evidence.table} with an extreme {column}",
    )
