"""A compiled statement: what is sent to PostgreSQL and what becomes of the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.typed import Typed
from fakemssql.types import SqlType

MADE = "@@made"
"""The variable to which an INSERT with IDENTITY_INSERT assigns the identity value it was given."""


@dataclass(slots=True)
class Plan:
    """``columns`` is None for a statement without a result set; ``assign`` receives the last row's values instead."""

    sql: str
    parameters: list[str]
    oids: list[int]
    kinds: list[SqlType]
    columns: list[Typed] | None = None
    assign: list[tuple[str, SqlType]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # LOCK TABLE statements
    prelock: str = ""  # a query with the same parameters that locks the rows first
    transient: bool = False  # its locks end with the statement
    dirty: bool = False  # it reads under NOLOCK
    writes: bool = False
    identity: TableInfo | None = None
    table: TableInfo | None = None
    chunk: int = 512
    name: bytes = b""
    selects: bool = False
    uses: int = 0
    node: object = None  # keeps the statement alive, whose id is a key of the cache
