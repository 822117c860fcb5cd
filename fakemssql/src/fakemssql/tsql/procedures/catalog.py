# ruff: noqa: S608 - names go through names.quoted, values through names.literal or as parameters
"""Catalog procedures of ODBC drivers: sp_tables, sp_columns, sp_pkeys, sp_datatype_info."""

from __future__ import annotations

from fakemssql.contract import SqlError
from fakemssql.tsql.names import fold
from fakemssql.tsql.procedures.result_sets import columns_of, send_query
from fakemssql.tsql.runtime.frames import Frame
from fakemssql.tsql.runtime.session.session import Arguments, Session
from fakemssql.tsql.security.visibility import own_objects

_ODBC_TYPE = """CASE c.type_name WHEN 'bit' THEN -7 WHEN 'tinyint' THEN -6 WHEN 'smallint' THEN 5 WHEN 'int' THEN 4
  WHEN 'bigint' THEN -5 WHEN 'decimal' THEN 3 WHEN 'numeric' THEN 2 WHEN 'money' THEN 3 WHEN 'smallmoney' THEN 3
  WHEN 'float' THEN 6 WHEN 'real' THEN 7 WHEN 'char' THEN 1 WHEN 'varchar' THEN 12 WHEN 'text' THEN -1
  WHEN 'nchar' THEN -8 WHEN 'nvarchar' THEN -9 WHEN 'ntext' THEN -10 WHEN 'binary' THEN -2 WHEN 'varbinary' THEN -3
  WHEN 'image' THEN -4
  WHEN 'uniqueidentifier' THEN -11 WHEN 'date' THEN 91 WHEN 'time' THEN -154 WHEN 'datetimeoffset' THEN -155
  WHEN 'xml' THEN -152 WHEN 'sql_variant' THEN -150 ELSE 93 END::int2"""


def _like(column: str, number: int) -> str:
    return f"(${number} IS NULL OR lower({column}) ~ mssql.like_pattern(${number}, '\\', true, false))"


def _unquoted(name: str | None) -> str | None:
    """Return a name without the brackets or quotes in which drivers may send it; None for an empty one."""
    if name and len(name) > 1 and name[0] + name[-1] in ("[]", '""'):
        return name[1:-1]
    return name or None


def _database_id(session: Session, qualifier: str | None) -> int:
    """Return the number of the current database; error 15250 if ``qualifier`` names another one."""
    if qualifier and fold(qualifier) != fold(session.database):
        raise SqlError(
            15250, "The database name component of the object qualifier must be the name of the current database."
        )
    entry = session.catalog.database(session.database)
    return entry[0] if entry else 0


_TABLE_ID = (
    "(SELECT o.object_id FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)"
    " WHERE o.database_id = _db AND s.name = table_schema AND o.name = table_name)"
)


def sp_tables(session: Session, arguments: Arguments, frame: Frame) -> int:
    name, owner, qualifier, kind, _ = arguments.take(
        "table_name", "table_owner", "table_qualifier", "table_type", "fusepattern"
    )
    database = _database_id(session, qualifier)
    columns = columns_of(
        "TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname, TABLE_TYPE varchar(32), REMARKS varchar(254)"
    )
    sql = (
        "SELECT table_catalog::text, table_schema::text, table_name::text,"
        " CASE table_type WHEN 'BASE TABLE' THEN 'TABLE' ELSE 'VIEW' END,"
        " NULL::text FROM mssql_information_schema.tables WHERE _db ="
        f" {database} AND {_like('table_name', 1)} AND {_like('table_schema', 2)}"
        " AND ($3 IS NULL OR position(CASE table_type WHEN 'BASE TABLE'"
        " THEN '''TABLE''' ELSE '''VIEW''' END IN upper($3)) > 0)"
        f"{own_objects(session.security, session.database, _TABLE_ID)} ORDER BY 4, 1, 2, 3"
    )
    send_query(session, frame, columns, sql, name or None, owner or None, kind or None)
    return 0


_COLUMNS = columns_of(
    "TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname, COLUMN_NAME sysname, DATA_TYPE smallint, "
    "TYPE_NAME sysname, PRECISION int, LENGTH int, SCALE smallint, RADIX smallint, NULLABLE smallint, "
    "REMARKS varchar(254), COLUMN_DEF nvarchar(max), SQL_DATA_TYPE smallint, SQL_DATETIME_SUB smallint, "
    "CHAR_OCTET_LENGTH int, ORDINAL_POSITION int, IS_NULLABLE varchar(254), SS_DATA_TYPE tinyint"
)


_COLUMNS_100 = [
    *_COLUMNS[:-1],
    *columns_of(
        "SS_IS_SPARSE smallint, SS_IS_COLUMN_SET smallint, SS_IS_COMPUTED smallint, SS_IS_IDENTITY smallint, "
        "SS_UDT_CATALOG_NAME sysname, SS_UDT_SCHEMA_NAME sysname, SS_UDT_ASSEMBLY_TYPE_NAME sysname, "
        "SS_XML_SCHEMACOLLECTION_CATALOG_NAME sysname, SS_XML_SCHEMACOLLECTION_SCHEMA_NAME sysname, "
        "SS_XML_SCHEMACOLLECTION_NAME sysname"
    ),
    _COLUMNS[-1],
]


def _columns(session: Session, arguments: Arguments, frame: Frame, modern: bool) -> int:
    name, owner, qualifier, column, *_ = arguments.take(
        "table_name", "table_owner", "table_qualifier", "column_name", "odbcver", "namescope", "fusepattern"
    )
    database = _database_id(session, qualifier)
    extra = (
        "0::int2, 0::int2, (c.computed IS NOT NULL)::int::int2, c.identity::int2,"
        " NULL::text, NULL::text, NULL::text, NULL::text, NULL::text,"
        " NULL::text, "
        if modern
        else ""
    )
    sql = (
        f"SELECT d.name, s.name, o.name, c.name, {_ODBC_TYPE}, c.type_name"
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
        f" df.definition, {_ODBC_TYPE}, CASE WHEN c.type_name IN"
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
        f" {_like('o.name', 1)} AND {_like('s.name', 2)} AND {_like('c.name', 3)}"
        f"{own_objects(session.security, session.database, 'o.object_id')} ORDER BY s.name, o.name, c.column_id"
    )
    columns = _COLUMNS_100 if modern else _COLUMNS
    send_query(session, frame, columns, sql, _unquoted(name), _unquoted(owner), column or None)
    return 0


def sp_columns(session: Session, arguments: Arguments, frame: Frame) -> int:
    return _columns(session, arguments, frame, False)


def sp_columns_100(session: Session, arguments: Arguments, frame: Frame) -> int:
    return _columns(session, arguments, frame, True)


def sp_pkeys(session: Session, arguments: Arguments, frame: Frame) -> int:
    name, owner, qualifier = arguments.take("table_name", "table_owner", "table_qualifier")
    database = _database_id(session, qualifier)
    columns = columns_of(
        "TABLE_QUALIFIER sysname, TABLE_OWNER sysname, TABLE_NAME sysname, COLUMN_NAME sysname, KEY_SEQ smallint, "
        "PK_NAME sysname"
    )
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
    names = (_unquoted(name), _unquoted(owner))
    send_query(session, frame, columns, sql, *(each and fold(each) for each in names))
    return 0


def sp_datatype_info(session: Session, arguments: Arguments, frame: Frame) -> int:
    wanted, _ = arguments.take("data_type", "odbcver")
    columns = columns_of(
        "TYPE_NAME sysname, DATA_TYPE smallint, PRECISION int, LITERAL_PREFIX varchar(32), "
        "LITERAL_SUFFIX varchar(32), CREATE_PARAMS varchar(32), NULLABLE smallint, CASE_SENSITIVE smallint, "
        "SEARCHABLE smallint, UNSIGNED_ATTRIBUTE smallint, MONEY smallint, AUTO_INCREMENT smallint, "
        "LOCAL_TYPE_NAME sysname, MINIMUM_SCALE smallint, MAXIMUM_SCALE smallint, SQL_DATA_TYPE smallint, "
        "SQL_DATETIME_SUB smallint, NUM_PREC_RADIX int, INTERVAL_PRECISION smallint, USERTYPE smallint"
    )
    code = _ODBC_TYPE.replace("c.type_name", "t.name")
    sql = (
        f"SELECT t.name, {code}, CASE WHEN t.name IN ('nchar', 'nvarchar') THEN 4000"
        " WHEN t.name IN ('text', 'image') THEN 2147483647 WHEN t.name IN ('ntext', 'xml') THEN 1073741823"
        " WHEN t.name = 'uniqueidentifier' THEN 36 WHEN t.num_precision > 0 THEN t.num_precision"
        " ELSE t.size END, NULL::text, NULL::text, NULL::text, 1::int2, 0::int2,"
        " 3::int2, 0::int2, (t.name LIKE '%money')::int::int2, 0::int2, t.name, 0::int2, t.num_scale::int2, "
        f"{code}, NULL::int2, 10, NULL::int2, 0::int2 FROM mssql.types t WHERE t.name <>"
        f" 'sysname' AND ($1 IS NULL OR $1 = '0' OR ({code})::text = $1)"
        # The best type of each code comes first: pyodbc reads the precision of its datetime parameters there.
        " ORDER BY 2, t.name <> 'datetime2', 1"
    )
    send_query(session, frame, columns, sql, wanted)
    return 0
