"""Temporary tables (#t) and table variables: temporary tables of PostgreSQL, which only their connection sees."""

from __future__ import annotations

import itertools
import secrets

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.columns import check_sql, new_columns
from fakemssql.tsql.definitions.constraints import bind_default, making_a_constraint
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.indexes import add_local_index, local_name
from fakemssql.tsql.names import fold, literal, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors

_serials = itertools.count(1)
"""Numbers for the names of tables: all differ in a process, so that no plan is used for another table."""


def create(d: Definer, node: nodes.CreateTable) -> TableInfo:
    """Make a table for ``CREATE TABLE #t`` or ``DECLARE @t TABLE``; only #t is recorded by name."""
    name = node.name[-1]
    local = name.startswith("#")
    known = d.catalog.temporary.get(fold(name)) if local else None
    if known is not None and known.pg not in d.session.outer_tables:
        raise errors.object_exists(name)
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
    _, stored = new_columns(d, table, node)
    d.pg.execute(f"CREATE TEMP TABLE {quoted(pg)} ({stored})")
    d.pg.execute(f"COMMENT ON TABLE {table.pg} IS {literal(name)}")
    for constraint in node.constraints:
        with making_a_constraint():
            _constraint(d, table, constraint)
    for index in node.indexes:
        add_local_index(d, table, index)
    if local:
        d.catalog.temporary[fold(name)] = table
        d.catalog.version += 1
    return table


def _constraint(d: Definer, table: TableInfo, constraint: nodes.Constraint) -> None:
    if constraint.kind in ("primary", "unique"):
        code = "PK" if constraint.kind == "primary" else "UQ"
        name = constraint.name or f"{code}__{table.name[:9]}__{secrets.token_hex(8).upper()}"
        index = nodes.IndexDefinition(name, (), constraint.columns, True, False)
        add_local_index(d, table, index, constraint.kind)
    elif constraint.kind == "check":
        assert constraint.expression is not None
        text = check_sql(d, table, constraint.expression)
        name = constraint.name or f"CK__{table.name[:9]}__{secrets.token_hex(4).upper()}"
        pg = local_name("ck", table, name)
        d.pg.execute(f"ALTER TABLE {table.pg} ADD CONSTRAINT {quoted(pg)} CHECK ({text})")
    elif constraint.kind == "default":
        bind_default(d, table, constraint).default = True
    elif constraint.kind == "foreign":
        d.session.info(SqlError(1766, "Foreign key references to temporary tables are not enforced.", severity=10))


def drop(d: Definer, name: nodes.Name, exists: bool) -> None:
    table = d.catalog.temporary.pop(fold(name[-1]), None)
    if table is None:
        if exists:
            return
        raise errors.not_dropped("table", name[-1], state=5)
    if table.identity is not None:
        d.session.keep_identities()
    d.pg.execute(f"DROP TABLE {table.pg}")
    d.catalog.version += 1
