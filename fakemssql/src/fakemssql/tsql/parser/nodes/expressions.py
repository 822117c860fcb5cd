"""Expressions and predicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fakemssql.types import SqlType

if TYPE_CHECKING:
    from fakemssql.tsql.parser.nodes.queries import OrderItem, Query


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
class Updated(Expr):
    """UPDATE(column) in a trigger."""

    column: str
