"""Answers the actions that read no data: lookup_schema, search_tables, get_correlations.

It holds their budgets for the whole run. A call is spent even when the provider behind it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.errors import RunSuperseded, ToolError, VeridicalError
from pipeline.exploration.actions import Action
from pipeline.exploration.budget import Allowance, Budget
from pipeline.exploration.conversation import Conversation
from pipeline.exploration.datasources import chosen, matches, owners
from pipeline.exploration.outcome import (
    Outcome,
    clip,
    failure,
    hit_payload,
    not_found_payload,
    table_payload,
)
from pipeline.ports import SchemaCatalog, Warehouse
from pipeline.records import SchemaLookup, Shape, StepAction, Table
from pipeline.schema.catalog import members_text

log = logging.getLogger(__name__)

MAX_NAMED = 20
"""Names of cubes, or of tables that were left out, that an answer lists."""
NAME_CHARS = 300


class Correlations(Protocol):
    """What is known of key pairs between two datasources."""

    async def between(self, a: str, b: str) -> Mapping[str, Sequence[Any]]:
        """Lists under ``rejected``, ``confirmed`` and ``declared``. Raises ``ToolError``."""
        ...


@dataclass(slots=True)
class _Fetched:
    table: Table
    step: int
    """Where the model was shown it."""
    turn: int
    """The turn of the conversation that holds the answer."""


@dataclass(slots=True)
class SchemaDesk:
    """One run's schema budgets and the tables it has fetched."""

    catalog: SchemaCatalog
    warehouses: Mapping[str, Warehouse]
    budget: Budget
    conversation: Conversation
    correlations: Correlations | None = None
    lookups: Allowance = field(init=False)
    searches: Allowance = field(init=False)
    correlated: Allowance = field(init=False)
    lookup_calls: int = 0
    """Lookup actions that were answered, the free ones included."""
    search_calls: int = 0
    correlation_calls: int = 0
    _fetched: dict[tuple[str, str], _Fetched] = field(
        default_factory=dict[tuple[str, str], _Fetched]
    )
    """By datasource and table name."""

    def __post_init__(self) -> None:
        self.lookups = Allowance(self.budget.lookup_calls)
        self.searches = Allowance(self.budget.search_calls)
        self.correlated = Allowance(self.budget.correlation_calls)

    @property
    def _several(self) -> bool:
        return len(self.warehouses) > 1

    async def lookup(self, action: Action, step: int) -> Outcome:
        """Columns and sample rows of tables. Those fetched before cost nothing: they are named with
        their step, or shown again when that answer has left the conversation."""
        self.lookup_calls += 1
        asked = action.lookup_schema
        try:
            info = chosen(action.datasource_id, self.warehouses).info
            source = info.id
            if info.shape is Shape.CUBE:
                raise ToolError(await self._nothing_to_look_up(source, asked))
            seen, new = await self._split(source, asked)
            ask, left_out = new[: self.budget.lookup_tables], new[self.budget.lookup_tables :]
            if ask and not self.lookups.take():
                if not seen:
                    raise ToolError("the lookup budget of this run is spent")
                ask, left_out = [], new
            found = await self.catalog.lookup(ask, self._scope(source)) if ask else SchemaLookup()
            missing = await self._missing(found, source)
        except RunSuperseded:
            raise
        except VeridicalError as error:
            log.warning("step %d: lookup_schema failed: %s", step, error)
            return self._lookup_failure(str(error), asked)
        again, known = self._recall(seen, step)
        fresh = self._remember(source, found.tables, step)
        payload: dict[str, Any] = {
            "ok": True,
            "tables": [table_payload(t, several=self._several) for t in (*again, *fresh)],
            "not_found": missing,
        }
        optional = {"already_fetched": known, "left_out": _named(left_out)}
        payload |= {key: value for key, value in optional.items() if value}
        return Outcome(
            action=StepAction.LOOKUP_SCHEMA,
            words=self._lookup_words(payload, shown_again=len(again)),
            payload=payload | {"calls_left": self.lookups.left},
            fields={"lookup_tables": asked, "warehouse_id": source},
            notice=clip(f"Looked up {', '.join(asked[:10])}", 600),
        )

    def _lookup_words(self, payload: Mapping[str, Any], *, shown_again: int) -> str:
        parts = [f"{len(payload['tables'])} tables follow."]
        if "already_fetched" in payload:
            parts.append("Tables that you have seen already are only named; they cost nothing.")
        if shown_again:
            parts.append(f"{shown_again} of them, whose answer has left your view, cost nothing.")
        if "left_out" in payload:
            parts.append(
                f"Some were left out: a call takes {self.budget.lookup_tables} new tables, and "
                "calls must be left."
            )
        if payload["not_found"]:
            parts.append("Some names were not found; near names are given.")
        return f"{' '.join(parts)} {self.lookups.left} lookup calls left."

    async def search(self, action: Action, step: int) -> Outcome:
        """Tables of all datasources by meaning."""
        text = action.search_tables
        self.search_calls += 1
        if not self.searches.take():
            return self._search_failure("the search budget of this run is spent", text)
        try:
            hits = await self.catalog.search(text, action.search_top_k)
        except RunSuperseded:
            raise
        except VeridicalError as error:
            log.warning("step %d: search_tables failed: %s", step, error)
            return self._search_failure(str(error), text)
        payload = {"ok": True, "hits": [hit_payload(hit) for hit in hits]}
        return Outcome(
            action=StepAction.SEARCH_TABLES,
            words=f"{len(hits)} tables found. {self.searches.left} searches left.",
            payload=payload | {"calls_left": self.searches.left},
            fields={"search_text": text},
            notice=f"Searched tables for: {clip(text, 200)} ({len(hits)} found)",
        )

    async def correlate(self, action: Action, step: int) -> Outcome:
        """Keys between two datasources; rejected pairs come first, as prohibitions."""
        asked = [action.get_correlations["a"], action.get_correlations["b"]]
        self.correlation_calls += 1
        try:
            a, b = (chosen(name, self.warehouses).info.id for name in asked)
            if self.correlations is None:
                raise ToolError(
                    "this run knows no correlations between datasources; "
                    "that does not mean that no key exists"
                )
            if not self.correlated.take():
                raise ToolError("the correlation budget of this run is spent")
            known = await self.correlations.between(a, b)
        except RunSuperseded:
            raise
        except VeridicalError as error:
            log.warning("step %d: get_correlations failed: %s", step, error)
            return self._correlation_failure(str(error), asked)
        lists = {key: list(known.get(key, ())) for key in ("rejected", "confirmed", "declared")}
        words = "Never join on a rejected pair." if lists["rejected"] else "No pair is rejected."
        if not any(lists.values()):
            words = "Nothing is known of this pair; that does not mean that no key exists."
        return Outcome(
            action=StepAction.GET_CORRELATIONS,
            words=f"{words} {self.correlated.left} correlation look-ups left.",
            payload={"ok": True, **lists, "calls_left": self.correlated.left},
            fields={"correlated": asked},
            notice=f"Looked up correlations of {a} and {b}",
        )

    async def _nothing_to_look_up(self, source: str, asked: Sequence[str]) -> str:
        """Why a cube is not looked up, and the members of what was asked, if it has that."""
        known = [t for t in await self.catalog.tables() if t.datasource_id == source]
        meant = [t for t in known if any(matches(name, t.name) for name in asked)]
        told = "; ".join(f"{table.name} has {members_text(table)}" for table in meant)
        names = ", ".join(table.name for table in known[:MAX_NAMED])
        return f"datasource {source!r} is a cube and has no tables to look up; " + (
            told or f"its members are in the catalog, under {names}"
        )

    def _scope(self, source: str) -> str:
        return source if self._several else ""

    async def _missing(self, found: SchemaLookup, source: str) -> list[dict[str, Any]]:
        if not found.not_found:
            return []
        tables = await self.catalog.tables() if self._several else []
        return [
            not_found_payload(missing, owners(str(missing.get("table", "")), tables, source))
            for missing in found.not_found
        ]

    async def _split(self, source: str, asked: Sequence[str]) -> tuple[list[_Fetched], list[str]]:
        """Tables fetched before, whatever they are called now, and names that are new."""
        seen: dict[str, _Fetched] = {}
        new: list[str] = []
        tables = await self.catalog.tables() if self._fetched else []
        for name in asked:
            candidates = {
                t.name for t in tables if t.datasource_id == source and matches(name, t.name)
            }
            only = candidates.pop() if len(candidates) == 1 else name
            entry = self._fetched.get((source, name)) or self._fetched.get((source, only))
            if entry is None:
                new.append(name)
            else:
                seen[entry.table.name] = entry
        return list(seen.values()), new

    def _remember(self, source: str, tables: Sequence[Table], step: int) -> list[Table]:
        """Note what was fetched; gives it back without repeats."""
        unique = {table.name: table for table in tables}
        for name, table in unique.items():
            self._fetched[(source, name)] = _Fetched(table, step, self.conversation.turns)
        return list(unique.values())

    def _recall(
        self, seen: Sequence[_Fetched], step: int
    ) -> tuple[list[Table], list[dict[str, Any]]]:
        """Tables to show again, and those that are only named with their step."""
        again: list[Table] = []
        known: list[dict[str, Any]] = []
        for entry in seen:
            if entry.turn >= self.conversation.dropped:
                known.append({"table": entry.table.name, "step": entry.step})
            else:
                again.append(entry.table)
                entry.step, entry.turn = step, self.conversation.turns
        return again, known

    def _lookup_failure(self, error: str, asked: list[str]) -> Outcome:
        words = "The lookup gave nothing. Go on with what you know, or with another action."
        outcome = failure(StepAction.LOOKUP_SCHEMA, error, words, calls_left=self.lookups.left)
        outcome.fields["lookup_tables"] = asked
        return outcome

    def _correlation_failure(self, error: str, asked: list[str]) -> Outcome:
        words = "The correlations could not be given; that says nothing about whether a key exists."
        left = self.correlated.left
        outcome = failure(StepAction.GET_CORRELATIONS, error, words, calls_left=left)
        outcome.fields["correlated"] = asked
        return outcome

    def _search_failure(self, error: str, text: str) -> Outcome:
        words = "The search gave nothing. Go on with the catalog, or with another action."
        outcome = failure(StepAction.SEARCH_TABLES, error, words, calls_left=self.searches.left)
        outcome.fields["search_text"] = text
        return outcome


def _named(tables: Sequence[str]) -> list[str]:
    """The first names of a list that may be long, and how many more there are."""
    shown = [clip(name, NAME_CHARS) for name in tables[:MAX_NAMED]]
    more = len(tables) - len(shown)
    return [*shown, f"and {more} more"] if more else shown
