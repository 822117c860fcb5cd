"""Scopes of names, and PostgreSQL expressions with their T-SQL types."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.locks import Locking
from fakemssql.tsql.names import fold
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


@dataclass(slots=True)
class Typed:
    """PostgreSQL expression with its T-SQL type, None for the untyped NULL; ``constant`` is the value of a literal."""

    sql: str
    type: SqlType | None
    nullable: bool = True
    identity: bool = False
    binary: bool = False
    constant: Any = None
    name: str = ""
    origin: str = ""  # the quoted PostgreSQL column of the base table, if this is one
    collation: str = ""  # of a text; empty: coercible-default, which gives way to every other
    explicit: bool = False  # the collation is that of a COLLATE in the expression

    def with_(self, **changes: Any) -> Typed:
        return replace(self, **changes)


@dataclass(slots=True)
class Scope:
    """Scope of an item of FROM: an alias and its columns. ``ctid`` is the row of its base table, if there is one."""

    alias: str  # folded
    columns: list[Typed]
    table: TableInfo | None = None
    exposed: tuple[str, ...] = ()
    ctid: str = ""

    def find(self, folded: str) -> list[Typed]:
        return [column for column in self.columns if column.name.rstrip(" ").lower() == folded]


@dataclass(slots=True)
class RowLock:
    """Lock on the rows of one table source."""

    alias: str
    how: Locking
    sql: str  # the table with its alias, as in FROM
    scope: Scope

    @property
    def clause(self) -> str:
        return f" FOR {self.how.strength} OF {self.alias}{self.how.wait}"


@dataclass(slots=True)
class Names:
    """Names of one level of a query: its scopes, and the names of the outer level."""

    scopes: list[Scope] = field(default_factory=list)
    parent: Names | None = None
    ctes: dict[str, Any] = field(default_factory=dict)
    grouped: dict[str, bool] | None = None  # SQL of the GROUP BY expressions -> whether it needs any_value
    in_aggregate: bool = False
    aggregates: bool = False
    windows: list[tuple[bool, str, str]] = field(default_factory=list)  # partitioned, order, frame
    group_expressions: bool = False
    locks: list[RowLock] = field(default_factory=list)

    def cte(self, folded: str) -> Any:
        names: Names | None = self
        while names is not None:
            if folded in names.ctes:
                return names.ctes[folded]
            names = names.parent
        return None


def with_ctes(ctes: list[nodes.Cte], parent: Names | None) -> Names | None:
    """Return a level of names that has the CTEs. Error 239 for two of one name."""
    known: set[str] = set()
    for cte in ctes:
        if fold(cte.name) in known:
            raise SqlError(239, f"Duplicate common table expression name '{cte.name}' was specified.")
        known.add(fold(cte.name))
        parent = Names(parent=parent, ctes={fold(cte.name): (cte, parent)})
    return parent
