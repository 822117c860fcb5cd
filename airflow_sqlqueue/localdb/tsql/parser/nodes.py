"""The syntax tree of Transact-SQL as far as the local server knows the language."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_sqlqueue.localdb.types import SqlType

Name = tuple[str, ...]
"""A name of one to four parts, outermost first; an omitted part (``db..t``) is an empty string."""


class Expr:
    """A scalar expression or a predicate; which of the two is found out by the compiler, as SQL Server does."""

    __slots__ = ()


@dataclass(slots=True)
class Literal(Expr):
    kind: str  # int, numeric, float, money, varchar, nvarchar, binary, null, default
    value: Any


@dataclass(slots=True)
class Variable(Expr):
    name: str  # folded, with @


@dataclass(slots=True)
class Column(Expr):
    name: Name
    line: int = 0


@dataclass(slots=True)
class Star(Expr):
    qualifier: Name


@dataclass(slots=True)
class Window:
    partition: list[Expr]
    order: list[OrderItem]
    frame: str


@dataclass(slots=True)
class Function(Expr):
    name: Name
    args: list[Expr]
    distinct: bool = False
    star: bool = False
    over: Window | None = None
    within: list[OrderItem] | None = None
    line: int = 0


@dataclass(slots=True)
class Cast(Expr):
    value: Expr
    type: SqlType
    attempt: bool = False
    style: Expr | None = None


@dataclass(slots=True)
class Unary(Expr):
    op: str  # + - ~ not
    value: Expr


@dataclass(slots=True)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True)
class Case(Expr):
    operand: Expr | None
    whens: list[tuple[Expr, Expr]]
    otherwise: Expr | None


@dataclass(slots=True)
class Subquery(Expr):
    query: Query


@dataclass(slots=True)
class Exists(Expr):
    query: Query


@dataclass(slots=True)
class In(Expr):
    value: Expr
    items: list[Expr] | None
    query: Query | None
    negated: bool


@dataclass(slots=True)
class Like(Expr):
    value: Expr
    pattern: Expr
    escape: Expr | None
    negated: bool


@dataclass(slots=True)
class Between(Expr):
    value: Expr
    low: Expr
    high: Expr
    negated: bool


@dataclass(slots=True)
class IsNull(Expr):
    value: Expr
    negated: bool


@dataclass(slots=True)
class IsDistinct(Expr):
    left: Expr
    right: Expr
    negated: bool


@dataclass(slots=True)
class Quantified(Expr):
    op: str
    left: Expr
    all: bool
    query: Query


@dataclass(slots=True)
class Collate(Expr):
    value: Expr
    collation: str


@dataclass(slots=True)
class AtTimeZone(Expr):
    value: Expr
    zone: Expr


@dataclass(slots=True)
class NextValue(Expr):
    name: Name


# --- queries -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OrderItem:
    value: Expr
    descending: bool


@dataclass(slots=True)
class Hint:
    name: str
    args: list[str] = field(default_factory=list)


class Source:
    """Something in a FROM clause."""

    __slots__ = ()


@dataclass(slots=True)
class TableSource(Source):
    name: Name
    alias: str
    hints: list[Hint]
    line: int = 0


@dataclass(slots=True)
class VariableSource(Source):
    name: str
    alias: str


@dataclass(slots=True)
class QuerySource(Source):
    query: Query
    alias: str
    columns: list[str]


@dataclass(slots=True)
class FunctionSource(Source):
    name: Name
    args: list[Expr]
    alias: str
    columns: list[str]
    schema: list[tuple[str, SqlType, str | None, bool]] | None
    line: int = 0


@dataclass(slots=True)
class Join(Source):
    kind: str  # inner left right full cross cross_apply outer_apply
    left: Source
    right: Source
    on: Expr | None


@dataclass(slots=True)
class Top:
    value: Expr
    percent: bool
    ties: bool


@dataclass(slots=True)
class SelectItem:
    value: Expr
    alias: str | None = None
    variable: str | None = None
    op: str = "="


@dataclass(slots=True)
class Select:
    items: list[SelectItem]
    distinct: bool = False
    top: Top | None = None
    into: Name | None = None
    sources: list[Source] = field(default_factory=list)
    where: Expr | None = None
    group: list[Expr] = field(default_factory=list)
    grouping: str = ""
    having: Expr | None = None
    line: int = 0


@dataclass(slots=True)
class Values:
    rows: list[list[Expr]]


@dataclass(slots=True)
class SetOperation:
    op: str  # union, union all, except, intersect
    left: Any
    right: Any


@dataclass(slots=True)
class Cte:
    name: str
    columns: list[str]
    query: Query


@dataclass(slots=True)
class Query:
    """A query expression; ``body`` is a Select, Values, SetOperation or Query (a parenthesised one)."""

    body: Any
    ctes: list[Cte] = field(default_factory=list)
    order: list[OrderItem] = field(default_factory=list)
    offset: Expr | None = None
    fetch: Expr | None = None
    for_clause: str = ""
    for_options: dict[str, str] = field(default_factory=dict)


# --- statements ----------------------------------------------------------------------------------------------------


@dataclass
class Statement:
    line: int = field(default=0, kw_only=True)
    text: str = field(default="", kw_only=True)


@dataclass
class SelectStatement(Statement):
    query: Query


@dataclass
class Output:
    """One OUTPUT clause: with ``into`` (a name or a ``@variable``) or to the client."""

    items: list[SelectItem]
    into: Name | None = None
    columns: list[str] = field(default_factory=list)


@dataclass
class Insert(Statement):
    target: Name
    columns: list[str]
    hints: list[Hint]
    source: Query | Execute | None  # None: DEFAULT VALUES
    outputs: list[Output]
    ctes: list[Cte]
    top: Top | None = None


@dataclass
class Assignment:
    column: str | None
    variable: str | None
    op: str
    value: Expr


@dataclass
class Update(Statement):
    target: Name
    hints: list[Hint]
    assignments: list[Assignment]
    outputs: list[Output]
    sources: list[Source]
    where: Expr | None
    ctes: list[Cte]
    top: Top | None = None


@dataclass
class Delete(Statement):
    target: Name
    hints: list[Hint]
    outputs: list[Output]
    sources: list[Source]
    where: Expr | None
    ctes: list[Cte]
    top: Top | None = None


@dataclass
class MergeAction:
    matched: str  # matched, target (not matched by target), source
    condition: Expr | None
    action: str  # update, delete, insert
    assignments: list[Assignment]
    columns: list[str]
    values: list[Expr] | None


@dataclass
class Merge(Statement):
    target: Name
    alias: str
    hints: list[Hint]
    source: Source
    on: Expr
    actions: list[MergeAction]
    outputs: list[Output]
    ctes: list[Cte]
    top: Top | None = None


@dataclass
class Truncate(Statement):
    target: Name


@dataclass
class Argument:
    name: str
    value: Expr | None  # None: DEFAULT
    output: bool


@dataclass
class Execute(Statement):
    procedure: Name | None
    arguments: list[Argument]
    result: str | None
    text_expr: Expr | None = None


@dataclass
class Declare(Statement):
    name: str
    type: SqlType
    value: Expr | None
    output: bool = False


@dataclass
class DeclareTable(Statement):
    name: str
    table: CreateTable


@dataclass
class SetVariable(Statement):
    name: str
    op: str
    value: Expr


@dataclass
class SetOption(Statement):
    options: list[str]
    value: Any


@dataclass
class Block(Statement):
    body: list[Statement]


@dataclass
class If(Statement):
    condition: Expr
    then: Statement
    otherwise: Statement | None


@dataclass
class While(Statement):
    condition: Expr
    body: Statement


@dataclass
class TryCatch(Statement):
    body: list[Statement]
    handler: list[Statement]


@dataclass
class Simple(Statement):
    """BREAK, CONTINUE, CHECKPOINT and other words without operands."""

    kind: str


@dataclass
class Return(Statement):
    value: Expr | None


@dataclass
class Print(Statement):
    value: Expr


@dataclass
class Throw(Statement):
    number: Expr | None
    message: Expr | None
    state: Expr | None


@dataclass
class RaiseError(Statement):
    message: Expr
    severity: Expr
    state: Expr
    arguments: list[Expr]
    options: list[str]


@dataclass
class WaitFor(Statement):
    kind: str
    value: Expr


@dataclass
class Use(Statement):
    database: str


@dataclass
class Transaction(Statement):
    kind: str  # begin commit rollback save
    name: str | None
    work: bool = False


# --- definitions ---------------------------------------------------------------------------------------------------


@dataclass
class ColumnDefinition:
    name: str
    type: SqlType | None
    nullable: bool | None = None
    identity: tuple[int, int] | None = None
    default: tuple[str, Expr, str] | None = None  # constraint name, expression, text
    computed: tuple[Expr, str] | None = None
    persisted: bool = False
    collation: str = ""
    rowguid: bool = False


@dataclass
class KeyColumn:
    name: str
    descending: bool = False


@dataclass
class Constraint:
    kind: str  # primary, unique, foreign, check, default
    name: str
    columns: list[KeyColumn] = field(default_factory=list)
    clustered: bool | None = None
    expression: Expr | None = None
    text: str = ""
    reference: Name = ()
    reference_columns: list[str] = field(default_factory=list)
    on_delete: str = ""
    on_update: str = ""


@dataclass
class IndexDefinition(Statement):
    name: str
    table: Name
    columns: list[KeyColumn]
    unique: bool = False
    clustered: bool = False
    include: list[str] = field(default_factory=list)
    where: Expr | None = None
    where_text: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class CreateTable(Statement):
    name: Name
    columns: list[ColumnDefinition]
    constraints: list[Constraint]
    indexes: list[IndexDefinition]


@dataclass
class AlterTable(Statement):
    name: Name
    action: str
    columns: list[ColumnDefinition] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    names: list[tuple[str, str, bool]] = field(default_factory=list)  # kind, name, IF EXISTS
    indexes: list[IndexDefinition] = field(default_factory=list)


@dataclass
class AlterIndex(Statement):
    name: str | None  # None: ALL
    table: Name
    action: str


@dataclass
class Drop(Statement):
    kind: str
    names: list[Name]
    if_exists: bool
    table: Name = ()


@dataclass
class CreateSchema(Statement):
    name: str


@dataclass
class CreateDatabase(Statement):
    name: str


@dataclass
class AlterDatabase(Statement):
    name: str
    options: list[str]


@dataclass
class CreateSynonym(Statement):
    name: Name
    target: Name
    target_text: str


@dataclass
class CreateView(Statement):
    name: Name
    columns: list[str]
    query: Query
    mode: str  # create, alter, create or alter


@dataclass
class CreateModule(Statement):
    """CREATE PROCEDURE, TRIGGER or FUNCTION: ``body`` is None for what can only be recorded or refused."""

    kind: str
    name: Name
    mode: str
    parameters: list[Declare] = field(default_factory=list)
    body: list[Statement] | None = None
    table: Name = ()
    events: list[str] = field(default_factory=list)


@dataclass
class CreateSequence(Statement):
    name: Name
    type: SqlType
    start: int | None
    increment: int


@dataclass
class TriggerState(Statement):
    name: str
    table: Name
    enabled: bool


@dataclass
class Grant(Statement):
    kind: str


@dataclass
class Dbcc(Statement):
    command: str
    arguments: list[Expr]
