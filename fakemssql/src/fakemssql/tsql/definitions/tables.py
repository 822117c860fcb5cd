# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Tables: CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

import json

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import ColumnInfo, TableInfo
from fakemssql.tsql.compiler.convert import convert
from fakemssql.tsql.compiler.scopes import Typed
from fakemssql.tsql.datatypes.sqltypes import storage
from fakemssql.tsql.definitions import temporary
from fakemssql.tsql.definitions.columns import (
    Dependent,
    add_column,
    check_distinct,
    check_identities,
    collation_of,
    column_infos,
    dependents,
    in_the_way_of,
    new_columns,
)
from fakemssql.tsql.definitions.constraints import add_constraint, add_default, check_key, drop_constraint
from fakemssql.tsql.definitions.definer import Definer, ObjectPlace
from fakemssql.tsql.definitions.indexes import add_index, rewrite
from fakemssql.tsql.definitions.metadata import add_columns, add_object, sql_value
from fakemssql.tsql.definitions.triggers import set_triggers
from fakemssql.tsql.names import literal, pg_name, quoted
from fakemssql.tsql.parser import nodes
from fakemssql.tsql.security import errors


def create_table(d: Definer, node: nodes.CreateTable) -> None:
    if node.name[-1].startswith("#"):
        temporary.create(d, node)
        return
    place = d.place(node.name)
    if place.schema.lower() in ("sys", "information_schema"):
        raise errors.no_schema(place.schema)
    d.check_new(place)
    pg = pg_name(place.name)
    compression = node.options.get("DATA_COMPRESSION")
    kept = {"compression": compression} if compression else {}
    object_id = add_object(d, place, "U", pg=pg, extra=kept)
    full = f"{quoted(place.schema_pg)}.{quoted(pg)}"
    table = TableInfo(place.name, place.schema, place.database, full, [], object_id=int(object_id))
    _build(d, table, node, place, object_id)


def _build(d: Definer, table: TableInfo, node: nodes.CreateTable, place: ObjectPlace, object_id: str) -> None:
    pairs, stored = new_columns(d, table, node)
    d.run(f"CREATE TABLE {table.pg} ({stored})")
    add_columns(d, object_id, pairs)
    for info, definition in pairs:
        if definition.default is not None:
            add_default(d, place, object_id, table, info, definition.default)
    for constraint in node.constraints:
        add_constraint(d, place, object_id, table, constraint)
    for index in node.indexes:
        add_index(d, object_id, table, index)


def alter_table(d: Definer, node: nodes.AlterTable) -> None:
    table = d.target(node.name)
    if table.local:
        raise SqlError(40517, "ALTER TABLE of a temporary table is not supported by fakemssql.")
    place = d.place((table.database, table.schema, table.name))
    object_id = str(table.object_id)
    d.run(f"UPDATE mssql.objects SET modified = mssql.utcnow_dt() WHERE object_id = {object_id}")
    if node.action == "options":
        if node.rebuilds:
            rewrite(d, table)
        names = {"LOCK_ESCALATION": "lock_escalation", "DATA_COMPRESSION": "compression"}
        kept = {names[key]: value for key, value in node.options.items() if key in names}
        d.run(f"UPDATE mssql.objects SET extra = extra || {literal(json.dumps(kept))} WHERE object_id = {object_id}")
    elif node.action in ("enable_trigger", "disable_trigger"):
        set_triggers(d, table, node.names[0][1], node.action == "enable_trigger")
    elif node.action == "add":
        _add(d, node, table, place, object_id)
    elif node.action == "alter":
        _alter_column(d, node.columns[0], table, object_id)
    else:
        for kind, name, exists in node.names:
            if kind == "COLUMN":
                _drop_column(d, table, name, exists)
            else:
                drop_constraint(d, table, name, exists)


def _add(d: Definer, node: nodes.AlterTable, table: TableInfo, place: ObjectPlace, object_id: str) -> None:
    number = max((column.column_id for column in table.columns), default=0)
    check_distinct(table.name, node.columns, (column.folded for column in table.columns))
    infos = column_infos(d, table, node.columns, after=number)
    check_identities(table.name, [*table.columns, *infos])
    for definition, info in zip(node.columns, infos, strict=True):
        add_column(d, table, definition, info)
        add_columns(d, object_id, [(info, definition)])
        table.columns.append(info)
        if definition.default is not None:
            add_default(d, place, object_id, table, info, definition.default)
    for constraint in node.constraints:
        if constraint.kind == "primary":
            check_key(d, table, constraint)
        add_constraint(d, place, object_id, table, constraint)
    for index in node.indexes:
        add_index(d, object_id, table, index)


def _alter_column(d: Definer, definition: nodes.ColumnDefinition, table: TableInfo, object_id: str) -> None:
    old = table.column(definition.name)
    if old is None:
        raise SqlError(
            4924,
            "ALTER TABLE ALTER COLUMN failed because column"
            f" '{definition.name}' does not exist in table '{table.name}'.",
        )
    if definition.type is None or old.computed is not None:
        raise SqlError(4928, f"Cannot alter column '{old.name}' because it is 'COMPUTED'.")
    kind = definition.type
    nullable = definition.nullable is not False and (definition.nullable is not None or not old.identity)
    if old.identity and nullable:
        raise SqlError(
            8147, f"Could not create IDENTITY attribute on nullable column '{old.name}', table '{table.name}'."
        )
    in_the_way = in_the_way_of(old, kind, nullable, dependents(d, table, old))
    _refuse_dependents(d, old, "ALTER COLUMN", in_the_way)
    column = quoted(old.pg)
    value = convert(
        Typed(column, old.type), kind, "assign", place=f"table '{table.full_name}', column '{old.name}'"
    ).sql
    steps = [f"ALTER COLUMN {column} DROP DEFAULT"] if old.default and storage(kind) != storage(old.type) else []
    steps.append(f"ALTER COLUMN {column} TYPE {storage(kind)} USING {value}")
    steps.append(f"ALTER COLUMN {column} {'DROP' if nullable else 'SET'} NOT NULL")
    d.run(f"ALTER TABLE {table.pg} {', '.join(steps)}")
    d.run(
        f"UPDATE mssql.columns SET type_name = {literal(kind.name)},"
        f" length = {sql_value(kind.length)}, num_precision ="
        f" {sql_value(kind.precision)}, num_scale = {sql_value(kind.scale)}, nullable = {sql_value(nullable)},"
        f" collation_name = {sql_value(collation_of(kind, definition))}"
        f" WHERE object_id = {object_id} AND column_id = {old.column_id}"
    )


def _refuse_dependents(d: Definer, column: ColumnInfo, what: str, found: list[Dependent]) -> None:
    """Errors 5074, one for each, and 4922 where something depends on the column."""
    for each in found:
        d.session.info(SqlError(5074, f"The {each.word} '{each.name}' is dependent on column '{column.name}'."))
    if found:
        raise SqlError(
            4922,
            f"ALTER TABLE {what} {column.name} failed because one or more objects access this column.",
            state=9,
        )


def _drop_column(d: Definer, table: TableInfo, name: str, exists: bool) -> None:
    column = table.column(name)
    if column is None:
        if exists:
            return
        raise SqlError(
            4924, f"ALTER TABLE DROP COLUMN failed because column '{name}' does not exist in table '{table.name}'."
        )
    _refuse_dependents(d, column, "DROP COLUMN", dependents(d, table, column))
    if column.computed is None:
        d.run(f"ALTER TABLE {table.pg} DROP COLUMN {quoted(column.pg)}")
    d.run(f"DELETE FROM mssql.columns WHERE object_id = {table.object_id} AND column_id = {column.column_id}")
