"""What a table is, in a sentence or two: by rules, or by a language model that is shown it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Protocol

from pipeline.errors import ModelError
from pipeline.ports import ChatRequest, LanguageModel, Message, StopReason
from pipeline.prompting import block, load
from pipeline.records import Column, ColumnCategory, Table, TableKind
from pipeline.replies import THOUGHTS
from pipeline.schema.catalog import one_line, rows_text
from pipeline.schema.lookup import detail

log = logging.getLogger(__name__)

NAMED = 6
"""Columns of one kind that are named."""
NAME_CHARS = 40
MAX_BLURB = 600
"""Characters that are kept of a model's description."""
BLURB_TOKENS = 1_000
ATTEMPTS = 2
FAILING = 0.05
"""The part of the tables whose descriptions may fail before the model is not asked any more."""


def summary_of(table: Table) -> str:
    """Size, period and columns of a table, from what is known of it.

    ``19 columns, 336.8K rows, time_hour from 2013-01-01 05:00 to 2013-12-31 23:00. Measures:
    dep_delay, … Groups: carrier, …``
    """
    if table.kind is not TableKind.TABLE:
        return ""
    count = len(table.columns)
    size = f"{count} column{'s' * (count != 1)}, {rows_text(table.row_count)} rows"
    if table.time_span is not None:
        span = table.time_span
        column, first, last = (one_line(v) for v in (span.column, span.first, span.last))
        size += f", {column} from {first} to {last}"
    lists = (
        ("Keys", ColumnCategory.PRIMARY_KEY),
        ("Times", ColumnCategory.TIME),
        ("Measures", ColumnCategory.METRIC),
        ("Groups", ColumnCategory.DIMENSION),
    )
    told = [
        f"{title}: {_named(column for column in table.columns if column.category is category)}."
        for title, category in lists
        if any(column.category is category for column in table.columns)
    ]
    return " ".join([f"{size}.", *told])


def told_of(table: Table) -> str:
    """The description of a table: its own, else the one that rules make."""
    return table.description or summary_of(table)


def _named(columns: Iterable[Column]) -> str:
    names = [one_line(column.name)[:NAME_CHARS] for column in columns]
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


class Describer(Protocol):
    async def describe(self, table: Table) -> str:
        """What the table is about; "" when that cannot be said. Never raises."""
        ...


class ModelDescriber:
    """Asks a language model about one table at a time.

    A call that fails twice leaves the table to the rules. After too many such tables the model is
    not asked any more: something is wrong that asking does not mend.
    """

    def __init__(self, model: LanguageModel, tables: int) -> None:
        self._model = model
        self._failures_left = max(1, math.ceil(FAILING * tables))

    async def describe(self, table: Table) -> str:
        """Two to four sentences, cut to 600 characters; "" when the model gives none."""
        if self._failures_left <= 0 or table.kind is not TableKind.TABLE:
            return ""
        request = ChatRequest(
            system=load("schema/describe"),
            messages=(Message("user", block("table", detail(table))),),
            max_tokens=min(BLURB_TOKENS, self._model.info.max_output),
            label="describe",
        )
        for _ in range(ATTEMPTS):
            try:
                reply = await self._model.chat(request)
            except ModelError as error:
                log.warning("no description of %s: %s", table.name, error)
                break
            if reply.stop is not StopReason.REFUSAL and (text := _sentences(reply.text)):
                return text
        self._failures_left -= 1
        return ""


def _sentences(reply: str) -> str:
    text = one_line(" ".join(THOUGHTS.sub(" ", reply).split()))
    if text.startswith(("{", "[", "```")):
        return ""
    return text if len(text) <= MAX_BLURB else f"{text[: MAX_BLURB - 1]}…"
