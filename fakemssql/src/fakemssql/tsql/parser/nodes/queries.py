"""Nodes of expressions, predicates and queries: SELECT, FROM, set operations, common table expressions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fakemssql.types import SqlType

Name = tuple[str, ...]
"""Name of one to four parts, outermost first; an omitted part (``db..t``) is an empty string."""


class Expr:
    """Scalar expression or predicate."""

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
class Collate(Expr):
    value: Expr
    collation: str


@dataclass(slots=True)
class Updated(Expr):
    """UPDATE(column) in a trigger."""

    column: str


@dataclass(slots=True)
class OrderItem:
    value: Expr
    descending: bool


@dataclass(slots=True)
class Hint:
    name: str
    args: list[str] = field(default_factory=list)


class Source:
    """Item of a FROM clause."""

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
    """Query expression; ``body`` is a Select, Values, SetOperation or Query (a parenthesised one)."""

    body: Any
    ctes: list[Cte] = field(default_factory=list)
    order: list[OrderItem] = field(default_factory=list)
    offset: Expr | None = None
    fetch: Expr | None = None
