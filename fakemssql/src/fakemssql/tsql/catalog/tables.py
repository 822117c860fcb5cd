"""Tables of the catalog: columns, indexes and names in PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fakemssql.tsql.names import fold
from fakemssql.types import SqlType

DERIVED = ""
"""Value of :attr:`ColumnInfo.computed` for a column of a view that is not a column of its base table."""


@dataclass(slots=True)
class ColumnInfo:
    name: str
    pg: str
    type: SqlType
    nullable: bool = True
    identity: bool = False
    computed: str | None = None
    binary: bool = False
    column_id: int = 0
    default: bool = False
    seed: int = 1
    increment: int = 1
    collation: str = ""  # of a text; empty in system views, whose texts conflict with none

    @property
    def folded(self) -> str:
        return fold(self.name)


@dataclass(slots=True)
class IndexInfo:
    name: str
    index_id: int
    type: int
    pg: str
    disabled: bool
    first: str = ""  # the folded name of its first key column


@dataclass(slots=True)
class TableInfo:
    """Table, view or synonym; ``pg`` is the qualified, quoted PostgreSQL name."""

    name: str
    schema: str
    database: str
    pg: str
    columns: list[ColumnInfo]
    type: str = "U"
    object_id: int = 0
    triggers: frozenset[str] = frozenset()  # the events with enabled triggers
    definition: str = ""
    indexes: list[IndexInfo] = field(default_factory=list)
    local: bool = False  # a temporary table or a table variable
    database_filter: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    owner: int = 1  # the principal that owns its schema; 1 is dbo
    foreign_key: str = ""  # a foreign key of it or to it
    check: str = ""  # a check constraint
    filtered: bool = False  # it has a filtered index

    def column(self, name: str) -> ColumnInfo | None:
        folded = fold(name)
        for column in self.columns:
            if column.folded == folded:
                return column
        return None

    @property
    def identity(self) -> ColumnInfo | None:
        return next((column for column in self.columns if column.identity), None)

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableFunction:
    """Table-valued system function; ``pg`` is the qualified, quoted PostgreSQL name."""

    pg: str
    arguments: list[SqlType]
    columns: list[ColumnInfo]


DEFAULT_COLLATION = "SQL_Latin1_General_CP1_CI_AS"


def is_binary_collation(collation: str | None) -> bool:
    """Return whether ``collation`` is case-sensitive."""
    upper = (collation or "").upper()
    return "_BIN" in upper or "_CS" in upper
