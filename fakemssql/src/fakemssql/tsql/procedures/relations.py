# ruff: noqa: S608 - the only values in the text are numbers of databases
"""Catalog procedures for keys between tables, row identifiers and procedures."""

from __future__ import annotations

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.sqltypes import INT, SYSNAME, nvarchar, varchar
from fakemssql.tsql.names import fold
from fakemssql.tsql.procedures.catalog import ODBC, SMALLINT, like, qualified_id, unquoted
from fakemssql.tsql.runtime.execution.result_sets import result_set
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.arguments import Arguments
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.security.visibility import own_objects


def sp_fkeys(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    table, owner, qualifier, fk_table, fk_owner, fk_qualifier = arguments.take(
        "pktable_name", "pktable_owner", "pktable_qualifier", "fktable_name", "fktable_owner", "fktable_qualifier"
    )
    if not table and not fk_table:
        raise SqlError(15252, "The primary or foreign key table name must be given.")
    database = qualified_id(session, qualifier or fk_qualifier)
    columns = [
        ("PKTABLE_QUALIFIER", SYSNAME),
        ("PKTABLE_OWNER", SYSNAME),
        ("PKTABLE_NAME", SYSNAME),
        ("PKCOLUMN_NAME", SYSNAME),
        ("FKTABLE_QUALIFIER", SYSNAME),
        ("FKTABLE_OWNER", SYSNAME),
        ("FKTABLE_NAME", SYSNAME),
        ("FKCOLUMN_NAME", SYSNAME),
        ("KEY_SEQ", SMALLINT),
        ("UPDATE_RULE", SMALLINT),
        ("DELETE_RULE", SMALLINT),
        ("FK_NAME", SYSNAME),
        ("PK_NAME", SYSNAME),
        ("DEFERRABILITY", SMALLINT),
    ]
    sql = (
        "SELECT d.name, ps.name, p.name, pc.name, d.name, fs.name, f.name, fc.name, k.constraint_column_id::int2,"
        " 1::int2, 1::int2, n.name,"
        " (SELECT i.name FROM mssql.indexes i WHERE i.object_id = p.object_id AND i.is_primary_key = 1), 7::int2"
        " FROM mssql_sys.foreign_key_columns k JOIN mssql.objects n ON n.object_id = k.constraint_object_id"
        " JOIN mssql.objects p ON p.object_id = k.referenced_object_id"
        " JOIN mssql.objects f ON f.object_id = k.parent_object_id"
        " JOIN mssql.schemas ps ON ps.database_id = p.database_id AND ps.schema_id = p.schema_id"
        " JOIN mssql.schemas fs ON fs.database_id = f.database_id AND fs.schema_id = f.schema_id"
        " JOIN mssql.columns pc ON pc.object_id = p.object_id AND pc.column_id = k.referenced_column_id"
        " JOIN mssql.columns fc ON fc.object_id = f.object_id AND fc.column_id = k.parent_column_id"
        " JOIN mssql.databases d ON d.database_id = p.database_id"
        f" WHERE p.database_id = {database} AND ($1 IS NULL OR p.folded = $1) AND ($2 IS NULL OR ps.folded = $2)"
        " AND ($3 IS NULL OR f.folded = $3) AND ($4 IS NULL OR fs.folded = $4)"
        f"{own_objects(session.security, session.database, 'p.object_id')}"
        f"{own_objects(session.security, session.database, 'f.object_id')}"
        " ORDER BY CASE WHEN $1 IS NULL THEN p.name ELSE f.name END, 12, 9"
    )
    names = [fold(unquoted(name)) if name else None for name in (table, owner, fk_table, fk_owner)]
    result_set(frame.output, session, sql, columns, *names)
    return 0


def sp_stored_procedures(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    name, owner, qualifier, _ = arguments.take("sp_name", "sp_owner", "sp_qualifier", "fusepattern")
    database = qualified_id(session, qualifier)
    columns = [
        ("PROCEDURE_QUALIFIER", SYSNAME),
        ("PROCEDURE_OWNER", SYSNAME),
        ("PROCEDURE_NAME", nvarchar(134)),
        ("NUM_INPUT_PARAMS", INT),
        ("NUM_OUTPUT_PARAMS", INT),
        ("NUM_RESULT_SETS", INT),
        ("REMARKS", varchar(254)),
        ("PROCEDURE_TYPE", SMALLINT),
    ]
    sql = (
        "SELECT d.name, s.name, o.name || ';1', -1, -1, -1, NULL::text, 2::int2 FROM mssql.objects o"
        " JOIN mssql.schemas s USING (database_id, schema_id) JOIN mssql.databases d USING (database_id)"
        f" WHERE o.database_id = {database} AND o.type = 'P' AND {like('o.name', 1)} AND {like('s.name', 2)}"
        f"{own_objects(session.security, session.database, 'o.object_id')} ORDER BY 1, 2, 3"
    )
    result_set(frame.output, session, sql, columns, unquoted(name) or None, unquoted(owner) or None)
    return 0


def sp_special_columns(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    """The columns that find a row: those of the primary key. There are no rowversion columns (kind V)."""
    name, owner, qualifier, kind, *_ = arguments.take(
        "table_name", "table_owner", "qualifier", "col_type", "scope", "nullable", "odbcver"
    )
    database = qualified_id(session, qualifier)
    columns = [
        ("SCOPE", SMALLINT),
        ("COLUMN_NAME", SYSNAME),
        ("DATA_TYPE", SMALLINT),
        ("TYPE_NAME", SYSNAME),
        ("PRECISION", INT),
        ("LENGTH", INT),
        ("SCALE", SMALLINT),
        ("PSEUDO_COLUMN", SMALLINT),
    ]
    size = "mssql.max_length(c.type_name, c.length, c.num_precision, c.num_scale)"
    precision = "mssql.precision_of(c.type_name, c.num_precision, c.num_scale)"
    sql = (
        f"SELECT 0::int2, c.name, {ODBC}, c.type_name || CASE WHEN c.identity = 1 THEN ' identity' ELSE '' END,"
        f" COALESCE(NULLIF({precision}::int4, 0), {size}::int4), {size}::int4,"
        " mssql.scale_of(c.type_name, c.num_scale)::int2, 1::int2"
        " FROM mssql.indexes i JOIN mssql.index_columns k USING (object_id, index_id)"
        " JOIN mssql.columns c USING (object_id, column_id) JOIN mssql.objects o USING (object_id)"
        " JOIN mssql.schemas s USING (database_id, schema_id)"
        f" WHERE i.is_primary_key = 1 AND o.database_id = {database} AND o.folded = $1"
        " AND ($2 IS NULL OR s.folded = $2) AND COALESCE(upper($3), 'R') = 'R'"
        f"{own_objects(session.security, session.database, 'o.object_id')} ORDER BY k.key_ordinal"
    )
    names = fold(unquoted(name) or ""), fold(unquoted(owner)) if owner else None
    result_set(frame.output, session, sql, columns, *names, kind)
    return 0
