# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling INSERT."""

from __future__ import annotations

from dataclasses import replace

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.compiler.base_tables import lookup, reading, table_scope
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.locks import check_hints, locking
from fakemssql.tsql.compiler.operators import common_type
from fakemssql.tsql.compiler.outputs import shown, with_outputs
from fakemssql.tsql.compiler.plan import MADE, Plan
from fakemssql.tsql.compiler.scopes import Names, with_ctes
from fakemssql.tsql.compiler.targets import (
    check_count,
    check_target,
    identity_on,
    is_default,
    listed,
    refuse_identity,
    refuse_twice,
    to_column,
    view_target,
)
from fakemssql.tsql.datatypes.sqltypes import BIGINT
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error

_ROWS = 1000
"""The most rows of an INSERT's VALUES; in a derived table their number has no limit."""


def insert(c: Compilation, node: nodes.Insert) -> Plan:
    c.statement = "insert"
    parent = with_ctes(node.ctes, None)
    table = lookup(c, node.target, node.line)
    c.env.require(table, "INSERT")
    if shown(node.outputs):
        c.env.require(table, "SELECT")
    base = table
    if table.type == "V":
        table, base = view_target(c, table)
    check_target(c, table, node.outputs, "INSERT")
    check_hints(node.hints, table, True)
    read = reading(c, table, True)
    if read.isolation == "SERIALIZABLE":
        # An INSERT locks only the key that it inserts, not a range.
        read = replace(read, isolation="READ COMMITTED")
    how = locking(
        [h for h in node.hints if h.name in ("TABLOCK", "TABLOCKX", "HOLDLOCK", "SERIALIZABLE", "XLOCK", "NOWAIT")],
        table,
        read,
    )
    if how.table_mode:
        c.table_locks.append((how.table_sql(table.pg), False))
    columns = listed(table, node.columns)
    explicit = columns if node.columns else []
    for position, column in enumerate(explicit):
        if column in explicit[:position]:
            refuse_twice(column)
    identity = table.identity
    if identity is not None:
        if identity in explicit and not identity_on(c, table) and node.source is not None:
            refuse_identity(table)
        if identity_on(c, table) and identity not in explicit:
            if not explicit:
                raise SqlError(
                    8101,
                    f"An explicit value for the identity column in table '{table.full_name}' can only be specified"
                    " when a column list is used and IDENTITY_INSERT is ON.",
                )
            raise SqlError(
                545,
                f"Explicit value must be specified for identity column in table '{table.name}' either when"
                " IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION"
                " identity column.",
            )
    target = f"INSERT INTO {table.pg} AS d ({', '.join(quoted(each.pg) for each in columns)})"
    if node.source is None:
        change = f"INSERT INTO {table.pg} AS d DEFAULT VALUES"
    elif isinstance(node.source, nodes.Execute):
        raise SqlError(40517, "INSERT ... EXECUTE is not supported by fakemssql.")
    elif isinstance(node.source.body, nodes.Values):
        change = f"{target} VALUES {_value_rows(c, node.source.body, table, columns, parent, bool(explicit))}"
    else:
        change = f"{target} {_insert_query(c, node, node.source, table, columns, parent)}"
    scope = table_scope(c, table, "inserted", "d")
    names = Names([scope])
    given = identity is not None and identity_on(c, table) and not node.outputs
    extra = [f"d.{quoted(identity.pg)}::int8"] if identity is not None and given else []
    plan = with_outputs(c, change, node.outputs, names, extra, identity=base if base.identity else None, table=base)
    plan.assign = [(MADE, BIGINT)] if given else []
    return plan


def _value_rows(
    c: Compilation,
    values: nodes.Values,
    table: TableInfo,
    columns: list[ColumnInfo],
    parent: Names | None,
    explicit: bool,
) -> str:
    names = Names([], parent)
    if len(values.rows) > _ROWS:
        raise syntax_error(
            10738,
            "The number of row value expressions in the INSERT statement exceeds the maximum allowed number of 1000 row"
            " values.",
        )
    if len({len(row) for row in values.rows}) > 1:
        raise syntax_error(10709, "The number of columns for each row in a table value constructor must be the same.")
    if not explicit and len(values.rows[0]) != len(columns):
        raise SqlError(213, "Column name or number of supplied values does not match table definition.")
    for row in values.rows:
        if len(row) != len(columns):
            number, word = (110, "fewer") if len(row) > len(columns) else (109, "more")
            raise syntax_error(
                number,
                f"There are {word} columns in the INSERT statement than values specified in the VALUES clause. The"
                " number of values in the VALUES clause must match the number of columns specified in the INSERT"
                " statement.",
            )
    by_column = [_cells(c, cells, table, column, names) for *cells, column in zip(*values.rows, columns, strict=True)]
    return ", ".join(f"({', '.join(row)})" for row in zip(*by_column, strict=True))


def _cells(c: Compilation, given: list[nodes.Expr], table: TableInfo, column: ColumnInfo, names: Names) -> list[str]:
    """Compile the values of a column; those of several rows have one type first, as in a UNION ALL."""
    values = [None if is_default(node) else c.scalar(node, names) for node in given]
    typed = [value for value in values if value is not None and value.type is not None]
    if len(typed) > 1:
        kind = common_type(typed)
        values = [value and convert(value, kind) for value in values]
    return ["DEFAULT" if value is None else to_column(value, table, column) for value in values]


def _insert_query(
    c: Compilation,
    node: nodes.Insert,
    query: nodes.Query,
    table: TableInfo,
    columns: list[ColumnInfo],
    parent: Names | None,
) -> str:
    c.depth -= 1
    compiled = c.query(query, parent)
    c.depth += 1
    if len(compiled.columns) != len(columns):
        if not node.columns:
            raise SqlError(213, "Column name or number of supplied values does not match table definition.")
        check_count(len(compiled.columns), len(columns))
    cells = [
        to_column(value.with_(sql=f"s.c{i}", constant=None), table, column)
        for i, (value, column) in enumerate(zip(compiled.columns, columns, strict=True), 1)
    ]
    return f"SELECT {', '.join(cells)} FROM ({compiled.sql}) AS s"
