"""Statements that change rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakemssql.tsql.parser.nodes.queries import Cte, Expr, Hint, Name, Query, SelectItem, Source, Top
from fakemssql.tsql.parser.nodes.statements import Execute, Statement


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
