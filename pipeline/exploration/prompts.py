"""The words of exploration. The first message and all nudges state one and the same grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline import prompting
from pipeline.errors import ActionError
from pipeline.exploration.actions import DEFAULT_TOP_K, NoAction, NoJson
from pipeline.exploration.budget import LOOKUP_TABLES, Budget
from pipeline.exploration.legacy import rewrite_legacy
from pipeline.ports import SQL, WarehouseInfo
from pipeline.records import Shape


@dataclass(frozen=True, slots=True)
class Source:
    """A datasource as the grammar names it."""

    id: str
    language: str = SQL
    """``SQL``, or the query language that the source declares."""
    dialect: str = ""
    label: str = ""
    tables: bool = True
    """False for a cube-shaped source, which has nothing to look up."""

    @classmethod
    def of(cls, info: WarehouseInfo) -> Source:
        tables = info.shape is not Shape.CUBE
        return cls(info.id, info.query_language, info.dialect, info.label, tables)


@dataclass(frozen=True, slots=True)
class Grammar:
    """Which actions a run is offered."""

    sources: tuple[Source, ...]
    """The primary first."""
    correlations: bool = False
    lookup_tables: int = LOOKUP_TABLES
    prohibited: tuple[str, ...] = ()
    """Key pairs that must never be joined, as they are told to the model."""

    @classmethod
    def of(
        cls,
        warehouses: Sequence[WarehouseInfo],
        budget: Budget,
        correlations: bool,
        prohibited: Sequence[str] = (),
    ) -> Grammar:
        """The grammar of a run over these datasources, the primary first."""
        sources = tuple(Source.of(info) for info in warehouses)
        several = len(sources) > 1
        forbidden = tuple(prohibited) if several else ()
        return cls(sources, correlations and several, budget.lookup_tables, forbidden)

    @property
    def object_sources(self) -> frozenset[str]:
        """Ids of the cubes, whose queries are JSON objects."""
        return frozenset(source.id for source in self.sources if not source.tables)

    @property
    def lookups(self) -> bool:
        """False on a run whose sources are all cubes."""
        return any(source.tables for source in self.sources)

    def text(self) -> str:
        """The shapes that a reply may have, one a line, and the rules around them."""
        several = len(self.sources) > 1
        names = ["query", "search_tables", "done"]
        if self.lookups:
            names.insert(1, "lookup_schema")
        if several and self.object_sources:
            names.insert(1, "cube_query")
        if self.correlations:
            names.insert(-1, "get_correlations")
        shapes = "\n".join(prompting.load(f"exploration/shapes/{name}").strip() for name in names)
        language = self.sources[0].language if self.sources else SQL
        sql = several or language == SQL
        variables = {
            "DATASOURCE": ', "datasource_id": "..."' if several else "",
            "QUERY_EXAMPLE": "SELECT ..." if sql else f"the {language} request as text",
            "CUBES": ", ".join(sorted(self.object_sources)),
            "CUBE": min(self.object_sources, default=""),
            "LOOKUP_TABLES": str(self.lookup_tables),
            "TOP_K": str(DEFAULT_TOP_K),
        }
        extra = [self._datasources()] if several else []
        if self.object_sources:
            extra.append(prompting.load("exploration/cube").strip())
        whole = {
            "SHAPES": prompting.render(shapes, variables),
            "DATASOURCES": "".join(f"\n\n{text}" for text in extra),
        }
        return prompting.render(prompting.load("exploration/grammar"), whole).strip()

    def _datasources(self) -> str:
        lines = [
            f"- {s.id}: {s.dialect + ' ' if s.dialect else ''}{s.language}"
            + (f", {s.label}" if s.label else "")
            + ("" if s.tables else ", has no tables to look up")
            for s in self.sources
        ]
        forbidden = ""
        if self.prohibited:
            pairs = prompting.text_block("never_join", "\n".join(self.prohibited))
            template = prompting.load("exploration/never_join")
            forbidden = prompting.render(template, {"PAIRS": pairs}).strip() + "\n\n"
        variables = {
            "PROHIBITIONS": forbidden,
            "PRIMARY": self.sources[0].id,
            "LIST": "\n".join(lines),
        }
        return prompting.render(prompting.load("exploration/datasources"), variables).strip()


def system_prompt(base_context: str, exploration_text: str) -> str:
    """The explorer's system prompt: role line, base context, and the pack's rendered text.

    Both texts are inserted as they are; the caller has rendered their variables.
    """
    variables = {
        "BASE_CONTEXT": rewrite_legacy(base_context).strip(),
        "EXPLORATION": rewrite_legacy(exploration_text).strip(),
    }
    return prompting.render(prompting.load("exploration/system"), variables).strip()


def first_message(grammar: Grammar, budget: Budget) -> str:
    """The message that opens the conversation: grammar, budgets in words, and ``<budget>``."""
    floor = ""
    if budget.floor:
        template = prompting.load("exploration/floor").rstrip("\n")
        floor = prompting.render(template, {"MIN_STEPS": str(budget.floor)})
    lookups, stated = "", budget.stated()
    if grammar.lookups:
        template = prompting.load("exploration/lookups").rstrip("\n")
        calls = {"LOOKUP_CALLS": str(budget.lookup_calls)}
        tables = {"LOOKUP_TABLES": str(budget.lookup_tables)}
        lookups = prompting.render(template, calls | tables)
    else:
        stated = {name: left for name, left in stated.items() if not name.startswith("lookup_")}
    correlations = ""
    if grammar.correlations:
        correlations = f", and {budget.correlation_calls} correlation look-ups"
    variables = {
        "GRAMMAR": grammar.text(),
        "MAX_STEPS": str(budget.max_steps),
        "FLOOR": floor,
        "LOOKUPS": lookups,
        "SEARCH_CALLS": str(budget.search_calls),
        "CORRELATIONS": correlations,
        "BUDGET": prompting.block("budget", stated),
    }
    return prompting.render(prompting.load("exploration/first"), variables).strip()


def nudge(error: ActionError, grammar: Grammar, *, cut_off_at: int | None = None) -> str:
    """Asks for a usable reply: says what was wrong and repeats every legal shape.

    ``cut_off_at`` is the output limit in tokens when the reply ran into it.
    """
    if cut_off_at is not None:
        name = "nudge_cut_off"
    elif isinstance(error, NoJson):
        name = "nudge_no_json"
    elif isinstance(error, NoAction):
        name = "nudge_no_action"
    else:
        name = "nudge"
    variables = {
        "REASON": error.reason,
        "GRAMMAR": grammar.text(),
        "MAX_TOKENS": str(cut_off_at or 0),
    }
    return prompting.render(prompting.load(f"exploration/{name}"), variables).strip()
