# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Renaming of tables, columns and indexes (sp_rename), in the metadata and in PostgreSQL."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.catalog.tables import TableInfo
from fakemssql.tsql.definitions.definer import Definer
from fakemssql.tsql.definitions.security.authorization import may_rename
from fakemssql.tsql.names import fold, literal, pg_name, quoted
from fakemssql.tsql.parser.nodes import Name


def rename(d: Definer, name: Name, new: str, kind: str) -> None:
    """Rename a table, column or index, also in PostgreSQL; error 15248."""
    may_rename(d, name, kind)
    if kind == "OBJECT":
        _rename_table(d, name, new)
    elif kind in ("COLUMN", "INDEX"):
        table = d.catalog.find(name[:-1], d.session.database) if len(name) > 1 else None
        if (
            table is None
            or table.type != "U"
            or not (
                _rename_column(d, table, name[-1], new) if kind == "COLUMN" else _rename_index(d, table, name[-1], new)
            )
        ):
            raise SqlError(
                15248, f"Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong."
            )
    else:
        raise SqlError(40517, f"sp_rename of a {kind} is not supported by fakemssql.")
    d.changed()


def _rename_column(d: Definer, table: TableInfo, name: str, new: str) -> bool:
    column = table.column(name)
    if column is None:
        return False
    if column.computed is None and column.pg != pg_name(new):
        d.run(f"ALTER TABLE {table.pg} RENAME COLUMN {quoted(column.pg)} TO {quoted(pg_name(new))}")
    d.run(
        f"UPDATE mssql.columns SET name = {literal(new)}, folded ="
        f" {literal(fold(new))}, pg_name = {literal(pg_name(new))}"
        f" WHERE object_id = {table.object_id} AND column_id = {column.column_id}"
    )
    return True


def _rename_index(d: Definer, table: TableInfo, name: str, new: str) -> bool:
    index = next((each for each in table.indexes if fold(each.name) == fold(name)), None)
    if index is None:
        return False
    pg = pg_name(f"ix{table.object_id}.{new}")
    if pg != index.pg:
        schema = table.pg[: table.pg.rindex('."')]
        d.run(f"ALTER INDEX IF EXISTS {schema}.{quoted(index.pg)} RENAME TO {quoted(pg)}")
    d.run(
        f"UPDATE mssql.indexes SET name = {literal(new)}, folded = {literal(fold(new))}, pg_name = {literal(pg)}"
        f" WHERE object_id = {table.object_id} AND index_id = {index.index_id}"
    )
    d.run(
        f"UPDATE mssql.objects SET name = {literal(new)}, folded = {literal(fold(new))}"
        f" WHERE parent_object_id = {table.object_id} AND folded = {literal(fold(name))} AND type IN ('PK', 'UQ')"
    )
    return True


def _rename_table(d: Definer, name: Name, new: str) -> None:
    table = d.catalog.find(name, d.session.database)
    if table is None or table.type != "U":
        raise SqlError(
            15225,
            f"No item by the name of '{'.'.join(name)}' could be found in the current database"
            f" '{d.session.database}', given that @itemtype was input as '(null)'.",
        )
    d.check_new(d.place((table.database, table.schema, new)))
    d.run(f"ALTER TABLE {table.pg} RENAME TO {quoted(pg_name(new))}")
    d.run(
        f"UPDATE mssql.objects SET name = {literal(new)}, folded ="
        f" {literal(fold(new))}, pg_name = {literal(pg_name(new))},"
        f" modified = mssql.utcnow_dt() WHERE object_id = {table.object_id}"
    )
