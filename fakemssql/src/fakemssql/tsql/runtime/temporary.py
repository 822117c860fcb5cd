"""Temporary tables (#t) and table variables: PostgreSQL temporary tables that only this connection knows."""

from __future__ import annotations

import itertools
from typing import Protocol

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.columns import column_infos, column_sql
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.texts import check_sql, index_sql
from fakemssql.tsql.names import fold, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.pg import Pg, Request
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.transactions import Transactions

_serials = itertools.count(1)
"""No two tables of a process have one name: a plan that was made for one is not taken for another."""


class TableSession(Protocol):
    """What temporary tables need of the session that they are of."""

    created_tables: list[str]
    dropped_tables: list[TableInfo]

    @property
    def pg(self) -> Pg: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def definer(self) -> Definer: ...

    @property
    def transactions(self) -> Transactions: ...

    def info(self, message: SqlError) -> None: ...

    def keep_identities(self) -> None: ...


class Temporary:
    """Creates and drops the connection's temporary tables."""

    def __init__(self, session: TableSession) -> None:
        self.session, self.tables = session, session.catalog.temporary

    def find(self, name: nodes.Name) -> TableInfo:
        table = self.tables.get(fold(name[-1]))
        if table is None:
            raise SqlError(208, f"Invalid object name '{name[-1]}'.", state=0)
        return table

    def create(self, node: nodes.CreateTable) -> TableInfo:
        """``CREATE TABLE #t`` or ``DECLARE @t TABLE``; only #t is kept by name."""
        name = node.name[-1]
        local = name.startswith("#")
        if local and fold(name) in self.tables:
            raise SqlError(2714, f"There is already an object named '{name}' in the database.", state=6)
        if name.startswith("##"):
            raise SqlError(40517, "A global temporary table is not supported by fakemssql.")
        serial = next(_serials)
        definer = self.session.definer
        table = TableInfo(
            name,
            "dbo",
            "tempdb",
            f"pg_temp.{quoted(f't{serial}')}",
            [],
            "U" if local else "TT",
            -serial,
            local=True,
        )
        primary = {fold(key.name) for c in node.constraints if c.kind == "primary" for key in c.columns}
        for definition in node.columns:
            if fold(definition.name) in primary:
                definition.nullable = False
        table.columns = column_infos(definer, table, node.columns)
        pairs = zip(table.columns, node.columns, strict=True)
        stored = [column_sql(definer, definition, info) for info, definition in pairs if definition.computed is None]
        self.session.pg.execute(f"CREATE TEMP TABLE {quoted(f't{serial}')} ({', '.join(stored)})")
        for position, constraint in enumerate(node.constraints):
            self._constraint(table, constraint, serial, position)
        for position, index in enumerate(node.indexes):
            self.session.pg.execute(index_sql(definer, table, index, f"t{serial}_i{position}")[0])
        if local:
            self.tables[fold(name)] = table
            self.session.catalog.version += 1
            self.session.created_tables.append(fold(name))
        return table

    def _constraint(self, table: TableInfo, constraint: nodes.Constraint, serial: int, position: int) -> None:
        name = f"t{serial}_c{position}"
        if constraint.kind in ("primary", "unique"):
            index = nodes.IndexDefinition(constraint.name or name, (), constraint.columns, True, False)
            self.session.pg.execute(index_sql(self.session.definer, table, index, name)[0])
        elif constraint.kind == "check":
            assert constraint.expression is not None
            text = check_sql(self.session.definer.environment(), table, constraint.expression)
            self.session.pg.execute(f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(name)} CHECK ({text})")
        elif constraint.kind == "foreign":
            self.session.info(
                SqlError(1766, "Foreign key references to temporary tables are not enforced.", severity=10)
            )

    def drop(self, name: nodes.Name, exists: bool) -> None:
        table = self.tables.pop(fold(name[-1]), None)
        if table is None:
            if exists:
                return
            raise SqlError(
                3701,
                f"Cannot drop the table '{name[-1]}', because it does not exist or you do not have permission.",
                severity=11,
                state=5,
            )
        if table.identity is not None:
            self.session.keep_identities()
        self.session.pg.execute(f"DROP TABLE {table.pg}")
        self.session.dropped_tables.append(table)
        self.session.catalog.version += 1

    def discard(self, frame: Frame) -> None:
        """Drop the table variables of a frame that ended; what cannot be dropped now goes with the connection."""
        own = [
            table
            for table in frame.tables.values()
            if frame.parent is None or table not in frame.parent.tables.values()
        ]
        pg = self.session.pg
        if pg.usable:
            if any(table.identity is not None for table in own):
                self.session.keep_identities()
            pg.run([Request(f"DROP TABLE IF EXISTS {table.pg}") for table in own])
        frame.tables.clear()

    def leave(self, before: set[str]) -> None:
        """Drop the temporary tables that a procedure or a dynamic text made: only those ``before`` it stay."""
        own = [name for name in self.tables if name not in before]
        session = self.session

        def drop() -> None:
            for name in own:
                self.drop((name,), True)

        if own and session.pg.usable and not session.transactions.doomed:
            session.transactions.define(drop)
