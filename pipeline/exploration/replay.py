"""The steps of an earlier attempt, said and told again as they were the first time.

The model's own turns are rebuilt from the action, its reasoning and its arguments; what costs
(asking the model, querying the warehouse) is never done twice. Nothing tells the model that it was
interrupted: the conversation is the signal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pipeline.exploration.action_names import ActionKind
from pipeline.exploration.actions import DEFAULT_TOP_K, MAX_TOP_K, Action
from pipeline.exploration.asking import Turn
from pipeline.ports import Usage
from pipeline.records import ExplorationStep, StepAction
from pipeline.records.checkpoint import StepCheckpoint

_KINDS: Mapping[StepAction, ActionKind] = {
    StepAction.QUERY_DATA: ActionKind.QUERY,
    StepAction.LOOKUP_SCHEMA: ActionKind.LOOKUP_SCHEMA,
    StepAction.SEARCH_TABLES: ActionKind.SEARCH_TABLES,
    StepAction.GET_CORRELATIONS: ActionKind.GET_CORRELATIONS,
    StepAction.COMPLETE: ActionKind.DONE,
    StepAction.COMPLETE_REJECTED: ActionKind.DONE,
}


def asked_by(action: Action) -> dict[str, Any]:
    """The arguments of an action, by the names of ``StepCheckpoint.args``."""
    search = action.kind is ActionKind.SEARCH_TABLES
    arguments: dict[str, Any] = {
        "datasource_id": action.datasource_id,
        "query": action.query,
        "lookup_schema": action.lookup_schema,
        "search_tables": action.search_tables,
        "search_top_k": action.search_top_k if search else None,
        "correlation_a": action.get_correlations.get("a"),
        "correlation_b": action.get_correlations.get("b"),
        "completion_reason": action.summary,
    }
    return {name: value for name, value in arguments.items() if value}


def turn_of(row: StepCheckpoint, step: ExplorationStep) -> Turn:
    """The model's turn that led to ``step``, which is the row's."""
    action = action_of(row, step)
    return Turn(action, asked="", said=said(action), usage=Usage(step.tokens_in, step.tokens_out))


def action_of(row: StepCheckpoint, step: ExplorationStep) -> Action:
    """The action that led to ``step``; the row's arguments count, and the record where it has none
    of them."""
    kind = _KINDS[step.action]

    def text(name: str, otherwise: str = "") -> str:
        return str(row.args.get(name) or otherwise)

    done = kind is ActionKind.DONE
    summary = text("completion_reason") if done else ""
    return Action(
        kind=kind,
        rationale="" if summary and step.thinking == summary else step.thinking,
        datasource_id=text("datasource_id"),
        query=text("query", step.query) if kind is ActionKind.QUERY else "",
        query_purpose=step.query_purpose,
        lookup_schema=_names(row.args.get("lookup_schema")) or list(step.lookup_tables),
        search_tables=text("search_tables", step.search_text),
        search_top_k=_top_k(row.args.get("search_top_k")),
        get_correlations=_pair(row, step) if kind is ActionKind.GET_CORRELATIONS else {},
        done=done,
        summary=summary,
    )


def said(action: Action) -> str:
    """An action as the grammar has it."""
    shape: dict[str, Any] = {}
    match action.kind:
        case ActionKind.QUERY:
            shape = {"query_purpose": action.query_purpose, "query": action.query}
        case ActionKind.LOOKUP_SCHEMA:
            shape = {"lookup_schema": action.lookup_schema}
        case ActionKind.SEARCH_TABLES:
            other = action.search_top_k != DEFAULT_TOP_K
            top_k = action.search_top_k if other else None
            shape = {"search_tables": action.search_tables, "search_top_k": top_k}
        case ActionKind.GET_CORRELATIONS:
            shape = {"get_correlations": action.get_correlations}
        case ActionKind.DONE:
            shape = {"done": True, "summary": action.summary}
    whole = {"rationale": action.rationale} | shape | {"datasource_id": action.datasource_id}
    return json.dumps({name: v for name, v in whole.items() if v}, ensure_ascii=False)


def _pair(row: StepCheckpoint, step: ExplorationStep) -> dict[str, str]:
    known = [*step.correlated, "", ""]
    return {
        "a": str(row.args.get("correlation_a") or known[0]),
        "b": str(row.args.get("correlation_b") or known[1]),
    }


def _names(value: Any) -> list[str]:
    return [str(name) for name in cast("list[Any]", value)] if isinstance(value, list) else []


def _top_k(value: Any) -> int:
    return max(1, min(MAX_TOP_K, value)) if isinstance(value, int) else DEFAULT_TOP_K
