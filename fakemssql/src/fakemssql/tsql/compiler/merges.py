# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Compiling MERGE."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.compiler.base_tables import lookup, table_scope
from fakemssql.tsql.compiler.compilation import Compilation
from fakemssql.tsql.compiler.outputs import with_outputs
from fakemssql.tsql.compiler.plan import Plan
from fakemssql.tsql.compiler.scopes import Names, Scope, Typed, with_ctes
from fakemssql.tsql.compiler.targets import (
    assigned,
    check_target,
    identity_on,
    listed,
    lock_target,
    new_value,
    refuse_identity,
)
from fakemssql.tsql.names import quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.parser.lexer import syntax_error
from fakemssql.types import SqlType


def merge(c: Compilation, node: nodes.Merge) -> Plan:
    c.statement = "merge"
    parent = with_ctes(node.ctes, None)
    table = lookup(c, node.target, node.line)
    c.env.require(table, "SELECT")
    for action in node.actions:
        c.env.require(table, action.action.upper())
    if table.type == "V":
        raise SqlError(40517, f"MERGE into the view '{table.name}' is not supported by fakemssql.")
    _check_order(node.actions)
    for event in ("UPDATE", "DELETE", "INSERT"):
        check_target(c, table, node.outputs, event)
    lock_target(c, node.hints, table)
    target = table_scope(c, table, node.alias or node.target[-1], "d", (node.alias,) if node.alias else node.target)
    names = Names([], parent)
    source = c.source(node.source, names)
    source_scopes = list(names.scopes)
    names.scopes = [target, *source_scopes]
    text = f"MERGE INTO {table.pg} AS d USING {source} ON {c.predicate(node.on, names)}"
    prelock = ""
    if table.type == "U" and not table.local and any(action.matched != "target" for action in node.actions):
        # The lock of PostgreSQL's MERGE is compatible with shared locks of others; an exclusive lock is not.
        join = "LEFT JOIN" if any(action.matched == "source" for action in node.actions) else "JOIN"
        pairs = f"{table.pg} AS d {join} {source} ON {c.predicate(node.on, names)}"
        prelock = f"SELECT count(*) FROM (SELECT 1 FROM {pairs} FOR UPDATE OF d) AS m"
    for action in node.actions:
        text += _merge_action(c, action, table, names, target, source_scopes, parent)
    inserted, deleted = table_scope(c, table, "inserted", "new"), table_scope(c, table, "deleted", "old")
    special = Scope("", [Typed("merge_action()", SqlType("nvarchar", length=10), False, name="$action")])
    outputs = Names([inserted, deleted, special, *source_scopes])
    plan = with_outputs(c, text, node.outputs, outputs, [], table=table, identity=table if table.identity else None)
    plan.prelock = prelock
    return plan


_CLAUSES = {"matched": "WHEN MATCHED", "target": "WHEN NOT MATCHED", "source": "WHEN NOT MATCHED BY SOURCE"}


def _check_order(actions: list[nodes.MergeAction]) -> None:
    """Raise error 10714 for an action that a kind of rows has twice, and 5324 for one after one for all such rows."""
    for number, action in enumerate(actions):
        clause, earlier = _CLAUSES[action.matched], [one for one in actions[:number] if one.matched == action.matched]
        if any(one.action == action.action for one in earlier):
            raise syntax_error(
                10714,
                f"An action of type '{action.action.upper()}' cannot appear more than once in a '{clause}' clause of a"
                " MERGE statement.",
            )
        if any(one.condition is None for one in earlier):
            raise syntax_error(
                5324,
                f"In a MERGE statement, a '{clause}' clause with a search condition cannot appear after a '{clause}'"
                " clause with no search condition.",
            )


def _merge_action(
    c: Compilation,
    action: nodes.MergeAction,
    table: TableInfo,
    names: Names,
    target: Scope,
    source: list[Scope],
    parent: Names | None,
) -> str:
    visible = names
    if action.matched == "target":
        visible = Names(source, parent)
    elif action.matched == "source":
        visible = Names([target], parent)
    text = f" {_CLAUSES[action.matched]}"
    if action.condition is not None:
        text += f" AND {c.predicate(action.condition, visible)}"
    if action.action == "delete":
        return text + " THEN DELETE"
    if action.action == "update":
        sets, variables = assigned(c, action.assignments, table, visible)
        if variables:
            raise SqlError(40517, "Assigning variables in MERGE is not supported by fakemssql.")
        return text + " THEN UPDATE SET " + ", ".join(f"{quoted(column.pg)} = {sql}" for column, sql in sets)
    columns = listed(table, action.columns)
    if any(column.identity for column in columns) and not identity_on(c, table):
        refuse_identity(table)
    if action.values is None:
        return text + " THEN INSERT DEFAULT VALUES"
    if len(action.values) != len(columns):
        raise SqlError(10709, "The number of columns in the INSERT clause of MERGE must match the number of values.")
    cells = [new_value(c, node, table, column, visible) for node, column in zip(action.values, columns, strict=True)]
    return f"{text} THEN INSERT ({', '.join(quoted(each.pg) for each in columns)}) VALUES ({', '.join(cells)})"
