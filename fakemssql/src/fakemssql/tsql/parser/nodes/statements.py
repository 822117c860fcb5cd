"""What every statement has, control of flow, variables, transactions, EXECUTE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fakemssql.tsql.parser.nodes.queries import Expr, Name, Query
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


@dataclass
class Kill(Statement):
    session: int


@dataclass
class Dbcc(Statement):
    command: str
    arguments: list[Expr]
