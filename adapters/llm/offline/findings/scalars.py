"""Findings from results of one row: rates, outliers, orphans, duplicates, correlations."""

from __future__ import annotations

from adapters.llm.offline.findings.finding import (
    Evidence,
    Finding,
    Topic,
    percent,
    ratio,
    shown,
    whole_number,
    word,
)
from adapters.llm.offline.reading import Json, number_of

_ORDINARY = 0.95
"""A share above zero beyond this is no finding; nor is half, where nothing is below zero."""


def scalar(evidence: Evidence) -> Finding | None:
    """The finding of a result whose outputs have names that the explorer gives them."""
    row = evidence.rows[0]
    if len(evidence.rows) != 1 or len(evidence.shapes) != 1:
        return None
    for name, make in _READERS.items():
        if number_of(row.get(name)) is not None:
            return make(evidence, row)
    rate = next((m for m in evidence.shape.measures if m.name.startswith("rows_with_")), None)
    if rate is not None and rate.name not in {"rows_with_value", "rows_with_both"}:
        return _flag(evidence, row)
    return None


def _column(evidence: Evidence, name: str) -> str:
    """The column that an output reads, in words."""
    output = evidence.shape.measure(name)
    names = [c for c in output.columns if c not in {"fence", "k", "n"}] if output else []
    return names[0] if names else "the value"


def _outliers(evidence: Evidence, row: Json) -> Finding | None:
    count, whole = whole_number(row, "outlier_rows"), whole_number(row, "rows_with_value")
    column = _column(evidence, "rows_with_value")
    fence, top = row.get("upper_fence"), row.get("max_value")
    if count == 0 or whole == 0:
        return None
    share = percent(row.get("outlier_pct"))
    return Finding(
        Topic.OUTLIERS,
        f"{count} of {whole} rows of {evidence.table} have an extreme {column} ({share}):"
        f" above the upper fence of {shown(fence)}",
        f"{count} rows of {word(evidence.table)} have a {word(column)} far above the usual range",
        (
            f"They lie above the upper fence of {shown(fence)}, the third quartile plus three"
            " interquartile ranges",
            f"These are {share} of {whole} rows with a value",
            f"The maximum {word(column)} is {shown(top)}",
        ),
        count,
        min(1.0, 0.15 + 2 * ratio(count, whole)),
        whole,
        evidence,
        {"outlier_rows": count, "rows": whole, "upper_fence": fence, "max_value": top},
        f"{evidence.table} with an extreme {column}",
    )


def _above_zero(evidence: Evidence, row: Json) -> Finding | None:
    count, whole = whole_number(row, "rows_above_zero"), whole_number(row, "rows_with_value")
    column = _column(evidence, "rows_with_value")
    zero, below = whole_number(row, "rows_at_zero"), whole_number(row, "rows_below_zero")
    ordinary = _ORDINARY if below else 0.5
    if count == 0 or whole < 2 or ratio(count, whole) > ordinary:
        return None
    share = percent(row.get("above_zero_pct"))
    return Finding(
        Topic.RATE,
        f"{column} is above zero in {count} of {whole} rows of {evidence.table} ({share})",
        f"{word(column)} is above zero in {share} of the rows of {word(evidence.table)} that have"
        " a value",
        (
            f"That is {count} of {whole} rows",
            f"{word(column)} is exactly zero in {zero} rows and below zero in {below} rows",
        ),
        count,
        min(0.55, 0.15 + 0.6 * ratio(count, whole)),
        whole,
        evidence,
        {
            "rows_above_zero": count,
            "rows": whole,
            "rows_at_zero": zero,
            "rows_below_zero": below,
        },
        f"{evidence.table} with {column} above zero",
    )


def _flag(evidence: Evidence, row: Json) -> Finding | None:
    hits = next(
        m
        for m in evidence.shape.measures
        if m.name.startswith("rows_with_") and m.name != "rows_with_value"
    )
    count, whole = whole_number(row, hits.name), whole_number(row, "rows_with_value")
    column = _column(evidence, "rows_with_value")
    if whole == 0:
        return None
    share = percent(row.get("rate_pct"))
    return Finding(
        Topic.RATE,
        f"{column} is set in {count} of {whole} rows of {evidence.table} ({share})",
        f"{word(column)} is set in {share} of the rows of {word(evidence.table)} that have a value",
        (f"That is {count} of {whole} rows",),
        count,
        min(0.55, 0.15 + 0.6 * ratio(count, whole)),
        whole,
        evidence,
        {"rows_set": count, "rows": whole},
        f"{evidence.table} with {column} set",
    )


def _orphans(evidence: Evidence, row: Json) -> Finding | None:
    count, whole = whole_number(row, "orphan_rows"), whole_number(row, "rows_with_value")
    tables = evidence.shape.tables
    other = tables[1] if len(tables) > 1 else "the referenced table"
    column = next((c for c in _columns(evidence, "orphan_values") if c != "k"), "key")
    if whole == 0 or count == 0:
        return None
    share, values = percent(row.get("orphan_pct")), whole_number(row, "orphan_values")
    return Finding(
        Topic.BROKEN,
        f"{count} of {whole} rows of {evidence.table} have a {column} that is not in {other}"
        f" ({share})",
        f"{share} of the rows of {word(evidence.table)} point at a {word(column)} that"
        f" {word(other)} does not have",
        (
            f"{count} of {whole} rows are orphans",
            f"These rows hold {values} distinct values of {word(column)}",
            f"A report that joins both tables on {word(column)} loses these rows",
        ),
        count,
        min(1.0, 0.2 + ratio(count, whole)),
        whole,
        evidence,
        {
            "orphan_rows": count,
            "rows": whole,
            "orphan_values": values,
        },
        f"{evidence.table} with an unmatched {column}",
    )


def _columns(evidence: Evidence, name: str) -> tuple[str, ...]:
    output = evidence.shape.measure(name)
    return output.columns if output else ()


def _unused(evidence: Evidence, row: Json) -> Finding | None:
    count, whole = whole_number(row, "unused_rows"), whole_number(row, "rows_with_value")
    tables = evidence.shape.tables
    other = tables[1] if len(tables) > 1 else "the other table"
    if whole == 0 or count == 0:
        return None
    share = percent(row.get("unused_pct"))
    return Finding(
        Topic.BROKEN,
        f"{count} of {whole} rows of {evidence.table} are never used in {other} ({share})",
        f"{share} of the rows of {word(evidence.table)} never occur in {word(other)}",
        (f"That is {count} of {whole} rows",),
        count,
        min(0.5, 0.05 + 0.3 * ratio(count, whole)),
        whole,
        evidence,
        {"unused_rows": count, "rows": whole},
        f"unused rows of {evidence.table}",
    )


def _duplicates(evidence: Evidence, row: Json) -> Finding | None:
    count, distinct = whole_number(row, "duplicated_rows"), whole_number(row, "distinct_rows")
    if distinct < 2:
        return None
    most = whole_number(row, "most_copies")
    if count == 0:
        return Finding(
            Topic.BROKEN,
            f"No row of {evidence.table} is an exact copy of another: {distinct} distinct rows",
            f"{word(evidence.table)} has no exact duplicates",
            (f"{distinct} distinct rows were compared in all columns, 0 of them occur twice",),
            0,
            0.02,
            distinct,
            evidence,
            {"distinct_rows": distinct, "duplicated_rows": 0},
            evidence.table,
        )
    return Finding(
        Topic.BROKEN,
        f"{count} of {distinct} distinct rows of {evidence.table} occur more than once",
        f"{word(evidence.table)} holds exact duplicate rows",
        (
            f"{count} of {distinct} distinct rows have a copy that is equal in every column",
            f"The maximum number of copies is {most}",
        ),
        count,
        min(1.0, 0.25 + ratio(count, distinct)),
        distinct,
        evidence,
        {"duplicated_rows": count, "distinct_rows": distinct, "most_copies": most},
        f"duplicate rows of {evidence.table}",
    )


def _repeats(evidence: Evidence, row: Json) -> Finding | None:
    count, distinct = whole_number(row, "repeated_values"), whole_number(row, "distinct_values")
    if count == 0 or 2 * count > distinct:
        return None  # what mostly repeats was never meant to identify a row
    column = evidence.purpose.partition("values of ")[2].partition(" that occur")[0] or "the key"
    return Finding(
        Topic.BROKEN,
        f"{count} of {distinct} distinct values of {column} occur in more than one row of"
        f" {evidence.table}",
        f"{word(column)} does not identify a row of {word(evidence.table)}",
        (
            f"{count} of {distinct} distinct values occur more than once",
            f"The maximum is {whole_number(row, 'most_rows')} rows for one value",
        ),
        count,
        0.12,
        distinct,
        evidence,
        {"repeated_values": count, "distinct_values": distinct},
        f"{evidence.table} by {column}",
    )


def _correlation(evidence: Evidence, row: Json) -> Finding | None:
    value, rows = number_of(row.get("correlation")), whole_number(row, "rows_with_both")
    names = _columns(evidence, "correlation")
    if value is None or len(names) < 2 or rows < 30 or abs(value) < 0.3:
        return None
    first, second = names[:2]
    how = "together" if value > 0 else "in opposite directions"
    return Finding(
        Topic.RELATION,
        f"{first} and {second} of {evidence.table} move {how}: correlation {shown(value)} over"
        f" {rows} rows",
        f"{word(first)} and {word(second)} move {how}",
        (
            f"Their correlation is {shown(value)} over {rows} rows that have both",
            "A correlation does not say which one drives the other",
        ),
        rows,
        0.1 + 0.4 * abs(float(value)),
        rows,
        evidence,
        {"correlation": value, "rows": rows},
        f"{evidence.table} with {first} and {second}",
    )


def _together(evidence: Evidence, row: Json) -> Finding | None:
    both, whole = whole_number(row, "both_missing"), whole_number(row, "row_count")
    names = _columns(evidence, "both_missing")
    if both == 0 or len(names) < 2:
        return None
    first, second = names[:2]
    return Finding(
        Topic.GAPS,
        f"{first} and {second} are both missing in {both} of {whole} rows of {evidence.table}",
        f"Gaps of {word(first)} and {word(second)} fall together in {both} rows",
        (
            f"In {whole_number(row, 'only_first_missing')} rows only {word(first)} is missing, in"
            f" {whole_number(row, 'only_second_missing')} rows only {word(second)}",
        ),
        both,
        min(1.0, 0.05 + ratio(both, whole)),
        whole,
        evidence,
        {
            "both_missing": both,
            "only_first_missing": whole_number(row, "only_first_missing"),
            "only_second_missing": whole_number(row, "only_second_missing"),
            "rows": whole,
        },
        f"{evidence.table} without {first} and {second}",
    )


_READERS = {
    "outlier_rows": _outliers,
    "rows_above_zero": _above_zero,
    "orphan_rows": _orphans,
    "unused_rows": _unused,
    "duplicated_rows": _duplicates,
    "repeated_values": _repeats,
    "correlation": _correlation,
    "both_missing": _together,
}
