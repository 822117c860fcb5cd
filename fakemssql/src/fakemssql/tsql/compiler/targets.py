# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Targets of statements that change rows: writable columns and the values for them."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import DERIVED, ColumnInfo, TableInfo
from fakemssql.tsql.compiler.base_tables import reading
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.derived_tables import view_source
from fakemssql.tsql.compiler.locks import locking
from fakemssql.tsql.compiler.operators import operate
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed
from fakemssql.tsql.compiler.trees import walk
from fakemssql.tsql.datatypes.sqltypes import INT
from fakemssql.tsql.names import literal, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.types import SqlType


def to_column(value: Typed, table: TableInfo, column: ColumnInfo) -> str:
    """Return a value converted to the type of its column; an identity column also moves its identity value."""
    place = f"table '{table.full_name}', column '{column.name}'"
    text = convert(value, column.type, "assign", place=place).sql
    if not column.identity:
        return text
    sequence = f"pg_get_serial_sequence({literal(table.pg)}, {literal(column.pg)})"
    return f"mssql.identity_given({text}, {sequence}, {column.increment})"


def writable(table: TableInfo, name: str, updating: bool) -> ColumnInfo:
    """Return a column that a statement may write; errors 207, 271, 4406 and 8102."""
    column = table.column(name)
    if column is None:
        raise SqlError(207, f"Invalid column name '{name}'.")
    if column.computed == DERIVED:
        raise SqlError(
            4406,
            f"Update or insert of view or function '{table.name}' failed because it contains a derived or constant"
            " field.",
        )
    if column.computed is not None:
        raise SqlError(
            271,
            f'The column "{column.name}" cannot be modified because it is either a computed column or is the result'
            " of a UNION operator.",
        )
    if updating and column.identity:
        raise SqlError(8102, f"Cannot update identity column '{column.name}'.")
    return column


def refuse_twice(column: ColumnInfo) -> NoReturn:
    """Raise error 264, a column that is given two values."""
    raise SqlError(
        264,
        f"The column name '{column.name}' is specified more than once in the SET clause or column list of an INSERT.",
    )


def listed(table: TableInfo, names: list[str], *, with_identity: bool = False) -> list[ColumnInfo]:
    """Return the columns that an INSERT names, or those that it fills without a list."""
    if names:
        return [writable(table, name, False) for name in names]
    return [each for each in table.columns if each.computed is None and (with_identity or not each.identity)]


def is_default(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.Literal) and node.kind == "default"


def new_value(c: Compilation, node: nodes.Expr, table: TableInfo, column: ColumnInfo, names: Names) -> str:
    """Compile DEFAULT, or an expression converted to the type of its column."""
    if is_default(node):
        return "DEFAULT"
    return to_column(c.scalar(node, names), table, column)


def check_count(given: int, columns: int) -> None:
    """Raise errors 120 and 121 if an INSERT's query and column list differ in length."""
    if given != columns:
        number, word = (121, "more") if given > columns else (120, "fewer")
        raise SqlError(
            number,
            f"The select list for the INSERT statement contains {word} items than the insert list. The number of SELECT"
            " values must match the number of INSERT columns.",
        )


def check_target(c: Compilation, table: TableInfo, outputs: list[nodes.Output], event: str) -> None:
    """Raise errors 259, 334, 1934 and 40517 for a table that the statement cannot change."""
    if table.type == "S":
        raise SqlError(259, "Ad hoc updates to system catalogs are not allowed.")
    if table.filtered and not c.env.quoted_identifier:
        raise SqlError(
            1934,
            f"{c.statement.upper()} failed because the following SET options have incorrect settings:"
            " 'QUOTED_IDENTIFIER'. Verify that SET options are correct for use with indexed views and/or indexes on"
            " computed columns and/or filtered indexes and/or query notifications and/or XML data type methods and/or"
            " spatial index operations.",
        )
    if event in table.triggers and any(output.into is None for output in outputs):
        raise SqlError(
            334,
            f"The target table '{table.name}' of the DML statement cannot have any enabled triggers if the statement"
            " contains an OUTPUT clause without INTO clause.",
        )
    fired = {*table.extra.get("trigger_events", ()), *table.extra.get("instead_events", ())}
    if event in fired and c.statement == "merge":
        raise SqlError(
            40517,
            f"The table '{table.name}' has a trigger with a body, which MERGE does not run on fakemssql: disable or"
            " drop the trigger.",
        )


def identity_on(c: Compilation, table: TableInfo) -> bool:
    """Return whether IDENTITY_INSERT is ON for a table."""
    return c.env.identity_insert == table.pg


def refuse_identity(table: TableInfo) -> None:
    """Raise error 544, an explicit value for an identity column."""
    raise SqlError(
        544,
        f"Cannot insert explicit value for identity column in table '{table.name}' when IDENTITY_INSERT is set to OFF.",
    )


def view_target(c: Compilation, view: TableInfo) -> tuple[TableInfo, TableInfo]:
    """Return the single base table of a view: as the view shows it, and as it is. Error 4405 for several tables."""
    names = Names()
    view_source(c, view, view.name, names, True, [])
    base = names.scopes[0].table
    assert base is not None
    return as_shown(names.scopes[0], base), base


def as_shown(scope: Scope, base: TableInfo) -> TableInfo:
    """Return ``base`` with the columns and names that ``scope``, a view or CTE over it, shows."""
    own = {quoted(column.pg): column for column in base.columns if column.computed is None}
    columns = []
    for column in scope.columns:
        found = own.get(column.origin) or base.column(column.name)
        if found is not None and (column.origin or found.computed is not None):
            columns.append(replace(found, name=column.name))
        else:
            columns.append(ColumnInfo(column.name, "", column.type or INT, computed=DERIVED))
    return replace(base, columns=columns)


def lock_target(c: Compilation, hints: list[nodes.Hint], table: TableInfo) -> None:
    """Note the table lock that the hints of a statement require."""
    how = locking(hints, table, reading(c, table, True))
    if how.table_mode:
        c.table_locks.append((how.table_sql(table.pg), False))


def assigned(
    c: Compilation, assignments: list[nodes.Assignment], table: TableInfo, names: Names
) -> tuple[list[tuple[ColumnInfo, str]], list[tuple[str, SqlType, nodes.Expr | None, ColumnInfo | None]]]:
    """Compile the items of SET: columns with the SQL of their values, and variables with their values."""
    sets: list[tuple[ColumnInfo, str]] = []
    variables: list[tuple[str, SqlType, nodes.Expr | None, ColumnInfo | None]] = []
    assigned = {item.variable for item in assignments if item.variable is not None}
    read = {n.name for n in walk([item.value for item in assignments]) if isinstance(n, nodes.Variable)}
    read |= {item.variable for item in assignments if item.variable and not item.column and item.op != "="}
    if assigned & read:
        raise SqlError(
            40517, "An UPDATE that reads a variable it assigns, row after row, is not supported by fakemssql."
        )
    for item in assignments:
        column = None
        if item.column is not None:
            column = writable(table, item.column, True)
            if any(column.pg == other.pg for other, _ in sets):
                refuse_twice(column)
            if isinstance(item.value, nodes.Literal) and item.value.kind == "default":
                sets.append((column, "DEFAULT"))
            else:
                value = c.scalar(item.value, names)
                if item.op != "=":
                    value = operate(item.op[0], c.scalar(nodes.Column((item.column,)), names), value)
                sets.append((column, to_column(value, table, column)))
        if item.variable is not None:
            kind = c.declared(item.variable)
            expr = item.value
            if column is None and item.op != "=":
                expr = nodes.Binary(item.op[0], nodes.Variable(item.variable), expr)
            variables.append((item.variable, kind, expr if column is None else None, column))
    return sets, variables
