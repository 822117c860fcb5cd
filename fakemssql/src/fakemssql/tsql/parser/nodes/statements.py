"""Nodes of statements: control of flow, variables, transactions, EXECUTE, and changes of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fakemssql.tsql.parser.nodes.queries import Cte, Expr, Hint, Name, Query, SelectItem, Source, Top
from fakemssql.types import SqlType


@dataclass
class Statement:
    line: int = field(default=0, kw_only=True)
    text: str = field(default="", kw_only=True)


@dataclass
class SelectStatement(Statement):
    query: Query


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
    variable: str | None = None  # holds the procedure's name


@dataclass
class Declare(Statement):
    name: str
    type: SqlType
    value: Expr | None
    output: bool = False


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
    """BREAK, CONTINUE or CHECKPOINT."""

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


@dataclass
class Kill(Statement):
    session: int


@dataclass
class Dbcc(Statement):
    command: str
    arguments: list[Expr]


@dataclass
class Output:
    """OUTPUT clause: with ``into`` (a name or a ``@variable``) or to the client."""

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


@dataclass
class Truncate(Statement):
    target: Name
