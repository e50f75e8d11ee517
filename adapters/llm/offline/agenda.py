"""The order of questions: profiles first, then themes in turn, the largest tables ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from adapters.llm.offline.questions.anomalies import anomalies
from adapters.llm.offline.questions.profile import shape
from adapters.llm.offline.questions.quality import quality
from adapters.llm.offline.questions.question import Link, Question, Theme, ask
from adapters.llm.offline.questions.segments import segments
from adapters.llm.offline.questions.trends import trends
from adapters.llm.offline.roles import Roles, is_name, roles_of, singular
from adapters.llm.offline.schema import Facts, Kind, TableInfo
from adapters.llm.offline.sqltext import quote, table_ref

_THEMES = (Theme.QUALITY, Theme.SEGMENTS, Theme.TRENDS, Theme.ANOMALIES)
_PROFILED = 5
_CHECKED_AGAIN, _EARLIER = 2, 8
"""Of a theme's questions, how many a later run repeats and how many an earlier one asked."""
_TABLE_STEP = 1.8
"""How much later the questions of the next smaller table come."""


def agenda(
    tables: Sequence[TableInfo], facts: Mapping[str, Facts], previous: str
) -> Iterator[Question]:
    """Questions in the order to ask them, drawn up from what is known so far."""
    known = [t for t in tables if t.columns and t.row_count != 0]
    empty = [t for t in tables if t.columns and t.row_count == 0]
    profiles = [shape(t, float(i)) for i, t in enumerate(known)]
    yield from profiles[:_PROFILED]
    by_theme: dict[Theme, list[Question]] = {theme: [] for theme in _THEMES}
    for position, table in enumerate(_ranked(known, facts)):
        for question in _questions(table, tables, facts):
            late = question.weight + _TABLE_STEP * position
            by_theme[question.theme].append(replace(question, weight=late))
    queues = [sorted(by_theme[theme], key=lambda q: q.weight) for theme in _THEMES]
    if previous:
        queues = [_carried_on(queue) for queue in queues]
    for turn in range(max((len(q) for q in queues), default=0)):
        for queue in queues:
            if turn < len(queue):
                yield queue[turn]
    yield from profiles[_PROFILED:]
    yield from (shape(t, 0.0) for t in empty)


def _carried_on(queue: list[Question]) -> list[Question]:
    """After an earlier run: check its first findings again, then go on where it will have ended."""
    return queue[:_CHECKED_AGAIN] + queue[_EARLIER:] + queue[_CHECKED_AGAIN:_EARLIER]


def _ranked(tables: Sequence[TableInfo], facts: Mapping[str, Facts]) -> list[TableInfo]:
    """Large tables first; tables that profiling found empty drop out."""
    sized = [(facts.get(_key(t), Facts()), t) for t in tables]
    live = [(f.rows if f.known else t.row_count, t) for f, t in sized if f.rows != 0]
    return [t for _, t in sorted(live, key=lambda pair: (-pair[0], pair[1].name))]


def _key(table: TableInfo) -> str:
    return f"{table.datasource_id} {table.name}"


def _questions(
    table: TableInfo, tables: Sequence[TableInfo], facts: Mapping[str, Facts]
) -> Iterator[Question]:
    roles = roles_of(table, facts.get(_key(table), Facts()))
    links = links_of(roles, tables, facts)
    yield from quality(roles, links)
    if roles.rows == 1:
        return
    yield from segments(roles, links)
    yield from trends(roles)
    yield from anomalies(roles)


def links_of(
    roles: Roles, tables: Sequence[TableInfo], facts: Mapping[str, Facts]
) -> dict[str, Link]:
    """Foreign keys by column: from join hints, else same-named columns that are unique there."""
    table = roles.table
    found: dict[str, Link] = {}
    for other in tables:
        if other.name == table.name or other.datasource_id != table.datasource_id:
            continue
        for column in other.columns:
            mine = table.column(column.name)
            if mine is None or mine.kind is not column.kind or column.name in found:
                continue
            if column.name.lower() == "id":
                continue  # every table calls its own key so
            if _is_target(other, column.name, table, facts):
                name = next((c for c in other.columns if is_name(c)), None)
                found[column.name] = Link(table, column.name, other, column.name, name)
    for hint in table.joins:
        link = _hinted(hint, table, tables)
        if link and link.column not in found and _is_target(link.other, link.key, table, facts):
            found[link.column] = link
    return found


def _hinted(hint: str, table: TableInfo, tables: Sequence[TableInfo]) -> Link | None:
    """A join hint names ``other.key``: the column here has the same name or a longer one."""
    for other in tables:
        if not hint.startswith(other.name + ".") or other.name == table.name:
            continue
        key = hint[len(other.name) + 1 :]
        target = other.column(key)
        column = table.column(key) or next(
            (c for c in table.columns if key != "id" and c.name.lower() == key.lower()), None
        )
        column = column or next(
            (c for c in table.columns if c.name.lower() == f"{singular(other.bare)}_{key.lower()}"),
            None,
        )
        if target is None or column is None or column.kind is not target.kind:
            return None
        name = next((c for c in other.columns if is_name(c)), None)
        return Link(table, column.name, other, key, name)
    return None


def _is_target(other: TableInfo, key: str, table: TableInfo, facts: Mapping[str, Facts]) -> bool:
    """True when ``key`` identifies the rows of ``other`` and does not do so in ``table``."""
    theirs, mine = facts.get(_key(other), Facts()), facts.get(_key(table), Facts())
    if mine.known and mine.distinct.get(key) == mine.rows:
        return False
    if theirs.known:
        if theirs.rows == 0 or theirs.distinct.get(key) != theirs.rows:
            return False
        return not (mine.known and mine.rows <= theirs.rows)
    column = other.column(key)
    hinted = any(h.startswith(other.name + ".") and h.endswith("." + key) for h in table.joins)
    return hinted and column is not None and other.row_count < table.row_count


def plain_looks(tables: Sequence[TableInfo]) -> Iterator[Question]:
    """One plain question for each column: its most frequent values."""
    for table in tables:
        for column in table.columns:
            if column.kind is Kind.OTHER:
                continue
            name = quote(column.name)
            yield ask(
                Theme.PROFILE,
                0,
                table,
                (column.name,),
                f"Most frequent values of {column.name} in {table.bare}",
                f"Which values of {column.name} occur most often?",
                f"""SELECT t.{name} AS {name}, COUNT(*) AS "row_count" FROM {table_ref(table)} AS t
                GROUP BY t.{name} ORDER BY "row_count" DESC, {name} LIMIT 20""",
            )
