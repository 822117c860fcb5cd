# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Catalog procedures that ODBC drivers call ("Catalog stored procedures")."""

from __future__ import annotations

from typing import Any

from fakemssql.contract import Parameter, SqlError
from fakemssql.tsql.datatypes.sqltypes import INT, NMAX, SYSNAME, varchar
from fakemssql.tsql.names import fold
from fakemssql.tsql.runtime.execution.result_sets import result_set
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.arguments import Arguments
from fakemssql.tsql.runtime.session.session import Session
from fakemssql.tsql.security.visibility import own_objects
from fakemssql.types import SqlType

SMALLINT = SqlType("smallint")


ODBC = """CASE c.type_name WHEN 'bit' THEN -7 WHEN 'tinyint' THEN -6 WHEN 'smallint' THEN 5 WHEN 'int' THEN 4
  WHEN 'bigint' THEN -5 WHEN 'decimal' THEN 3 WHEN 'numeric' THEN 2 WHEN 'money' THEN 3 WHEN 'smallmoney' THEN 3
  WHEN 'float' THEN 6 WHEN 'real' THEN 7 WHEN 'char' THEN 1 WHEN 'varchar' THEN 12 WHEN 'text' THEN -1
  WHEN 'nchar' THEN -8
  WHEN 'nvarchar' THEN -9 WHEN 'ntext' THEN -10 WHEN 'binary' THEN -2 WHEN 'varbinary' THEN -3 WHEN 'image' THEN -4
  WHEN 'uniqueidentifier' THEN -11 WHEN 'date' THEN 91 WHEN 'time' THEN -154 WHEN 'datetimeoffset' THEN -155
  WHEN 'xml' THEN -152 WHEN 'sql_variant' THEN -150 ELSE 93 END::int2"""


def like(column: str, number: int, exact: str = "") -> str:
    return f"(${number} IS NULL OR lower({column}) ~ mssql.like_pattern(lower(${number}), '\\'))"


def database_id(session: Session) -> int:
    entry = session.catalog.database(session.database)
    return entry[0] if entry else 0


def unquoted(name: Any) -> Any:
    """Drivers may send names in brackets or quotes."""
    if isinstance(name, str) and len(name) > 1 and name[0] + name[-1] in ("[]", '""'):
        return name[1:-1]
    return name


_TABLE_ID = (
    "(SELECT o.object_id FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)"
    " WHERE o.database_id = _db AND s.name = table_schema AND o.name = table_name)"
)


def sp_tables(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    name, owner, qualifier, kind, _ = arguments.take(
        "table_name", "table_owner", "table_qualifier", "table_type", "fusepattern"
    )
    database = qualified_id(session, qualifier)
    columns = [
        ("TABLE_QUALIFIER", SYSNAME),
        ("TABLE_OWNER", SYSNAME),
        ("TABLE_NAME", SYSNAME),
        ("TABLE_TYPE", varchar(32)),
        ("REMARKS", varchar(254)),
    ]
    sql = (
        "SELECT table_catalog::text, table_schema::text, table_name::text,"
        " CASE table_type WHEN 'BASE TABLE' THEN 'TABLE' ELSE 'VIEW' END,"
        " NULL::text FROM mssql_information_schema.tables WHERE _db ="
        f" {database} AND {like('table_name', 1)} AND {like('table_schema', 2)}"
        " AND ($3 IS NULL OR position(CASE table_type WHEN 'BASE TABLE'"
        " THEN '''TABLE''' ELSE '''VIEW''' END IN upper($3)) > 0)"
        f"{own_objects(session.security, session.database, _TABLE_ID)} ORDER BY 4, 1, 2, 3"
    )
    result_set(frame.output, session, sql, columns, name or None, owner or None, kind or None)
    return 0


def qualified_id(session: Session, qualifier: str | None) -> int:
    if qualifier and fold(qualifier) != fold(session.database):
        raise SqlError(
            15250, "The database name component of the object qualifier must be the name of the current database."
        )
    return database_id(session)


_COLUMNS = [
    ("TABLE_QUALIFIER", SYSNAME),
    ("TABLE_OWNER", SYSNAME),
    ("TABLE_NAME", SYSNAME),
    ("COLUMN_NAME", SYSNAME),
    ("DATA_TYPE", SMALLINT),
    ("TYPE_NAME", SYSNAME),
    ("PRECISION", INT),
    ("LENGTH", INT),
    ("SCALE", SMALLINT),
    ("RADIX", SMALLINT),
    ("NULLABLE", SMALLINT),
    ("REMARKS", varchar(254)),
    ("COLUMN_DEF", NMAX),
    ("SQL_DATA_TYPE", SMALLINT),
    ("SQL_DATETIME_SUB", SMALLINT),
    ("CHAR_OCTET_LENGTH", INT),
    ("ORDINAL_POSITION", INT),
    ("IS_NULLABLE", varchar(254)),
    ("SS_DATA_TYPE", SqlType("tinyint")),
]


_COLUMNS_100 = [
    *_COLUMNS[:-1],
    ("SS_IS_SPARSE", SMALLINT),
    ("SS_IS_COLUMN_SET", SMALLINT),
    ("SS_IS_COMPUTED", SMALLINT),
    ("SS_IS_IDENTITY", SMALLINT),
    ("SS_UDT_CATALOG_NAME", SYSNAME),
    ("SS_UDT_SCHEMA_NAME", SYSNAME),
    ("SS_UDT_ASSEMBLY_TYPE_NAME", SYSNAME),
    ("SS_XML_SCHEMACOLLECTION_CATALOG_NAME", SYSNAME),
    ("SS_XML_SCHEMACOLLECTION_SCHEMA_NAME", SYSNAME),
    ("SS_XML_SCHEMACOLLECTION_NAME", SYSNAME),
    _COLUMNS[-1],
]


def _columns(session: Session, arguments: Arguments, frame: Frame, modern: bool) -> int:
    name, owner, qualifier, column, *_ = arguments.take(
        "table_name", "table_owner", "table_qualifier", "column_name", "odbcver", "namescope", "fusepattern"
    )
    database = qualified_id(session, qualifier)
    extra = (
        "0::int2, 0::int2, (c.computed IS NOT NULL)::int::int2, c.identity::int2,"
        " NULL::text, NULL::text, NULL::text, NULL::text, NULL::text,"
        " NULL::text, "
        if modern
        else ""
    )
    sql = (
        f"SELECT d.name, s.name, o.name, c.name, {ODBC}, c.type_name"
        " || CASE WHEN c.identity = 1 THEN ' identity' ELSE '' END,"
        " CASE WHEN c.length = -1 THEN 0 WHEN c.length IS NOT NULL"
        " THEN c.length WHEN c.type_name = 'uniqueidentifier' THEN 36"
        " ELSE mssql.precision_of(c.type_name, c.num_precision, c.num_scale) END::int4,"
        " CASE WHEN c.length = -1 THEN 0 WHEN c.type_name IN ('datetime', 'datetime2', 'smalldatetime') THEN 16"
        " ELSE mssql.max_length(c.type_name, c.length, c.num_precision, c.num_scale) END::int4,"
        " CASE WHEN c.length IS NULL AND c.type_name NOT IN ('uniqueidentifier',"
        " 'bit') THEN mssql.scale_of(c.type_name, c.num_scale) END::int2,"
        " CASE WHEN c.type_name IN ('tinyint', 'smallint', 'int', 'bigint',"
        " 'decimal', 'numeric') THEN 10 END::int2, c.nullable::int2, NULL::text,"
        f" df.definition, {ODBC}, CASE WHEN c.type_name IN"
        " ('datetime', 'datetime2', 'smalldatetime') THEN 3 END::int2,"
        " CASE WHEN c.length = -1 THEN 0 WHEN c.type_name IN ('nvarchar',"
        " 'nchar') THEN c.length * 2 ELSE c.length END::int4,"
        " row_number() OVER (PARTITION BY o.object_id ORDER BY"
        " c.column_id)::int4, CASE c.nullable WHEN 1 THEN 'YES' ELSE 'NO' END,"
        f" {extra}CASE WHEN c.nullable = 1 THEN 38 ELSE 56 END::int2"
        " FROM mssql.columns c JOIN mssql.objects o USING (object_id)"
        " JOIN mssql.schemas s USING (database_id, schema_id)"
        " JOIN mssql.databases d USING (database_id) LEFT JOIN mssql.objects df ON df.object_id = c.default_object_id"
        f" WHERE o.database_id = {database} AND o.type IN ('U', 'V') AND"
        f" {like('o.name', 1)} AND {like('s.name', 2)} AND {like('c.name', 3)}"
        f"{own_objects(session.security, session.database, 'o.object_id')} ORDER BY s.name, o.name, c.column_id"
    )
    shape = _COLUMNS_100 if modern else _COLUMNS
    result_set(frame.output, session, sql, shape, unquoted(name), unquoted(owner) or None, column or None)
    return 0


def sp_columns(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    return _columns(session, arguments, frame, False)


def sp_columns_100(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    return _columns(session, arguments, frame, True)


def sp_pkeys(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    name, owner, qualifier = arguments.take("table_name", "table_owner", "table_qualifier")
    database = qualified_id(session, qualifier)
    columns = [
        ("TABLE_QUALIFIER", SYSNAME),
        ("TABLE_OWNER", SYSNAME),
        ("TABLE_NAME", SYSNAME),
        ("COLUMN_NAME", SYSNAME),
        ("KEY_SEQ", SMALLINT),
        ("PK_NAME", SYSNAME),
    ]
    sql = (
        "SELECT d.name, s.name, o.name, c.name, k.key_ordinal::int2, i.name FROM"
        " mssql.indexes i JOIN mssql.index_columns k USING (object_id, index_id)"
        " JOIN mssql.columns c USING (object_id, column_id) JOIN mssql.objects"
        " o USING (object_id) JOIN mssql.schemas s USING (database_id, schema_id)"
        " JOIN mssql.databases d USING (database_id) WHERE i.is_primary_key"
        f" = 1 AND o.database_id = {database} AND o.folded = $1"
        f" AND ($2 IS NULL OR s.folded = $2){own_objects(session.security, session.database, 'o.object_id')}"
        " ORDER BY 1, 2, 3, 5"
    )
    result_set(
        frame.output, session, sql, columns, fold(unquoted(name) or ""), fold(unquoted(owner)) if owner else None
    )
    return 0


def sp_statistics(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    name, owner, qualifier, index, unique, _ = arguments.take(
        "table_name", "table_owner", "table_qualifier", "index_name", "is_unique", "accuracy"
    )
    database = qualified_id(session, qualifier)
    columns = [
        ("TABLE_QUALIFIER", SYSNAME),
        ("TABLE_OWNER", SYSNAME),
        ("TABLE_NAME", SYSNAME),
        ("NON_UNIQUE", SMALLINT),
        ("INDEX_QUALIFIER", SYSNAME),
        ("INDEX_NAME", SYSNAME),
        ("TYPE", SMALLINT),
        ("SEQ_IN_INDEX", SMALLINT),
        ("COLUMN_NAME", SYSNAME),
        ("COLLATION", SqlType("char", length=1)),
        ("CARDINALITY", INT),
        ("PAGES", INT),
        ("FILTER_CONDITION", varchar(128)),
    ]
    sql = (
        "SELECT d.name, s.name, o.name, (1 - i.is_unique)::int2, o.name, i.name,"
        " CASE i.type WHEN 1 THEN 1 ELSE 3 END::int2, k.key_ordinal::int2,"
        " c.name, CASE k.descending WHEN 1 THEN 'D' ELSE 'A' END,"
        " mssql.row_count(o.object_id)::int4, mssql.page_count(o.object_id)::int4, NULL::text"
        " FROM mssql.indexes i JOIN mssql.index_columns k USING (object_id,"
        " index_id) JOIN mssql.columns c USING (object_id, column_id)"
        " JOIN mssql.objects o USING (object_id) JOIN mssql.schemas s USING"
        " (database_id, schema_id) JOIN mssql.databases d USING (database_id)"
        f" WHERE k.key_ordinal > 0 AND o.database_id = {database} AND o.folded = $1 AND ($2 IS NULL OR s.folded = $2)"
        f" AND {like('i.name', 3)} AND ($4 IS NULL OR upper($4) <> 'Y' OR i.is_unique = 1)"
        f"{own_objects(session.security, session.database, 'o.object_id')} ORDER BY 4, 7, 6, 8"
    )
    result_set(
        frame.output,
        session,
        sql,
        columns,
        fold(unquoted(name) or ""),
        fold(unquoted(owner)) if owner else None,
        index or None,
        unique,
    )
    return 0


def sp_databases(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    columns = [("DATABASE_NAME", SYSNAME), ("DATABASE_SIZE", INT), ("REMARKS", varchar(254))]
    result_set(frame.output, session, "SELECT name, 8192, NULL::text FROM mssql.databases ORDER BY name", columns)
    return 0


def sp_datatype_info(session: Session, arguments: Arguments, frame: Frame, outputs: list[Parameter]) -> int:
    wanted, _ = arguments.take("data_type", "odbcver")
    columns = [
        ("TYPE_NAME", SYSNAME),
        ("DATA_TYPE", SMALLINT),
        ("PRECISION", INT),
        ("LITERAL_PREFIX", varchar(32)),
        ("LITERAL_SUFFIX", varchar(32)),
        ("CREATE_PARAMS", varchar(32)),
        ("NULLABLE", SMALLINT),
        ("CASE_SENSITIVE", SMALLINT),
        ("SEARCHABLE", SMALLINT),
        ("UNSIGNED_ATTRIBUTE", SMALLINT),
        ("MONEY", SMALLINT),
        ("AUTO_INCREMENT", SMALLINT),
        ("LOCAL_TYPE_NAME", SYSNAME),
        ("MINIMUM_SCALE", SMALLINT),
        ("MAXIMUM_SCALE", SMALLINT),
        ("SQL_DATA_TYPE", SMALLINT),
        ("SQL_DATETIME_SUB", SMALLINT),
        ("NUM_PREC_RADIX", INT),
        ("INTERVAL_PRECISION", SMALLINT),
        ("USERTYPE", SMALLINT),
    ]
    code = ODBC.replace("c.type_name", "t.name")
    sql = (
        f"SELECT t.name, {code}, CASE WHEN t.name IN ('nchar', 'nvarchar') THEN 4000"
        " WHEN t.name IN ('text', 'image') THEN 2147483647 WHEN t.name IN ('ntext', 'xml') THEN 1073741823"
        " WHEN t.name = 'uniqueidentifier' THEN 36 WHEN t.num_precision > 0 THEN t.num_precision"
        " ELSE t.size END, NULL::text, NULL::text, NULL::text, 1::int2, 0::int2,"
        " 3::int2, 0::int2, (t.name LIKE '%money')::int::int2, 0::int2, t.name, 0::int2, t.num_scale::int2, "
        f"{code}, NULL::int2, 10, NULL::int2, 0::int2 FROM mssql.types t WHERE t.name <>"
        f" 'sysname' AND ($1 IS NULL OR $1 = '0' OR ({code})::text = $1)"
        # The best type of a code comes first: pyodbc takes the precision of its datetime parameters from it.
        " ORDER BY 2, t.name <> 'datetime2', 1"
    )
    result_set(frame.output, session, sql, columns, wanted)
    return 0
