# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Rows of the metadata tables, from which the system views show what SQL Server shows."""

from __future__ import annotations

import json

from fakemssql.tsql.catalog.tables import ColumnInfo
from fakemssql.tsql.definitions.columns import collation_of
from fakemssql.tsql.definitions.shown import shown
from fakemssql.tsql.names import fold, literal
from fakemssql.tsql.parser.nodes import ColumnDefinition, Name


def sql_value(value: object) -> str:
    """A value as a PostgreSQL literal of a metadata INSERT."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    return literal(str(value))


def metadata_columns(object_id: str, columns: list[tuple[ColumnInfo, ColumnDefinition]]) -> list[str]:
    """INSERTs into mssql.columns; ``object_id`` is an SQL expression."""
    rows = []
    for info, definition in columns:
        kind = info.type
        computed = shown(*definition.computed) if definition.computed else None
        values = ", ".join(
            sql_value(value)
            for value in (
                info.column_id,
                info.name,
                info.folded,
                info.pg,
                kind.name,
                kind.length,
                kind.precision,
                kind.scale,
                info.nullable,
                info.identity,
                info.seed if info.identity else None,
                info.increment if info.identity else None,
                computed,
                definition.persisted,
                collation_of(kind, definition),
                definition.rowguid,
            )
        )
        rows.append(f"({object_id}, {values})")
    return [
        "INSERT INTO mssql.columns (object_id, column_id, name, folded,"
        " pg_name, type_name, length, num_precision, num_scale, nullable,"
        f" identity, seed, increment, computed, persisted, collation_name, rowguid) VALUES {', '.join(rows)}"
    ]


def object_row(
    name: Name, kind: str, parent: str, pg: str | None, database_id: int, schema_id: int, **extra: object
) -> str:
    """An INSERT into mssql.objects that returns the new object's id."""
    definition = extra.pop("definition", None)
    system_named = extra.pop("system_named", False)
    return (
        "INSERT INTO mssql.objects (database_id, schema_id, name, folded,"
        " type, parent_object_id, pg_name, definition, system_named, extra)"
        f" VALUES ({database_id}, {schema_id}, {literal(name[-1])},"
        f" {literal(fold(name[-1]))}, {literal(kind)}, {parent},"
        f" {sql_value(pg)}, {sql_value(definition)},"
        f" {sql_value(bool(system_named))}, {literal(json.dumps(extra))}::jsonb)"
        " RETURNING object_id"
    )
