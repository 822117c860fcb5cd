"""Queries: SELECT, FROM, set operations, common table expressions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fakemssql.tsql.parser.nodes.expressions import Expr, Name


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
