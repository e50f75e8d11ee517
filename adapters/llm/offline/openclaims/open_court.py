"""Judging a claim that cites no step: see the schema, ask one query, submit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from adapters.llm.offline.judging.steps import read_payload_rows
from adapters.llm.offline.openclaims.interpret import meanings
from adapters.llm.offline.openclaims.lexicon import words_in
from adapters.llm.offline.openclaims.meaning import Cell, Meaning, Measured, RankOf
from adapters.llm.offline.openclaims.vocabulary import PLAIN
from adapters.llm.offline.reading import (
    Hearing,
    Json,
    as_list,
    as_object,
    int_of,
    objects,
    text_of,
)
from adapters.llm.offline.schema import Column, TableInfo, kind_of
from adapters.llm.offline.sqltext import quote, render

_COLUMNS_SQL = """
SELECT table_schema, table_name, FLOOR((ordinal_position - 1) / 6) AS part,
STRING_AGG(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position) AS columns
FROM information_schema.columns
WHERE LOWER(table_schema) NOT IN ('information_schema', 'pg_catalog')
GROUP BY table_schema, table_name, FLOOR((ordinal_position - 1) / 6)
ORDER BY table_schema, table_name, part
"""
_LISTING = "information_schema.columns"
_LETTERS = ("e", "a", "s", "o", "r", "i")
_LOOKUP = 8


class OpenCourt:
    """Verifier or refuter over a bundle without steps."""

    def __init__(self, heard: Hearing, *, refute: bool) -> None:
        self.heard, self.refute = heard, refute
        self.doc = as_object(heard.bundle.get("doc"))
        self.warehouse = as_object(heard.bundle.get("warehouse"))
        self.dialect = text_of(self.warehouse.get("dialect")) or "duckdb"
        self.claims = self._claims()
        self.tables = self._tables()
        self.plans = [(claim, meanings(claim, self.tables)) for claim in self.claims]

    def _claims(self) -> list[str]:
        if self.refute and self.heard.prior_claims:
            return self.heard.prior_claims
        headline = text_of(self.doc.get("headline")) or text_of(self.doc.get("description"))
        return [headline]

    def move(self) -> Json:
        """The next envelope."""
        if not self.heard.forced:
            look = self._look()
            if look is not None:
                return look
            asked = {c.body for c in self.heard.calls if c.kind == "query_warehouse"}
            sql, names = self._question()
            if names and sql not in asked:
                return {"query_warehouse": sql}
            if self.refute and not self._any_rows() and "SELECT 1 AS one" not in asked:
                return {"query_warehouse": "SELECT 1 AS one"}
        return {"submit_verdict": self._verdict()}

    def _any_rows(self) -> bool:
        return any(read_payload_rows(c.result) for c in self.heard.calls)

    # ------------------------------------------------------------ the schema

    def _look(self) -> Json | None:
        """List all columns in one query; where that fails, look tables up by guessed names."""
        if self.tables:
            return None
        tried = [c.kind for c in self.heard.calls]
        named = [n for n in as_list(self.warehouse.get("tables")) if isinstance(n, str)]
        if "query_warehouse" not in tried:
            return {"query_warehouse": self._listing()}
        lookups = [c for c in self.heard.calls if c.kind == "lookup_schema"]
        if not lookups:
            guesses = [w for w, _ in words_in(" ".join(self.claims)) if w not in PLAIN]
            return {"lookup_schema": (named or [*dict.fromkeys(guesses), *_LETTERS])[:_LOOKUP]}
        if len(lookups) == 1:
            near = [
                n
                for e in objects(lookups[0].result.get("not_found"))
                for n in as_list(e.get("near"))
            ]
            names = [n for n in dict.fromkeys(near) if isinstance(n, str)]
            if names:
                return {"lookup_schema": names[:_LOOKUP]}
        return None

    def _listing(self) -> str:
        return render(_COLUMNS_SQL, self.dialect)

    def _tables(self) -> list[TableInfo]:
        found: dict[str, TableInfo] = {}
        for call in self.heard.calls:
            if call.kind == "lookup_schema":
                for entry in objects(call.result.get("tables")):
                    table = self._looked_up(entry)
                    found[table.name] = table
            elif call.kind == "query_warehouse" and _LISTING in str(call.body):
                for table in self._listed(read_payload_rows(call.result)):
                    found[table.name] = table
        return list(found.values())

    def _looked_up(self, entry: Json) -> TableInfo:
        columns = tuple(
            _column(text_of(c.get("name")), text_of(c.get("type")))
            for c in objects(entry.get("columns"))
        )
        name = text_of(entry.get("table"))
        return TableInfo(
            name, "default", self.dialect, int_of(entry.get("row_count"), -1), (), columns
        )

    def _listed(self, rows: Sequence[Json]) -> list[TableInfo]:
        columns: dict[str, list[Column]] = {}
        for row in rows:
            low = {k.lower(): v for k, v in row.items()}
            name = f"{low.get('table_schema')}.{low.get('table_name')}"
            for part in re.split(r", (?=\S+ [A-Z])", text_of(low.get("columns"))):
                label, _, kind = part.partition(" ")
                if label and kind and not kind.endswith("…"):
                    columns.setdefault(name, []).append(_column(label, kind))
        return [TableInfo(n, "default", self.dialect, -1, (), tuple(c)) for n, c in columns.items()]

    # ------------------------------------------------------------ asking

    def _question(self) -> tuple[str, dict[Cell, str]]:
        """One row with every cell of every reading of every claim."""
        names: dict[Cell, str] = {}
        outputs: list[str] = []
        for _, ways in self.plans:
            for cell in [c for way in ways for c in way.cells]:
                if cell in names:
                    continue
                names[cell] = _cell_name(cell, len(names) + 1)
                outputs.append(self._output(cell, names))
        return render(f"SELECT {', '.join(outputs)}", self.dialect), names

    def _row(self) -> Json:
        sql, _ = self._question()
        for call in self.heard.calls:
            if call.kind == "query_warehouse" and call.body == sql:
                rows = read_payload_rows(call.result)
                return rows[0] if rows else {}
        return {}

    # ------------------------------------------------------------ judging

    def _verdict(self) -> Json:
        row = self._row()
        verdicts = [
            self._judge(claim, ways, row, i == 0) for i, (claim, ways) in enumerate(self.plans)
        ]
        status = verdicts[0]["status"] if verdicts else "unverifiable"
        return {
            "doc_id": text_of(self.doc.get("id")),
            "doc_kind": text_of(self.doc.get("kind")) or "insight",
            "mode": "refuter" if self.refute else "verifier",
            "claims_considered": self.claims,
            "claim_verdicts": verdicts,
            "overall": status,
            "overall_reason": verdicts[0]["reasoning"] if verdicts else "There is no claim.",
        }

    def _judge(self, claim: str, ways: Sequence[Meaning], row: Json, headline: bool) -> Json:
        _, names = self._question()
        status, reasoning = "unverifiable", self._why_open(ways)
        evidence: Json = {"kind": "none"}
        for way in ways if row else ():
            outcome = way.outcome(row, names)
            if not outcome:
                continue
            status = self._status(outcome)
            cells = {names[c]: row.get(names[c]) for c in way.cells}
            evidence = {
                "kind": "warehouse_query",
                "query_sql": self._only(way, names),
                "row": cells,
                "additional_rows": 0,
            }
            reasoning = _reason(status, cells)
            break
        return {
            "claim_text": claim,
            "claim_kind": "headline" if headline else "statement",
            "is_headline": headline,
            "status": status,
            "reasoning": reasoning,
            "evidence": evidence,
        }

    def _only(self, way: Meaning, names: dict[Cell, str]) -> str:
        """The part of the question that gives one reading's cells."""
        outputs = [self._output(c, names) for c in way.cells]
        return render(f"SELECT {', '.join(outputs)}", self.dialect)

    def _output(self, cell: Cell, names: dict[Cell, str]) -> str:
        sql = cell.sql(refute=self.refute) if isinstance(cell, Measured) else cell.sql()
        return f"{sql} AS {quote(names[cell])}"

    def _status(self, outcome: str) -> str:
        if outcome == "wrong":
            return "rejected"
        return "confirmed" if outcome == "exact" and not self.refute else "supported"

    def _why_open(self, ways: Sequence[Meaning]) -> str:
        if not self.tables:
            return "The schema could not be seen, so nothing could be asked."
        if not ways:
            return "Nothing in the schema says what this claim speaks of, or rows cannot settle it."
        return "The data has no rows of what this claim names."


def _column(name: str, type_name: str) -> Column:
    return Column(name, type_name, kind_of(type_name))


def _cell_name(cell: Cell, number: int) -> str:
    if isinstance(cell, RankOf):
        return f"groups_level_or_beyond_{number}"
    column = re.sub(r"\W+", "_", cell.metric.column)
    return "_".join(p for p in (cell.metric.kind, column, str(number)) if p)


def _reason(status: str, cells: Json) -> str:
    shown = ", ".join(f"{k} = {v}" for k, v in cells.items())
    verb = {"rejected": "contradicts", "confirmed": "confirms"}.get(status, "bears out")
    return f"A query over the whole table {verb} the claim: {shown}."
