"""Function calls keep the name and the arguments they were written with.

The parser turns calls that it knows into nodes of its own, and writes some back as another
function: APPROX_COUNT_DISTINCT as one that T-SQL lacks, ADD_MONTHS as a date addition that ends
months elsewhere. What runs must be what the author meant, so a dialect's own names are masked
before the parser sees them and unmasked in its tree, where they are calls by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from pipeline.sql.functions import function_names, words
from pipeline.sql.nodes import TYPED_FUNCTIONS

_MASK = "\0"
"""Before a masked name; no query that is parsed holds this character."""


@cache
def known_functions(dialect: str) -> frozenset[str]:
    """Names of all functions that only compute, in lower case: the parser's and the list's."""
    return function_names(dialect).scalar | _TYPED_NAMES


_TYPED_NAMES = frozenset(
    name.lower() for kind in TYPED_FUNCTIONS for name in cast("Any", kind).sql_names()
)


@cache
def _maskable(dialect: str) -> frozenset[str]:
    """The dialect's own names but for those whose arguments have a syntax of their own.

    A name that only the parser knows is another dialect's: the parser may translate that one.
    """
    parser = cast("Any", Dialect.get_or_raise(dialect).parser_class)
    special = {*parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS}
    own = function_names(dialect).scalar
    return frozenset(name.upper() for name in own) - special - _NAVIGATION


_NAVIGATION = words("FIRST FIRST_VALUE LAG LAST LAST_VALUE LEAD NTH_VALUE")
"""Only the parser's own nodes of these may carry IGNORE NULLS everywhere."""


_NAMES = {TokenType.VAR, TokenType.WINDOW, TokenType.COLLATE}
"""Words that may name a function; before a bracket, WINDOW begins no clause and COLLATE is none."""


def masked(tokens: Sequence[Token], dialect: str) -> list[Token]:
    """The tokens with every own name before a bracket masked."""
    names = _maskable(dialect)
    told = list(tokens)
    for i in range(len(told) - 1):
        token = told[i]
        if (
            token.token_type in _NAMES
            and told[i + 1].token_type is TokenType.L_PAREN
            and token.text.upper() in names
            and (i == 0 or not _is_special_after(told[i - 1]))
        ):
            told[i] = Token(
                TokenType.VAR, _MASK + token.text, token.line, token.col, token.start, token.end
            )
    return told


def _is_special_after(before: Token) -> bool:
    """A method or qualified name; ``HAVING MAX (x)`` in ANY_VALUE; Redshift's APPROXIMATE COUNT."""
    kind = before.token_type
    return kind in (TokenType.DOT, TokenType.HAVING) or before.text.upper() == "APPROXIMATE"


_TAKES_LAMBDA = words(
    """
    list_transform list_apply apply array_transform array_apply list_filter array_filter filter
    list_reduce array_reduce reduce
    """
)


def read_json_arrows(tree: exp.Expr, engine: Dialect) -> None:
    """``count(j -> 'a')``: a key of a JSON column, which the parser takes for a lambda."""
    for node in list(tree.find_all(exp.Lambda)):
        names = node.expressions
        holder = node.parent
        if len(names) != 1 or (isinstance(holder, exp.Func) and _takes_lambda(holder)):
            continue
        key = node.this
        while isinstance(key, exp.JSONExtract | exp.JSONExtractScalar):
            key = key.this
        if isinstance(key, exp.Literal):
            column = exp.Column(this=cast("exp.Expr", names[0]).copy())
            path = cast("Any", engine).to_json_path(key.copy())
            inner = exp.JSONExtract(this=column, expression=path, only_json_types=False)
            if key is node.this:
                node.replace(inner)
            else:
                key.replace(inner)
                node.replace(node.this)


def _takes_lambda(call: exp.Func) -> bool:
    name = call.this if isinstance(call, exp.Anonymous) else call.sql_name()
    return str(name).lower() in _TAKES_LAMBDA or isinstance(call, exp.Columns | exp.Transform)


def unmask(tree: exp.Expr) -> None:
    """Give every masked name in ``tree`` its own text back."""
    for node in tree.walk():
        name = node.args.get("this")
        if type(name) is str and name.startswith(_MASK):
            node.set("this", name[1:])
