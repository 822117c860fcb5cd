"""Plan of a statement: the SQL for PostgreSQL, its parameters, and the use of its result."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fakemssql.tsql.catalog.catalog import Answers
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.scopes import Typed
from fakemssql.types import SqlType

MADE = "@@made"
"""Variable to which an INSERT under IDENTITY_INSERT assigns its identity value."""


@dataclass(slots=True)
class PreparedStatement:
    """PreparedStatement statement of PostgreSQL, which all plans with its text share."""

    name: bytes
    plans: int = 0
    uses: int = 0


@dataclass(slots=True)
class Plan:
    """Plan of a statement. Without a result set ``columns`` is None; ``assign`` takes the values of the last row."""

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
    prepared: PreparedStatement = field(default_factory=lambda: PreparedStatement(b""))
    selects: bool = False
    node: object = None  # keeps the statement alive, because its id is a key of the cache
    answers: Answers = field(default_factory=dict)  # of the catalog, from which it was compiled
    version: int = 0  # of the catalog in which these answers hold

    @property
    def name(self) -> bytes:
        """Name of the prepared statement; empty at the first use, because most statements are run once."""
        return self.prepared.name if self.prepared.uses > 1 else b""


def finish(
    c: Compilation,
    sql: str,
    *,
    columns: list[Typed] | None = None,
    assign: list[tuple[str, SqlType]] | None = None,
    selects: bool = False,
    writes: bool = False,
    table: TableInfo | None = None,
    identity: TableInfo | None = None,
) -> Plan:
    """Return the plan of a statement that is compiled to ``sql``, with its locks."""
    plan = Plan(sql if "\x01" in sql else pruned(c, sql), c.parameters, c.oids, c.kinds, columns, assign or [])
    plan.selects, plan.writes, plan.table, plan.identity = selects, writes, table, identity
    plan.before = list(dict.fromkeys(text for text, _ in c.table_locks))
    transient_tables = all(transient for _, transient in c.table_locks)
    plan.transient = (
        (c.has_transient_locks or bool(c.table_locks and transient_tables)) and not c.has_held_locks and not plan.writes
    )
    plan.dirty = c.reads_dirty
    if columns is not None and any(column.type is not None and column.type.length == -1 for column in columns):
        plan.chunk = 32
    return plan


def pruned(c: Compilation, sql: str) -> str:
    """Remove unused computed columns of locking subqueries from ``sql``, as a BodyString over every body."""
    for column, piece in c.prunable_columns:
        if not re.search(rf"\b{re.escape(column)}\b", sql):
            sql = sql.replace(piece, "NULL::int4 AS " + piece.rsplit(" AS ", 1)[1], 1)
    return sql
