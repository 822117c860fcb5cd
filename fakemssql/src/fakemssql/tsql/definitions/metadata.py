# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Rows of the metadata tables, which the system views read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fakemssql.tsql.catalog.tables import ColumnInfo
from fakemssql.tsql.definitions.catalog_text import catalog_text
from fakemssql.tsql.definitions.columns import collation_of
from fakemssql.tsql.definitions.definer import Definer, ObjectPlace
from fakemssql.tsql.names import fold, literal
from fakemssql.tsql.parser.nodes import ColumnDefinition


def sql_value(value: object) -> str:
    """PostgreSQL literal of a value for a metadata table."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    return literal(str(value))


def add_columns(d: Definer, object_id: str, columns: list[tuple[ColumnInfo, ColumnDefinition]]) -> None:
    """Insert the rows of a table's or view's columns into mssql.columns."""
    rows = []
    for info, definition in columns:
        kind = info.type
        computed = catalog_text(*definition.computed) if definition.computed else None
        sizes = (kind.name, kind.length, kind.precision, kind.scale, info.nullable, info.identity)
        identity = (info.seed, info.increment) if info.identity else (None, None)
        values = (
            *(info.column_id, info.name, info.folded, info.pg, *sizes, *identity),
            *(computed, definition.persisted, collation_of(kind, definition), definition.rowguid),
        )
        rows.append(f"({object_id}, {', '.join(map(sql_value, values))})")
    d.run(
        "INSERT INTO mssql.columns (object_id, column_id, name, folded,"
        " pg_name, type_name, length, num_precision, num_scale, nullable,"
        f" identity, seed, increment, computed, persisted, collation_name, rowguid) VALUES {', '.join(rows)}"
    )


def add_object(
    d: Definer,
    place: ObjectPlace,
    kind: str,
    name: str = "",
    parent: str = "0",
    pg: str | None = None,
    *,
    definition: str | None = None,
    system_named: bool = False,
    extra: Mapping[str, object] | None = None,
) -> str:
    """Insert a row into mssql.objects, under the name of ``place`` unless ``name`` is given; returns its id."""
    name = name or place.name
    return d.value(
        "INSERT INTO mssql.objects (database_id, schema_id, name, folded,"
        " type, parent_object_id, pg_name, definition, system_named, extra)"
        f" VALUES ({place.database_id}, {place.schema_id}, {literal(name)}, {literal(fold(name))}, {literal(kind)},"
        f" {parent}, {sql_value(pg)}, {sql_value(definition)}, {sql_value(system_named)},"
        f" {literal(json.dumps(extra or {}))}::jsonb) RETURNING object_id"
    )
