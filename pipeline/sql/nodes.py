"""What may stand in the syntax tree of a read-only query. Everything else is refused.

Names are sqlglot's. A class that a later sqlglot adds is refused until it is listed here.
"""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp

_STRUCTURE = """
    Select Union Except Intersect Subquery Values With CTE RecursiveWithSearch From Join JoinHint
    Lateral Table TableAlias TableSample TableFromRows TableColumn Where Group Having HavingMax
    Qualify Order Ordered Limit LimitOptions Offset Fetch Window WindowSpec WithinGroup Filter
    IgnoreNulls RespectNulls Distinct Cube Rollup GroupingSets Cluster Distribute Sort Pivot
    PivotAlias PivotAny UnpivotColumns MatchRecognize MatchRecognizeMeasure Connect Prior
    ForClause XMLKeyValueOption XMLNamespace QueryOption WithTableHint Version HistoricalData
    AtIndex
"""
_EXPRESSIONS = """
    Alias Aliases Column ColumnDef Identifier Star Dot Literal National RawString ByteString
    HexString BitString UnicodeString Heredoc Boolean Null Var Paren Tuple Bracket Slice Kwarg
    PropertyEQ Lambda Comprehension ForIn Interval IntervalSpan DataType DataTypeParam PseudoType
    ObjectIdentifier CharacterSet Between In Is Like ILike SimilarTo Escape Glob Any All Exists
    Add Sub Mul Div IntDiv Mod Neg Not And Or Xor DPipe EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift Distance
    DistanceNd Adjacent Overlaps ExtendsLeft ExtendsRight AtTimeZone FromTimeZone Variadic
    PositionalColumn Pseudocolumn Binary Unary Predicate Condition Subscript
    JSON JSONKeyValue JSONValue JSONColumnDef JSONSchema JSONExtractQuote FormatJson OnCondition
    OpenJSONColumnDef NestedJSONSelect JSONPath JSONPathFilter JSONPathKey JSONPathPart
    JSONPathRecursive JSONPathRoot JSONPathScript JSONPathSelector JSONPathSlice JSONPathSubscript
    JSONPathUnion JSONPathWildcard OverflowTruncateBehavior TranslateCharacters
"""
_FORBIDDEN_FUNCTIONS = """
    AIAgg AIClassify AIEmbed AIForecast AIGenerate AISimilarity AISummarizeAgg FeaturesAtTime
    GenerateBool GenerateDouble GenerateEmbedding GenerateInt GenerateTable GenerateText MLForecast
    MLTranslate Predict VectorSearch ReadCSV ReadParquet ToFile Secret DynamicIdentifier
    NextValueFor CurrentAccount CurrentAccountName CurrentAvailableRoles CurrentClient
    CurrentIpAddress CurrentOrganizationName CurrentOrganizationUser CurrentSecondaryRoles
    CurrentSession CurrentStatement CurrentTransaction
"""
_NAMED_FUNCTIONS = "Anonymous AnonymousAggFunc CombinedAggFunc CombinedParameterizedAgg"

WHAT_IT_IS: dict[str, str] = {
    "Lock": "locks rows",
    "Into": "writes its result into a table",
    "Insert": "writes rows",
    "Update": "changes rows",
    "Delete": "deletes rows",
    "Merge": "changes rows",
    "Create": "creates an object",
    "Drop": "drops an object",
    "Alter": "changes an object",
    "Command": "is a command, not a query",
    "Set": "changes the session",
    "NextValueFor": "advances a sequence",
    "QueryTransform": "runs a script",
    "Placeholder": "is a parameter without a value; write the value itself",
    "Parameter": "is a variable; write the value itself",
    "SessionParameter": "reads the session; write the value itself",
    "Operator": "calls an operator by name; use the plain operator",
    "Describe": "describes a table; use lookup_schema for columns",
    "Show": "lists objects; use lookup_schema or search_tables",
    "Summarize": "summarises a table; select the aggregates you need",
    "Pragma": "changes or reads the engine's settings",
    "UserDefinedFunction": "defines a function",
    "Changes": "reads the change log of a table",
    "SemanticView": "reads a semantic view",
}
"""Plain words for refused nodes that models are likely to write."""


def _classes(names: str) -> set[type[exp.Expr]]:
    found = (cast("Any", getattr(exp, name, None)) for name in names.split())
    return {cast("type[exp.Expr]", kind) for kind in found if kind is not None}


ROW_SOURCES = frozenset(
    _classes("Unnest OpenJSON JSONTable XMLTable GapFill Explode ExplodeOuter Posexplode")
    | _classes("PosexplodeOuter Inline Flatten GenerateSeries")
)
"""Functions with a syntax of their own that may stand where a table stands."""
NAMED_FUNCTIONS = frozenset(_classes(_NAMED_FUNCTIONS))
"""Function calls that sqlglot does not know; they are allowed by name only."""
FORBIDDEN_FUNCTIONS = frozenset(_classes(_FORBIDDEN_FUNCTIONS))
"""Functions that sqlglot knows and that read files, call services or change state."""
TYPED_FUNCTIONS = frozenset(set(exp.ALL_FUNCTIONS) - FORBIDDEN_FUNCTIONS - NAMED_FUNCTIONS)
ALLOWED = frozenset(_classes(_STRUCTURE + _EXPRESSIONS) | TYPED_FUNCTIONS)
ROOTS = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
