"""Self-healing SQL: run a query; when it fails, let a model repair it, a few times at most.

Guard and filter live behind ``Warehouse.query``, so every repaired query passes them again.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pipeline import prompting
from pipeline.errors import (
    ModelAuthError,
    ModelError,
    QueryFailed,
    QueryTimeout,
    UnsafeSql,
    VeridicalError,
)
from pipeline.ports import (
    SQL,
    ChatReply,
    ChatRequest,
    LanguageModel,
    Message,
    QueryResult,
    SchemaCatalog,
    StopReason,
    Usage,
    Warehouse,
)
from pipeline.records import FixAttempt
from pipeline.sql.repair import describe_tables, extract_request, extract_sql

log = logging.getLogger(__name__)

MAX_REPAIRS = 5
MAX_OUTPUT_TOKENS = 16_384
"""Most that a repair may write; a smaller cap cuts long queries off."""
MIN_OUTPUT_TOKENS = 512
ERROR_CHARS = 4_000
DIALECTS = frozenset(
    {"bigquery", "databricks", "duckdb", "postgres", "redshift", "snowflake", "tsql"}
)

SqlError = UnsafeSql | QueryFailed


@dataclass(frozen=True, slots=True)
class Healed:
    """A query that ran. ``result.sql`` is what ran, after guard and filter."""

    result: QueryResult
    fix_history: tuple[FixAttempt, ...] = ()

    @property
    def repairs(self) -> int:
        """How many repairs were applied."""
        return sum(1 for attempt in self.fix_history if not attempt.fixer_error)


class Healer:
    """Runs SQL on one warehouse with up to ``max_repairs`` repairs (``max_repairs + 1`` runs)."""

    def __init__(
        self,
        model: LanguageModel,
        warehouse: Warehouse,
        catalog: SchemaCatalog | None = None,
        max_repairs: int = MAX_REPAIRS,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._model = model
        self._warehouse = warehouse
        self._catalog = catalog
        self._max_repairs = max_repairs
        self._clock = clock

    async def run(self, sql: str, *, step: int = 0, max_rows: int | None = None) -> Healed:
        """Run ``sql``; on a refusal or an error ask for a repair and run that.

        Raises the last ``UnsafeSql``, ``QueryFailed`` or ``QueryTimeout`` with every repair in its
        ``fix_history``; ``ModelAuthError`` and ``WarehouseUnavailable`` pass through. A time-out is
        repaired once at most. ``step`` is only noted in the history.
        """
        conversation: list[Message] = []
        history: list[FixAttempt] = []
        timeouts = 0
        while True:
            try:
                result = await self._warehouse.query(sql, max_rows=max_rows)
            except (UnsafeSql, QueryFailed) as error:
                error.fix_history = tuple(history)
                timeouts += isinstance(error, QueryTimeout)
                if len(history) >= self._max_repairs or timeouts > 1:
                    raise
                attempt = await self._repair(sql, error, conversation, history, step)
                history.append(attempt)
                error.fix_history = tuple(history)
                if attempt.fixer_error:
                    log.info("step %d: repair stopped: %s", step, attempt.fixer_error)
                    raise
                sql = attempt.sql_after
            else:
                return Healed(result, tuple(history))

    async def _repair(
        self,
        sql: str,
        error: SqlError,
        conversation: list[Message],
        history: Sequence[FixAttempt],
        step: int,
    ) -> FixAttempt:
        prompt = await self._prompt(sql, error)
        conversation.append(Message("user", prompt))
        attempt = FixAttempt(
            step=step,
            attempt=len(history),
            sql_before=sql,
            error_in=error.reason,
            prompt_in=prompt,
            timestamp=self._clock(),
        )
        started = time.monotonic()
        try:
            reply = await self._model.chat(self._request(conversation))
        except ModelAuthError:
            raise
        except ModelError as failure:
            reply, problem, after = ChatReply(""), f"the model failed: {failure}", ""
        else:
            conversation.append(Message("assistant", reply.text.strip() or "(empty reply)"))
            tried = [*(a.sql_before for a in history), sql]
            after, problem = judge_repair(reply, tried, self._warehouse.info.query_language)
        return attempt.model_copy(
            update={
                "response_out": reply.text,
                "sql_after": after,
                "fixer_error": problem,
                **_tokens(reply.usage),
                "duration_ms": round((time.monotonic() - started) * 1000),
            }
        )

    def _request(self, conversation: Sequence[Message]) -> ChatRequest:
        system = self._system()
        window = self._model.info.context_window
        used = (len(system) + sum(len(m.content) for m in conversation)) // 3
        room = max(MIN_OUTPUT_TOKENS, window - used - window // 50)
        return ChatRequest(
            system=system,
            messages=(*conversation[:-1], replace(conversation[-1], cache=True)),
            max_tokens=min(MAX_OUTPUT_TOKENS, self._model.info.max_output, room),
            label="fix_sql",
        )

    def _system(self) -> str:
        info = self._warehouse.info
        if info.query_language != SQL:
            return prompting.load("sql_fix/cube").strip()
        known = info.dialect in DIALECTS
        hints = prompting.load(f"sql_fix/{info.dialect}") if known else info.dialect
        base = prompting.load("sql_fix/base")
        return prompting.render(base, {"DIALECT_HINTS": hints.strip()}).strip()

    async def _prompt(self, sql: str, error: SqlError) -> str:
        info = self._warehouse.info
        shown = await self._tables_in(sql)
        schema = prompting.text_block("schema", shown) if shown else ""
        condition = f"{info.filter_field} = {info.filter_value}" if info.filter_field else ""
        timed_out = isinstance(error, QueryTimeout)
        return prompting.render(
            prompting.load("sql_fix/error"),
            {
                "SQL": prompting.text_block("sql", sql),
                "ERROR": prompting.text_block("error", error.reason[:ERROR_CHARS]),
                "ADVICE": f"{prompting.load('sql_fix/narrow')}\n" if timed_out else "",
                "SCHEMA": schema,
                "FILTER": "\n\n" + prompting.text_block("filter", condition) if condition else "",
            },
        ).strip()

    async def _tables_in(self, sql: str) -> str:
        """Schema lines for the fixer; none when there is no catalog or it cannot be read now."""
        if self._catalog is None:
            return ""
        try:
            known = await self._catalog.tables()
        except VeridicalError as error:
            log.warning("the fixer is shown no schema: %s", error)
            return ""
        source = self._warehouse.info.id
        return describe_tables(sql, [table for table in known if table.datasource_id == source])


def judge_repair(reply: ChatReply, tried: Sequence[str], language: str = SQL) -> tuple[str, str]:
    """The repaired query and "", or "" and why the reply cannot be used. ``tried`` has all queries
    that failed already, the latest last."""
    if reply.stop is StopReason.REFUSAL:
        return "", "the model declined to repair the query"
    if not reply.text.strip():
        return "", "the model sent an empty reply"
    cut_off = reply.stop is StopReason.LENGTH
    if language == SQL:
        sql = extract_sql(reply.text, original=tried[-1], cut_off=cut_off)
    else:
        sql = extract_request(reply.text)
    if not sql:
        return "", "the reply was cut off" if cut_off else f"the reply holds no {language}"
    if _same(sql, tried[-1]):
        return "", "the model sent the same query back"
    if any(_same(sql, earlier) for earlier in tried):
        return "", "the model sent a query that failed before"
    return sql, ""


def _same(one: str, other: str) -> bool:
    first, second = (re.sub(r"\s+", " ", sql).strip("; ") for sql in (one, other))
    return first == second


def _tokens(usage: Usage) -> dict[str, int]:
    return {"input_tokens": usage.input, "output_tokens": usage.output}
