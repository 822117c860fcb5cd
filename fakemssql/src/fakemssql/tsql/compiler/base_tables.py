# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling tables in FROM: look-ups by name, scopes of columns, and locks."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.derived_tables import view_source
from fakemssql.tsql.compiler.locks import Reading, is_dirty, locking
from fakemssql.tsql.compiler.scopes import Names, RowLock, Scope, Typed
from fakemssql.tsql.names import fold, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.batches import Batch
from fakemssql.tsql.parser.lexer import syntax_error, tokenize
from fakemssql.tsql.security.visibility import system_rows


def reading(c: Compilation, table: TableInfo, target: bool = False) -> Reading:
    """Return the conditions, other than hints, under which a source takes locks.

    Without a hint only queries take locks: in a statement that changes rows the locks would last as long as its own.
    The outer side of a join takes no locks, because PostgreSQL locks no rows there.
    """
    return Reading(
        c.env.isolation,
        c.env.in_transaction,
        versioned=c.env.catalog.versioned(table.database),
        snapshots=c.env.isolation != "SNAPSHOT" or c.env.catalog.snapshots(table.database),
        pages=c.env.page_locks,
        target=target,
        bare=c.statement == "select" and not c.optional_sources,
    )


_REFUSED = {
    ("information_schema", "sequences"),
    *(("sys", name) for name in ("dm_os_host_info", "syscharsets", "sysdatabases", "sysforeignkeys", "sysprocesses")),
    *(("sys", name) for name in ("system_objects", "table_types", "xml_indexes")),
}
"""System views of SQL Server that are not supported."""


def lookup(c: Compilation, name: nodes.Name, line: int = 0) -> TableInfo:
    """Return the table with a name; error 208 if it does not exist."""
    if len(name) == 1 and name[0].startswith("@"):
        table = c.env.tables.get(name[0])
        if table is None:
            raise syntax_error(1087, f'Must declare the table variable "{name[0]}".', state=2)
        return table
    if len(name) == 1 and fold(name[0]) in ("inserted", "deleted") and fold(name[0]) in c.env.tables:
        return c.env.tables[fold(name[0])]
    if len(name) > 2 and name[-3] and c.env.security is not None:
        c.env.security.enter(name[-3])
    found = c.env.catalog.find(name, c.env.database)
    if found is None or found.type not in ("U", "V", "S", "TT"):
        synonym = c.env.catalog.named(name, c.env.database)
        if synonym is not None and synonym.type == "SN":
            raise SqlError(5313, f"Synonym '{'.'.join(name)}' refers to an invalid object.", line=line)
        if (fold(name[-2]) if len(name) > 1 else "", fold(name[-1])) in _REFUSED:
            raise SqlError(40517, f"{'.'.join(name)} is not supported by fakemssql.", line=line)
        raise SqlError(208, f"Invalid object name '{'.'.join(name)}'.", line=line)
    closed = next((index.name for index in found.indexes if index.type == 1 and index.disabled), None)
    if closed is not None:
        raise SqlError(
            8655,
            f"The query processor is unable to produce a plan because the index '{closed}' on table or view"
            f" '{found.name}' is disabled.",
        )
    return found


def hinted(c: Compilation, name: nodes.Name, names: Names) -> TableInfo | None:
    """Return the table that hints on a name apply to; None for a common table expression."""
    if len(name) == 1 and names.cte(fold(name[0])) is not None:
        return None
    return lookup(c, name)


def base_table(
    c: Compilation,
    table: TableInfo,
    alias: str,
    exposed: tuple[str, ...],
    hints: list[nodes.Hint],
    names: Names,
    carry: str | None,
) -> str:
    """Compile a table, table variable or view in FROM, and note its locks."""
    folded = fold(alias)
    exposed_name = exposed or (alias,)
    if any(
        scope.alias == folded and [fold(p) for p in scope.exposed] == [fold(p) for p in exposed_name]
        for scope in names.scopes
    ):
        raise SqlError(
            1013,
            f'The objects "{alias}" and "{alias}" in the FROM clause have the'
            " same exposed names. Use correlation names to distinguish them.",
        )
    target = carry is not None and carry in ("", folded)
    if target:
        c.env.require(table, c.statement.upper())
    if not target or folded != c.unread_target:
        c.env.require(table, "SELECT")
    if table.type == "V":
        return view_source(c, table, alias, names, target, hints)
    pg_alias = c.fresh("t")
    scope = table_scope(c, table, alias, pg_alias, exposed_name)
    names.scopes.append(scope)
    if table.type == "S":
        if c.env.security is not None:
            return f"{system_rows(c.env.security, table)} AS {pg_alias}"
        where = f" WHERE _db = {table.extra['database_id']}" if table.database_filter else ""
        return f"(SELECT * FROM {table.pg}{where}) AS {pg_alias}"
    scope.ctid = f"{pg_alias}.ctid"
    how = locking(hints, table, reading(c, table, target))
    c.reads_dirty = c.reads_dirty or (not table.local and is_dirty(hints, c.env.isolation))
    sql = f"{table.pg} AS {pg_alias}"
    if how.table_mode:
        c.table_locks.append((how.table_sql(table.pg), how.table_transient))
        if not how.table_transient:
            c.has_held_locks = True
    if how.strength and not table.local:
        names.locks.append(RowLock(pg_alias, how, sql, scope))
        if how.transient:
            c.has_transient_locks = True
        else:
            c.has_held_locks = True
    return sql


def table_scope(c: Compilation, table: TableInfo, alias: str, pg_alias: str, exposed: tuple[str, ...] = ()) -> Scope:
    """Return the scope of a base table under a PostgreSQL alias."""
    scope = Scope(fold(alias), [], table, exposed or (alias,))
    for column in table.columns:
        if column.computed is None:
            origin = quoted(column.pg)
            scope.columns.append(
                Typed(
                    f"{pg_alias}.{origin}",
                    column.type,
                    column.nullable,
                    column.identity,
                    column.binary,
                    name=column.name,
                    origin=origin,
                    collation=column.collation,
                )
            )
    for position, column in enumerate(table.columns):
        if column.computed:
            node = Batch(column.computed, tokenize(column.computed)).expression()
            value = c.scalar(node, Names([scope]))
            value = convert(value, column.type)
            scope.columns.insert(position, Typed(value.sql, column.type, column.nullable, name=column.name))
    return scope
