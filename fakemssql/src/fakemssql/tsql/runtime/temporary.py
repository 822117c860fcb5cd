"""Temporary tables (#t) and table variables: PostgreSQL temporary tables that only this connection knows."""

from __future__ import annotations

import copy
import itertools
import secrets
from dataclasses import replace
from typing import Protocol

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.catalog import Catalog
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.columns import add_column, check_added, check_distinct, column_infos, column_sql
from fakemssql.tsql.definitions.constraints import bind_default, check_key
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.indexes import add_local_index, local_name
from fakemssql.tsql.definitions.texts import check_sql
from fakemssql.tsql.names import fold, literal, quoted
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
        pg = f"t{serial}"
        definer = self.session.definer
        table = TableInfo(
            name,
            "dbo",
            "tempdb",
            f"pg_temp.{quoted(pg)}",
            [],
            "U" if local else "TT",
            -serial,
            local=True,
        )
        primary = {fold(key.name) for c in node.constraints if c.kind == "primary" for key in c.columns}
        for definition in node.columns:
            if fold(definition.name) in primary:
                definition.nullable = False
        check_distinct(name, node.columns)
        table.columns = column_infos(definer, table, node.columns)
        pairs = zip(table.columns, node.columns, strict=True)
        stored = [column_sql(definer, definition, info) for info, definition in pairs if definition.computed is None]
        self.session.pg.execute(f"CREATE TEMP TABLE {quoted(pg)} ({', '.join(stored)})")
        self.session.pg.execute(f"COMMENT ON TABLE {table.pg} IS {literal(name)}")
        for definition in node.columns:
            self._named_default(table, definition)
        for constraint in node.constraints:
            self._constraint(table, constraint)
        for index in node.indexes:
            add_local_index(definer, table, index)
        if local:
            self.tables[fold(name)] = table
            self.session.catalog.version += 1
            self.session.created_tables.append(fold(name))
        return table

    def alter(self, node: nodes.AlterTable) -> None:
        """``ALTER TABLE #t ADD`` and ``DROP CONSTRAINT``."""
        old = self.find(node.name)
        table = replace(old, columns=[replace(column) for column in old.columns], extra=copy.deepcopy(old.extra))
        if node.action == "add":
            self._add(table, node)
        for _, name, exists in node.names:
            self._drop_constraint(table, name, exists)
        name, session = fold(table.name), self.session
        if name not in session.created_tables and all(fold(each.name) != name for each in session.dropped_tables):
            session.dropped_tables.append(old)
        self.tables[name] = table
        session.catalog.version += 1

    def _add(self, table: TableInfo, node: nodes.AlterTable) -> None:
        definer = self.session.definer
        check_added(table, node.columns)
        number = max((column.column_id for column in table.columns), default=0)
        for definition, info in zip(
            node.columns, column_infos(definer, table, node.columns, after=number), strict=True
        ):
            add_column(definer, table, definition, info)
            table.columns.append(info)
            self._named_default(table, definition)
        for constraint in node.constraints:
            if constraint.kind == "primary":
                check_key(definer, table, constraint)
                if self._has_primary_key(table):
                    raise SqlError(
                        1779, f"Table '{table.name}' already has a primary key defined on it.", severity=16, state=0
                    )
            self._constraint(table, constraint)
        for index in node.indexes:
            add_local_index(definer, table, index)

    def _has_primary_key(self, table: TableInfo) -> bool:
        rows = self.session.pg.query(
            "SELECT 1 FROM pg_index WHERE indrelid = to_regclass($1)"
            " AND obj_description(indexrelid, 'pg_class') LIKE 'PRIMARY KEY %'",
            table.pg,
        )
        return bool(rows)

    def _named_default(self, table: TableInfo, definition: nodes.ColumnDefinition) -> None:
        column = table.column(definition.name)
        if definition.default is not None and definition.default[0] and column is not None:
            table.extra.setdefault("defaults", {})[fold(definition.default[0])] = column.pg

    def _constraint(self, table: TableInfo, constraint: nodes.Constraint) -> None:
        definer = self.session.definer
        if constraint.kind in ("primary", "unique"):
            code = "PK" if constraint.kind == "primary" else "UQ"
            name = constraint.name or f"{code}__{table.name[:9]}__{secrets.token_hex(8).upper()}"
            index = nodes.IndexDefinition(name, (), constraint.columns, True, False)
            add_local_index(definer, table, index, constraint.kind)
        elif constraint.kind == "check":
            assert constraint.expression is not None
            text = check_sql(definer.environment(), table, constraint.expression)
            name = constraint.name or f"CK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
            pg = local_name("ck", table, name)
            self.session.pg.execute(f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} CHECK ({text})")
        elif constraint.kind == "default":
            info = bind_default(definer, table, constraint)
            info.default = True
            if constraint.name:
                table.extra.setdefault("defaults", {})[fold(constraint.name)] = info.pg
        elif constraint.kind == "foreign":
            self.session.info(
                SqlError(1766, "Foreign key references to temporary tables are not enforced.", severity=10)
            )

    def _drop_constraint(self, table: TableInfo, name: str, exists: bool) -> None:
        pg = self.session.pg
        column = table.extra.get("defaults", {}).pop(fold(name), None)
        check, index = local_name("ck", table, name), local_name("ix", table, name)
        if column is not None:
            pg.execute(f"ALTER TABLE {table.pg} ALTER COLUMN {quoted(column)} DROP DEFAULT")
            next(each for each in table.columns if each.pg == column).default = False
        elif pg.query("SELECT 1 FROM pg_constraint WHERE conrelid = to_regclass($1) AND conname = $2", table.pg, check):
            pg.execute(f"ALTER TABLE {table.pg} DROP CONSTRAINT {quoted(check)}")
        elif pg.query(
            "SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND obj_description(oid, 'pg_class') ~ '^[PU]'",
            f"pg_temp.{quoted(index)}",
        ):
            pg.execute(f"DROP INDEX pg_temp.{quoted(index)}")
        elif not exists:
            raise SqlError(3728, f"'{name}' is not a constraint.")

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
