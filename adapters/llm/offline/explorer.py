"""The explorer: looks tables up, then asks its questions one by one, most telling ones first.

Nothing is remembered between calls: what was asked and what came back is read from the
conversation, and the agenda is drawn up again from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from adapters.llm.offline.agenda import agenda, plain_looks
from adapters.llm.offline.questions import Question
from adapters.llm.offline.questions.profile import facts_from, shape
from adapters.llm.offline.reading import (
    Json,
    Turn,
    as_list,
    as_object,
    exploration_turns,
    find_payload,
    find_text,
    int_of,
    objects,
    text_of,
)
from adapters.llm.offline.schema import (
    Facts,
    TableInfo,
    largest_first,
    parse_catalog,
    shown_name,
    with_lookup,
)
from adapters.llm.offline.sqltext import reference
from pipeline.ports import ChatRequest

Queries = Sequence[tuple[str, str]]
"""Datasource and SQL of each."""
LOOKUP = 10
_FAILURES = 2
"""Failed questions after which a table is left alone that has answered none."""
_EARLY_LOOKUPS = 2


@dataclass(frozen=True, slots=True)
class Findings:
    """Where the exploration stands."""

    tables: list[TableInfo]
    facts: dict[str, Facts]
    asked: frozenset[tuple[str, str]]
    """Datasource and SQL of each."""
    looked_up: frozenset[str]
    lookups_left: int
    steps_left: int
    queries: int
    failures: int
    unreadable: frozenset[str]
    """Tables that no question has been answered of, and that two have failed of."""
    rejected: bool
    """True when the last ``done`` was refused."""
    previous: str


def next_action(request: ChatRequest) -> Json:
    """The next action in the explorer's grammar."""
    state = read_state(request)
    if not state.tables:
        return _done("The catalog names no table, so there is nothing to ask.")
    if state.steps_left <= 1 and not state.rejected:
        return _done(_summary(state))
    lookup = _lookup(state)
    if lookup and (not state.looked_up or _early(state)):
        return lookup
    for question in _agenda(state):
        if (question.datasource_id, question.sql) not in state.asked:
            return _query(question)
    if lookup:
        return lookup
    spare = _spare(state) if state.rejected else None
    return _query(spare) if spare else _done(_summary(state))


def read_state(request: ChatRequest) -> Findings:
    """Read the whole conversation into what is known."""
    listed = parse_catalog(find_text(request, "catalog"))
    tables = {_key(t.datasource_id, t.shown): t for t in listed}
    budget = as_object(find_payload(request, "budget"))
    steps_left = int_of(budget.get("max_steps"), 40)
    lookups_left = int_of(budget.get("lookup_calls"), 30)
    facts: dict[str, Facts] = {}
    asked: set[tuple[str, str]] = set()
    looked_up: set[str] = set()
    failed: list[tuple[str, str]] = []
    answered: list[tuple[str, str]] = []
    rejected = False
    for turn in exploration_turns(request):
        steps_left = int_of(turn.result.get("steps_left"), steps_left)
        rejected = text_of(turn.result.get("action")) == "complete_rejected"
        source = text_of(turn.action.get("datasource_id")) or "default"
        if sql := text_of(turn.action.get("query")):
            asked.add((source, sql))
            (answered if turn.result.get("ok") else failed).append((source, sql))
            _learn(turn, tables, facts)
        wanted = [n for n in as_list(turn.action.get("lookup_schema")) if isinstance(n, str)]
        if wanted:
            looked_up.update(_key(source, n) for n in wanted)
            lookups_left = int_of(turn.result.get("calls_left"), lookups_left - 1)
            _take_lookup(turn, source, tables)
    return Findings(
        largest_first(list(tables.values())),
        facts,
        frozenset(asked),
        frozenset(looked_up),
        lookups_left,
        steps_left,
        len(answered),
        len(failed),
        _unreadable(tables.values(), failed, answered),
        rejected,
        find_text(request, "previous_context"),
    )


def _key(source: str, table: str) -> str:
    return f"{source} {table}"


def _take_lookup(turn: Turn, source: str, tables: dict[str, TableInfo]) -> None:
    for entry in objects(turn.result.get("tables")):
        key = _key(source, shown_name(text_of(entry.get("table"))))
        if key in tables:
            tables[key] = with_lookup(tables[key], entry)


def _unreadable(tables: Iterable[TableInfo], failed: Queries, answered: Queries) -> frozenset[str]:
    counts: Counter[str] = Counter()
    for table in tables if len(failed) >= _FAILURES else ():
        if table.columns and not _about(table, answered):
            counts[_key(table.datasource_id, table.name)] = _about(table, failed)
    return frozenset(key for key, count in counts.items() if count >= _FAILURES)


def _about(table: TableInfo, queries: Queries) -> int:
    """How many of the queries read the table."""
    named = reference(table)
    return sum(source == table.datasource_id and named in sql for source, sql in queries)


def _readable(state: Findings) -> list[TableInfo]:
    return [
        t
        for t in state.tables
        if t.readable and _key(t.datasource_id, t.name) not in state.unreadable
    ]


def _learn(turn: Turn, tables: dict[str, TableInfo], facts: dict[str, Facts]) -> None:
    """Keep the answer of a profile query as facts of its table."""
    names = [n for n in as_list(turn.result.get("columns")) if isinstance(n, str)]
    rows = as_list(turn.result.get("rows"))
    if not turn.result.get("ok") or len(rows) != 1 or "row_count" not in names[:1]:
        return
    row = dict(zip(names, as_list(rows[0]), strict=False))
    for table in tables.values():
        if table.columns and shape(table, 0).sql == turn.action.get("query"):
            facts[_key(table.datasource_id, table.name)] = facts_from(table, row)


def _agenda(state: Findings) -> Iterator[Question]:
    """The datasources take turns, the primary first: none is left out for another one's size."""
    by_source: dict[str, list[TableInfo]] = {}
    for table in _readable(state):
        by_source.setdefault(table.datasource_id, []).append(table)
    agendas = [agenda(tables, state.facts, state.previous) for tables in by_source.values()]
    for turn in zip_longest(*agendas):
        yield from (question for question in turn if question is not None)


def _unseen(state: Findings) -> list[TableInfo]:
    """Tables that were not looked up yet, those of the least known datasource first."""
    known = Counter(t.datasource_id for t in state.tables if _looked_up(t, state))
    left = [t for t in state.tables if not _looked_up(t, state)]
    return sorted(left, key=lambda t: known[t.datasource_id])


def _looked_up(table: TableInfo, state: Findings) -> bool:
    return _key(table.datasource_id, table.shown) in state.looked_up


def _lookup(state: Findings) -> Json | None:
    """Look up the largest tables that were not looked up yet, of one datasource at a time."""
    left = _unseen(state)
    if not left or state.lookups_left <= 0:
        return None
    source = left[0].datasource_id
    names = [t.shown for t in left if t.datasource_id == source][:LOOKUP]
    return {
        "rationale": f"Before asking anything: which columns do {_listed(names)} have?",
        "lookup_schema": names,
        "datasource_id": source,
    }


def _early(state: Findings) -> bool:
    """Before the questions start: a page of tables of each datasource, as far as there are steps
    to ask about them, and of wide catalogs one more."""
    if state.asked:
        return False
    seen = {t.datasource_id for t in state.tables if _looked_up(t, state)}
    if unseen := {t.datasource_id for t in state.tables} - seen:
        return state.steps_left > 2 * len(unseen)
    return len(state.looked_up) < LOOKUP * _EARLY_LOOKUPS and state.steps_left >= 20


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _query(question: Question) -> Json:
    return {
        "rationale": question.rationale,
        "query_purpose": question.purpose,
        "query": question.sql,
        "datasource_id": question.datasource_id,
    }


def _done(summary: str) -> Json:
    return {"done": True, "summary": summary}


def _summary(state: Findings) -> str:
    seen = [t.bare for t in state.tables if t.columns]
    text = f"{state.queries} questions were answered over {len(seen)} tables ({_listed(seen)})"
    if state.failures:
        text += f"; {state.failures} could not be answered"
    return text + ": totals, segments, trends, anomalies and data quality."


def _spare(state: Findings) -> Question | None:
    """When more steps are demanded than there are questions: plain looks at single columns."""
    for question in plain_looks(_readable(state)):
        if (question.datasource_id, question.sql) not in state.asked:
            return question
    return None
