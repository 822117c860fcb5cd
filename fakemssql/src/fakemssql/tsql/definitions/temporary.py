"""Temporary tables (#t) and table variables: PostgreSQL temporary tables that only this connection knows."""

from __future__ import annotations

import copy
import itertools
import secrets
from dataclasses import replace

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.columns import add_column, check_added, check_distinct, column_infos, column_sql
from fakemssql.tsql.definitions.constraints import bind_default, check_key
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.indexes import add_local_index, local_name
from fakemssql.tsql.definitions.texts import check_sql
from fakemssql.tsql.names import fold, literal, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors

_serials = itertools.count(1)
"""No two tables of a process have one name: a plan that was made for one is not taken for another."""


def create(d: Definer, node: nodes.CreateTable) -> TableInfo:
    """``CREATE TABLE #t`` or ``DECLARE @t TABLE``; only #t is kept by name."""
    name = node.name[-1]
    local = name.startswith("#")
    if local and fold(name) in d.catalog.temporary:
        raise SqlError(2714, f"There is already an object named '{name}' in the database.", state=6)
    if name.startswith("##"):
        raise SqlError(40517, "A global temporary table is not supported by fakemssql.")
    serial = next(_serials)
    pg = f"t{serial}"
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
    table.columns = column_infos(d, table, node.columns)
    pairs = zip(table.columns, node.columns, strict=True)
    stored = [column_sql(d, definition, info) for info, definition in pairs if definition.computed is None]
    d.pg.execute(f"CREATE TEMP TABLE {quoted(pg)} ({', '.join(stored)})")
    d.pg.execute(f"COMMENT ON TABLE {table.pg} IS {literal(name)}")
    for definition in node.columns:
        _named_default(table, definition)
    for constraint in node.constraints:
        _constraint(d, table, constraint)
    for index in node.indexes:
        add_local_index(d, table, index)
    if local:
        d.catalog.temporary[fold(name)] = table
        d.catalog.version += 1
        d.session.created_tables.append(fold(name))
    return table


def alter(d: Definer, node: nodes.AlterTable) -> None:
    """``ALTER TABLE #t ADD`` and ``DROP CONSTRAINT``."""
    old = d.temporary_table(node.name)
    table = replace(old, columns=[replace(column) for column in old.columns], extra=copy.deepcopy(old.extra))
    if node.action == "add":
        _add(d, table, node)
    for _, name, exists in node.names:
        _drop_constraint(d, table, name, exists)
    name, session = fold(table.name), d.session
    if name not in session.created_tables and all(fold(each.name) != name for each in session.dropped_tables):
        session.dropped_tables.append(old)
    d.catalog.temporary[name] = table
    d.catalog.version += 1


def _add(d: Definer, table: TableInfo, node: nodes.AlterTable) -> None:
    check_added(table, node.columns)
    number = max((column.column_id for column in table.columns), default=0)
    for definition, info in zip(node.columns, column_infos(d, table, node.columns, after=number), strict=True):
        add_column(d, table, definition, info)
        table.columns.append(info)
        _named_default(table, definition)
    for constraint in node.constraints:
        if constraint.kind == "primary":
            check_key(d, table, constraint)
            if _has_primary_key(d, table):
                raise SqlError(
                    1779, f"Table '{table.name}' already has a primary key defined on it.", severity=16, state=0
                )
        _constraint(d, table, constraint)
    for index in node.indexes:
        add_local_index(d, table, index)


def _has_primary_key(d: Definer, table: TableInfo) -> bool:
    rows = d.pg.query(
        "SELECT 1 FROM pg_index WHERE indrelid = to_regclass($1)"
        " AND obj_description(indexrelid, 'pg_class') LIKE 'PRIMARY KEY %'",
        table.pg,
    )
    return bool(rows)


def _named_default(table: TableInfo, definition: nodes.ColumnDefinition) -> None:
    column = table.column(definition.name)
    if definition.default is not None and definition.default[0] and column is not None:
        table.extra.setdefault("defaults", {})[fold(definition.default[0])] = column.pg


def _constraint(d: Definer, table: TableInfo, constraint: nodes.Constraint) -> None:
    if constraint.kind in ("primary", "unique"):
        code = "PK" if constraint.kind == "primary" else "UQ"
        name = constraint.name or f"{code}__{table.name[:9]}__{secrets.token_hex(8).upper()}"
        index = nodes.IndexDefinition(name, (), constraint.columns, True, False)
        add_local_index(d, table, index, constraint.kind)
    elif constraint.kind == "check":
        assert constraint.expression is not None
        text = check_sql(d.environment(), table, constraint.expression)
        name = constraint.name or f"CK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
        pg = local_name("ck", table, name)
        d.pg.execute(f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} CHECK ({text})")
    elif constraint.kind == "default":
        info = bind_default(d, table, constraint)
        info.default = True
        if constraint.name:
            table.extra.setdefault("defaults", {})[fold(constraint.name)] = info.pg
    elif constraint.kind == "foreign":
        d.session.info(SqlError(1766, "Foreign key references to temporary tables are not enforced.", severity=10))


def _drop_constraint(d: Definer, table: TableInfo, name: str, exists: bool) -> None:
    pg = d.pg
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


def drop(d: Definer, name: nodes.Name, exists: bool) -> None:
    table = d.catalog.temporary.pop(fold(name[-1]), None)
    if table is None:
        if exists:
            return
        raise errors.not_dropped("table", name[-1], state=5)
    if table.identity is not None:
        d.session.keep_identities()
    d.pg.execute(f"DROP TABLE {table.pg}")
    d.session.dropped_tables.append(table)
    d.catalog.version += 1
