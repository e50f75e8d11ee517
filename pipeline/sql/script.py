"""From a text to the syntax tree of its single statement, or a refusal; never a crash.

The tokens are looked at before the parser is: the parser recurses, and it is compiled, so that
text nested deeply enough would end the process rather than raise.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Sequence
from typing import Any, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from pipeline.errors import UnsafeSql
from pipeline.sql.calls import masked, read_json_arrows, unmask
from pipeline.sql.functions import words

MAX_CHARS = 100_000
MAX_TOKENS = 10_000
MAX_DEPTH = 100
"""Open brackets and CASEs at one point of the text."""
MAX_PREFIX_RUN = 60
"""Signs and NOTs in a row."""
MAX_CHAIN = 200
"""Dots, casts and subscripts between two commas: parsing them takes time by the square."""
MAX_DIVISIONS = 20

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of what is refused here anyway

_COMMENT = re.compile(r"--|/\*|#|//")
_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.TILDE, TokenType.PLUS}
_LINK = {TokenType.DOT, TokenType.DCOLON, TokenType.L_BRACKET, TokenType.COLON}
_PARTING = {TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.FROM, TokenType.AND}
_STARTS = {"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("}
_INSTEAD = {
    "DESCRIBE": "use lookup_schema for columns",
    "DESC": "use lookup_schema for columns",
    "SHOW": "use lookup_schema or search_tables",
    "EXPLAIN": "send the query itself",
    "PIVOT": "write SELECT * FROM table PIVOT (...)",
    "UNPIVOT": "write SELECT * FROM table UNPIVOT (...)",
    "SUMMARIZE": "select the aggregates you need",
    "PRAGMA": "use lookup_schema for columns",
}
"""What to send instead of a statement that models like to begin with."""
_TSQL_STATEMENTS = words(
    """
    ALTER BACKUP BEGIN BULK CHECKPOINT COMMIT CREATE DBCC DEALLOCATE DECLARE DELETE DENY DROP
    EXEC EXECUTE GOTO GRANT IF INSERT KILL MERGE PRINT RAISERROR READTEXT RECONFIGURE RESTORE
    RETURN REVERT REVOKE ROLLBACK SAVE SET SETUSER SHUTDOWN TRUNCATE UPDATE UPDATETEXT USE
    WAITFOR WHILE WRITETEXT
    """
)
"""Reserved words of T-SQL, where the next statement needs no semicolon before it."""


def one_query(sql: Any, dialect: str) -> exp.Expr:
    """The tree of the one statement in ``sql``. Raises ``UnsafeSql``."""
    text = _usable_text(sql)
    engine = Dialect.get_or_raise(dialect)
    try:
        tokens = _without_semicolons(_tokens(text, engine))
        _check_start(tokens)
        _check_size(tokens)
        if not text.isascii():
            _check_characters(tokens)
            _check_gaps(tokens, text)
        if dialect == "tsql":
            _check_second_statement(tokens)
            _check_divisions(tokens)
        if dialect == "duckdb":
            _check_json_keys(tokens)
        if dialect in ("postgres", "redshift", "duckdb"):
            _check_distances(tokens)
        tree = _parse(masked(_names_told_apart(tokens, dialect), dialect), text, engine)
        unmask(tree)
        if dialect == "duckdb" and "->" in text:
            read_json_arrows(tree, engine)
        return tree
    except RecursionError:
        raise UnsafeSql("the query is nested too deeply; write it flatter") from None


def _usable_text(sql: Any) -> str:
    if not isinstance(sql, str):
        raise UnsafeSql(f"the query must be a text, not {type(sql).__name__}")
    if len(sql) > MAX_CHARS:
        raise UnsafeSql(f"the query has {len(sql)} characters; at most {MAX_CHARS} are allowed")
    if "\0" in sql:
        raise UnsafeSql("the query holds a NUL character")
    try:
        sql.encode("utf-8")
    except UnicodeEncodeError:
        raise UnsafeSql("the query holds half a character (a lone surrogate)") from None
    text = sql.strip()
    if not text:
        raise UnsafeSql("the query is empty")
    return text


def _tokens(text: str, engine: Dialect) -> list[Token]:
    try:
        return engine.tokenize(text)
    except TokenError as error:
        raise UnsafeSql(f"the query cannot be read: {_first_line(error)}") from None
    except Exception as error:  # noqa: BLE001 - odd text must be refused, never crash
        raise UnsafeSql(f"the query cannot be read: {type(error).__name__}") from None


def _without_semicolons(tokens: Sequence[Token]) -> list[Token]:
    """The tokens of the only statement. A semicolon before or after it is nothing."""
    marks = [t.token_type is TokenType.SEMICOLON for t in tokens]
    first = next((i for i, mark in enumerate(marks) if not mark), len(tokens))
    end = next((i for i in range(first, len(tokens)) if marks[i]), len(tokens))
    if not all(marks[end:]):
        raise UnsafeSql("exactly one statement may run; send the queries one by one")
    statement = list(tokens[first:end])
    if not statement:
        raise UnsafeSql("the query is empty")
    return statement


def _check_start(tokens: Sequence[Token]) -> None:
    word = tokens[0].text.upper()
    if word not in _STARTS:
        if word.startswith("\ufeff"):
            raise UnsafeSql("the query starts with a byte-order mark; send plain text")
        advice = _INSTEAD.get(word, "")
        raise UnsafeSql(
            f"only a SELECT query may run (also WITH ... SELECT); this starts with {word[:40]!r}"
            + (f"; {advice}" if advice else "")
        )


def _check_size(tokens: Sequence[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise UnsafeSql(f"the query is too long: {len(tokens)} words, at most {MAX_TOKENS}")
    depth = run = chain = 0
    for token in tokens:
        kind = token.token_type
        depth += (kind in _OPEN) - (kind in _CLOSE)
        run = run + 1 if kind in _PREFIX else 0
        chain = chain + 1 if kind in _LINK else 0 if kind in _PARTING else chain
        if depth > MAX_DEPTH or run > MAX_PREFIX_RUN or chain > MAX_CHAIN:
            raise UnsafeSql(f"the query is nested deeper than {MAX_DEPTH} levels; write it flatter")


def _check_characters(tokens: Sequence[Token]) -> None:
    """Outside strings, comments and quotes, only letters: no look-alike of a sign or a space."""
    for token in tokens:
        text = token.text
        if token.token_type not in _QUOTED and not text.isascii():
            odd = next((c for c in text if not (c.isascii() or f"a{c}".isidentifier())), None)
            if odd is not None:
                raise UnsafeSql(
                    f"the character U+{ord(odd):04X} may stand in quotes only; "
                    "write plain ASCII signs and spaces"
                )


def _check_gaps(tokens: Sequence[Token], text: str) -> None:
    """Between two tokens only ASCII white space, as far as no comment begins."""
    end = 0
    for token in tokens:
        gap = _COMMENT.split(text[end : token.start], maxsplit=1)[0]
        if not gap.isascii():
            odd = next(c for c in gap if not c.isascii())
            raise UnsafeSql(
                f"the character U+{ord(odd):04X} separates words; write plain ASCII spaces"
            )
        end = token.end + 1


def _check_second_statement(tokens: Sequence[Token]) -> None:
    before = None
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        word = token.text.upper()
        if (
            word in _TSQL_STATEMENTS
            and token.token_type not in _QUOTED
            and (before is None or before.token_type not in (TokenType.DOT, TokenType.ALIAS))
            and not (word == "MERGE" and after is not None and after.token_type is TokenType.JOIN)
        ):
            raise UnsafeSql(f"only one SELECT query may run; {word} starts another statement")
        before = token


def _check_divisions(tokens: Sequence[Token]) -> None:
    """T-SQL has no DIV. The parser writes it as casts, which takes time by the square."""
    if sum(token.token_type is TokenType.DIV for token in tokens) > MAX_DIVISIONS:
        raise UnsafeSql("T-SQL has no DIV operator; write / between whole numbers")


def _check_json_keys(tokens: Sequence[Token]) -> None:
    """``j -> 'a.b'`` is one key in DuckDB; the parser would make it a path of two."""
    for arrow, key in itertools.pairwise(tokens):
        if arrow.token_type in _JSON_ARROWS and key.token_type is TokenType.STRING:
            plain = not key.text.startswith(("$", "/"))
            if plain and not _PATH_SIGNS.isdisjoint(key.text):
                raise UnsafeSql(f"write the JSON key {key.text!r} as the path '$.\"{key.text}\"'")


def _check_distances(tokens: Sequence[Token]) -> None:
    """``<=>`` is a distance of vectors here; the parser would make it an equality."""
    for token in tokens:
        if token.token_type is TokenType.NULLSAFE_EQ:
            raise UnsafeSql(
                "the operator <=> is not read here; write cosine_distance(a, b) or, in "
                "DuckDB, list_cosine_distance(a, b) for vectors, or "
                "IS NOT DISTINCT FROM for an equality of values that may be null"
            )


_PATH_SIGNS = frozenset(".[*:")
_JSON_ARROWS = {TokenType.ARROW, TokenType.DARROW}
_QUOTED = {
    TokenType.STRING,
    TokenType.IDENTIFIER,
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
    TokenType.HEREDOC_STRING,
    TokenType.UNICODE_STRING,
    TokenType.BYTE_STRING,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
}


_VERBS = {
    TokenType.ALTER,
    TokenType.CREATE,
    TokenType.DESCRIBE,
    TokenType.DROP,
    TokenType.GRANT,
    TokenType.INSERT,
    TokenType.INSTALL,
    TokenType.REVOKE,
    TokenType.ROLLBACK,
}
_BEFORE_NAME = {
    TokenType.WITH,
    TokenType.RECURSIVE,
    TokenType.FROM,
    TokenType.JOIN,
    TokenType.COMMA,
    TokenType.DOT,
    TokenType.ALIAS,
}
_AFTER_COLUMN = {TokenType.COMMA, TokenType.FROM, TokenType.ALIAS}


def _names_told_apart(tokens: list[Token], dialect: str) -> list[Token]:
    """``WITH drop AS (...) SELECT * FROM drop``: where a name must stand, the verb is a name."""
    told = list(tokens)
    for i, token in enumerate(tokens[1:], start=1):
        if token.token_type in _VERBS and _is_name(tokens, i, dialect):
            told[i] = Token(
                TokenType.VAR, token.text, token.line, token.col, token.start, token.end
            )
    return told


def _is_name(tokens: list[Token], i: int, dialect: str) -> bool:
    before = tokens[i - 1].token_type
    after = tokens[i + 1].token_type if i + 1 < len(tokens) else None
    if dialect == "tsql":  # elsewhere the verb may begin the next statement
        return before is TokenType.DOT
    if before in _BEFORE_NAME or after is TokenType.DOT:
        return True
    return before is TokenType.SELECT and after in _AFTER_COLUMN


def _parse(tokens: list[Token], text: str, engine: Dialect) -> exp.Expr:
    parser = engine.parser(error_level=ErrorLevel.IMMEDIATE)
    try:
        trees = parser.parse(tokens, text)
    except RecursionError:
        raise
    except ParseError as error:
        raise UnsafeSql(f"the query cannot be parsed: {_first_line(error)}") from None
    except Exception:  # noqa: BLE001 - odd text must be refused, never crash
        raise UnsafeSql(
            "the query cannot be parsed: it holds an operator or a clause that is not known here; "
            "write it in plain SQL"
        ) from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise UnsafeSql("exactly one statement may run; send the queries one by one")
    return found[0]


def _first_line(error: Exception) -> str:
    details = cast("list[dict[str, Any]]", getattr(error, "errors", None) or [])
    if not details:
        return str(error).splitlines()[0][:200]
    first = details[0]
    near = f"{first.get('start_context', '')}{first.get('highlight', '')}"[-60:]
    where = f"line {first.get('line')}, column {first.get('col')}"
    return f"{str(first.get('description', ''))[:160]} ({where}, near {near!r})"
